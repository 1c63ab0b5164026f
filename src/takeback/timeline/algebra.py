"""What undo and redo mean: which steps and restores they take back or apply again.

Does not cover: carrying it out, and what a step changed. Pure: no files, no processes, no clock.
"""

from __future__ import annotations

from typing import NamedTuple, NoReturn

from takeback.errors import NothingToDo, UnknownId, UsageError
from takeback.model import EventKind
from takeback.redact import redacted
from takeback.timeline.fold import Done, DoneStatus, Scope, Timeline

# Two sessions in one worktree, time to the right:
#
#   A    s1      s3      u4(s3)
#   B        s2              u5(s2)  s6
#                                          ^ now
#   undo               s6: the newest live one of all. Then s1; never u4 or u5.
#   undo --session A   s1.
#   redo               s3, though u5 is newer: s6 began after u5 and ended B's line, and only B's.
#   redo s2            s2: an ended line is not lost, only no longer walked.


class UndoChoice(NamedTuple):
    """What to take back, newest first; or the checkpoint to go back to, which is then recorded as a restore.

    `running` are newer ones of the same scope that were passed over because no state after them is known yet.
    `already`: the newest failed and went back by itself, and nobody asked since; then nothing is taken back.
    """

    targets: tuple[Done, ...] = ()
    back_to: str | None = None
    running: tuple[Done, ...] = ()
    already: Done | None = None


class RedoChoice(NamedTuple):
    """What to apply again, in this order."""

    targets: tuple[Done, ...]


def choose_undo(
    timeline: Timeline, scope: Scope, step_id: str | None = None, *, prompt: bool = False, shared: bool = False
) -> UndoChoice:
    """Return what `undo` means now: a named one, all since a prompt, or the newest live one of the scope.

    `shared`: also a named one that is taken back but for what it shares with others.
    Open ones (see `Timeline.open_steps`) are passed over: append the STEP_END of dead owners, and of steps nobody
    owns, before asking. Raises NothingToDo, UnknownId, or UsageError when the request cannot be meant.
    """
    if step_id is not None:
        if prompt:
            raise UsageError(detail=f"--prompt and {step_id} are two different requests: give one of them")
        return UndoChoice(_with_escapes(timeline, scope, _undoable(timeline, scope, step_id, shared)))
    if prompt:
        return _since_prompt(timeline, scope)
    newest = timeline.last(scope)
    if newest is not None and newest.kind is EventKind.UNDO and newest.data.get("auto"):
        return UndoChoice(already=timeline.done(newest.targets[0]))
    running: list[Done] = []
    for done in timeline.newest(scope):
        if done.status is DoneStatus.LIVE:
            return UndoChoice(_with_escapes(timeline, scope, done), running=tuple(running))
        if done.status is DoneStatus.OPEN:
            running.append(done)
    if scope.session is None and scope.task is None and not timeline.has_steps(scope.worktree):
        last = timeline.last_checkpoint(scope.worktree)
        if last is not None:
            return UndoChoice(back_to=last)
    _nothing_to_undo(timeline, scope, running)


def _with_escapes(timeline: Timeline, scope: Scope, done: Done) -> tuple[Done, ...]:
    """Return a step together with what it changed beside (each a step of its own), newest first."""
    main = done.data.get("escape_of") or done.id
    found = []
    for one in timeline.newest(scope):
        if one.status is DoneStatus.LIVE and main in (one.id, one.data.get("escape_of")):
            found.append(one)
        if one.id == main:
            break
    return tuple(found) or (done,)


def choose_redo(timeline: Timeline, scope: Scope, step_id: str | None = None) -> RedoChoice:
    """Return what `redo` means now: a named one, or all that the newest undo on a line not ended took back.

    Raises NothingToDo, UnknownId, or UsageError when the request cannot be meant.
    """
    if step_id is not None:
        return RedoChoice((_redoable(timeline, scope, step_id),))
    line = redo_line(timeline, scope)
    if not line:
        _nothing_to_redo(timeline, scope)
    return RedoChoice(tuple(done for done in line if done.undone_seq == line[0].undone_seq))


def redo_line(timeline: Timeline, scope: Scope) -> tuple[Done, ...]:
    """Return what repeated `redo` would apply again, in that order.

    An undone one is off the line once its own session began a step after it was taken back.
    """
    return tuple(done for done in timeline.undone(scope) if _ended_by(timeline, done) is None)


def _ended_by(timeline: Timeline, done: Done) -> Done | None:
    last = timeline.last_step(done.worktree, done.session)
    return last if last is not None and last.start_seq > done.undone_seq else None


def _since_prompt(timeline: Timeline, scope: Scope) -> UndoChoice:
    live: list[Done] = []
    running: list[Done] = []
    dones = timeline.newest(scope)
    done = next(dones, None)
    seen_mark = False
    for mark in timeline.marks(scope):
        seen_mark = True
        while done is not None and done.start_seq > mark.seq:
            if done.status is DoneStatus.LIVE:
                live.append(done)
            elif done.status is DoneStatus.OPEN:
                running.append(done)
            done = next(dones, None)
        if live:
            return UndoChoice(tuple(live), running=tuple(running))
    if not seen_mark:
        raise NothingToDo(
            sentence=f"nothing to undo: no prompt was recorded in this worktree{_of(scope)}",
            next="`takeback undo` takes back the newest step",
        )
    if running:
        _nothing_to_undo(timeline, scope, running)
    raise NothingToDo(
        sentence=f"nothing to undo: all that was done since the oldest prompt{_of(scope)} is already taken back",
        next="`takeback undo` goes back further, one step at a time; `takeback redo` applies the newest again",
    )


def _undoable(timeline: Timeline, scope: Scope, id: str, shared: bool) -> Done:
    done = _named(timeline, scope, id)
    if done.status is DoneStatus.UNDONE:
        by = timeline.reversal(done.undone_by)
        if by is not None and by.data.get("shared"):
            if shared:
                return done
            raise NothingToDo(
                sentence=f"{id} is already taken back, but for what other steps share with it",
                next=f"`takeback undo {id} --shared` takes that back too; `takeback redo {id}` applies it again",
            )
        raise NothingToDo(sentence=f"{id} is already taken back", next=f"`takeback redo {id}` applies it again")
    if done.status is DoneStatus.OPEN:
        raise NothingToDo(sentence=f"{_title(done)} is still running", next="stop it or wait for its end, and repeat")
    return done


def _redoable(timeline: Timeline, scope: Scope, id: str) -> Done:
    done = _named(timeline, scope, id)
    if done.status is not DoneStatus.UNDONE:
        raise NothingToDo(sentence=f"{id} is not taken back", next=f"`takeback undo {id}` takes it back")
    return done


def _named(timeline: Timeline, scope: Scope, id: str) -> Done:
    done = timeline.done(id)
    if done is None:
        _no_such_step(timeline, scope, id)
    if done.worktree != scope.worktree:
        raise UsageError(detail=f"{id} was done in another worktree of this project: run the command there")
    if not scope.holds(done.worktree, done.session, done.task):
        raise UsageError(detail=f"{id} is not{_of(scope)}: name it without --session and --task")
    return done


def _no_such_step(timeline: Timeline, scope: Scope, id: str) -> NoReturn:
    reversal = timeline.reversal(id)
    if reversal is not None:
        if reversal.kind is EventKind.UNDO:
            raise UsageError(
                detail=f"{id} is an undo: `takeback redo {_last(reversal)}` applies again what it took back"
            )
        raise UsageError(detail=f"{id} is a redo: `takeback undo {_last(reversal)}` takes back what it applied")
    if id[:1] == "c" and id[1:].isdecimal():
        raise UsageError(detail=f"{id} names a checkpoint: `takeback restore {id}` puts the whole tree back to it")
    raise UnknownId(what="step", id=id, nearest=_nearest(timeline, scope, id))


def _last(reversal: Done) -> str:
    return reversal.targets[-1] if reversal.targets else "STEP"


def _nearest(timeline: Timeline, scope: Scope, id: str) -> str:
    ids = [done.id for done in timeline.newest(Scope(scope.worktree))]
    if not ids:
        return "no step was recorded in this worktree yet"
    wanted = _number(id)
    if wanted is None:
        return f"the newest is {ids[0]}; `takeback log` lists them"
    # The same letter first, then the closest number, then the newest.
    best = min(ids, key=lambda one: (id[:1].isalpha() and one[:1] != id[:1], abs((_number(one) or 0) - wanted)))
    return f"the nearest is {best}; `takeback log` lists them"


def _number(id: str) -> int | None:
    digits = "".join(char for char in id if char in "0123456789")
    return int(digits[-15:]) if digits else None


def _nothing_to_undo(timeline: Timeline, scope: Scope, running: list[Done]) -> NoReturn:
    if running:
        raise NothingToDo(
            sentence=f"nothing to undo: {_title(running[0])} is still running, and nothing older is left to take back",
            next="stop it or wait for its end, and repeat",
        )
    if any(True for _ in timeline.newest(scope)):
        raise NothingToDo(
            sentence=f"nothing to undo: every step in this worktree{_of(scope)} is already taken back",
            next="`takeback redo` applies the newest again",
        )
    others = [name for name in timeline.sessions(scope.worktree) if name != scope.session]
    if scope.session is not None and others:
        shown = ", ".join(others[:5]) + (", ..." if len(others) > 5 else "")
        hint = f"sessions with steps here: {shown}"
    elif _of(scope) and timeline.has_steps(scope.worktree):
        hint = "`takeback log` lists the steps of this worktree"
    else:
        hint = "`takeback run -- COMMAND` records a step, `takeback checkpoint` saves a state to go back to"
    raise NothingToDo(sentence=f"nothing to undo: no step was recorded in this worktree{_of(scope)}", next=hint)


def _nothing_to_redo(timeline: Timeline, scope: Scope) -> NoReturn:
    for done in timeline.undone(scope):
        ender = _ended_by(timeline, done)
        if ender is not None:
            raise NothingToDo(
                sentence=f"nothing to redo: {ender.id} was begun after {done.id} was taken back and ended that line",
                next=f"`takeback redo {done.id}` applies it again all the same",
            )
    raise NothingToDo(
        sentence=f"nothing to redo: no step in this worktree{_of(scope)} is taken back",
        next="`takeback undo` takes back the newest step",
    )


def _of(scope: Scope) -> str:
    session = "" if scope.session is None else f" of session {scope.session!r}"
    return session + ("" if scope.task is None else f" of task {scope.task!r}")


def _title(done: Done) -> str:
    line = " ".join(redacted(done.text).split())  # before it is cut: half a key has no shape
    return f"{done.id} ({line[:57]}...)" if len(line) > 60 else f"{done.id} ({line})" if line else done.id
