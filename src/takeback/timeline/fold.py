"""What the events add up to: which steps and restores there are, and which of them are taken back.

Does not cover: what undo and redo choose (see `algebra`), where events are kept, or what a step changed.
Pure: no files, no processes, no clock. All order is by `seq`; times are only carried along for display.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from enum import StrEnum
from typing import Any, NamedTuple

from takeback.model import Event, EventKind


class DoneStatus(StrEnum):
    """Open: no state after it is known yet. Live: it is in force. Undone: it is taken back."""

    OPEN = "open"
    LIVE = "live"
    UNDONE = "undone"


class Scope(NamedTuple):
    """Whose steps are meant; None is any session, any task of the worktree."""

    worktree: str
    session: str | None = None
    task: str | None = None

    def holds(self, worktree: str, session: str | None, task: str | None) -> bool:
        return (
            self.worktree == worktree
            and (self.session is None or self.session == session)
            and (self.task is None or self.task == task)
        )


class Done(NamedTuple):
    """All that is known about one step or restore (or, in `overlapping`, one undo or redo), from several events.

    `start_seq` and `end_seq` bound the time in which `before` became `after`. `ended` is true once its own end, with an
    `after`, was recorded; otherwise an `after` is the `before` of the next event of the same session. `undone_seq` is
    the seq of the undo that took it back, 0 when it is not taken back.
    """

    id: str
    kind: EventKind
    worktree: str
    session: str | None
    task: str | None
    before: str | None
    after: str | None
    start_seq: int
    end_seq: int | None
    started_ns: int
    ended_ns: int | None
    ended: bool
    undone_seq: int
    undone_by: str
    text: str
    targets: tuple[str, ...]
    data: dict[str, Any]

    @property
    def status(self) -> DoneStatus:
        if self.undone_seq:
            return DoneStatus.UNDONE
        return DoneStatus.OPEN if self.after is None else DoneStatus.LIVE

    @property
    def named(self) -> tuple[bytes, ...]:
        """The paths its own call named: what it owns when others worked at the same time."""
        names = self.data.get("named") or ()
        return tuple(name if isinstance(name, bytes) else name.encode("utf-8", "surrogateescape") for name in names)

    @property
    def exit(self) -> int | None:
        return self.data.get("exit")

    @property
    def has_owner(self) -> bool:
        """Whether a process was named that will record its end, so that no other event may close it."""
        return self.data.get("pid") is not None


class Mark(NamedTuple):
    """A person's prompt: where `undo --prompt` goes back to."""

    seq: int
    session: str | None
    task: str | None


class _Spans(NamedTuple):
    """A worktree's deeds by start, and for each the latest end among it and all before it."""

    starts: list[int]
    reach: list[float]


_DEEDS = (EventKind.STEP, EventKind.RESTORE)
_REVERSALS = (EventKind.UNDO, EventKind.REDO)


class Timeline:
    """The sum of all events up to `seq`; never changes, `append` and `extend` return a longer one."""

    def __init__(self) -> None:
        self.seq = 0
        self._deeds: dict[str, Done] = {}
        self._order: dict[str, list[str]] = {}
        self._waiting: dict[tuple[str, str | None], list[str]] = {}
        self._open: dict[str, None] = {}
        self._undone: dict[str, None] = {}
        self._last_step: dict[tuple[str, str | None], str] = {}
        self._marks: dict[str, list[Mark]] = {}
        self._checkpoints: dict[str, str] = {}
        self._spans: dict[str, _Spans] = {}

    def append(self, event: Event) -> Timeline:
        """Return the timeline with one event more; about a millisecond for 100,000 events, so use `extend` for many."""
        return self.extend((event,))

    def extend(self, events: Iterable[Event]) -> Timeline:
        """Return the timeline with these events after its own; raises ValueError when their seq does not grow."""
        longer = Timeline()
        longer.seq = self.seq
        longer._deeds = self._deeds.copy()
        longer._order = {key: ids.copy() for key, ids in self._order.items()}
        longer._waiting = {key: ids.copy() for key, ids in self._waiting.items()}
        longer._open = self._open.copy()
        longer._undone = self._undone.copy()
        longer._last_step = self._last_step.copy()
        longer._marks = {key: marks.copy() for key, marks in self._marks.items()}
        longer._checkpoints = self._checkpoints.copy()
        for event in events:
            longer._add(event)
        return longer

    def done(self, id: str) -> Done | None:
        """Return the step or restore of that id."""
        found = self._deeds.get(id)
        return found if found is not None and found.kind in _DEEDS else None

    def reversal(self, id: str) -> Done | None:
        """Return the undo or redo of that id."""
        found = self._deeds.get(id)
        return found if found is not None and found.kind in _REVERSALS else None

    def newest(self, scope: Scope) -> Iterator[Done]:
        """Yield the steps and restores of a scope, newest start first."""
        for id in reversed(self._order.get(scope.worktree, ())):
            found = self._deeds[id]
            if found.kind in _DEEDS and scope.holds(found.worktree, found.session, found.task):
                yield found

    def last(self, scope: Scope) -> Done | None:
        """Return the newest deed of a scope: a step, restore, undo or redo."""
        for id in reversed(self._order.get(scope.worktree, ())):
            found = self._deeds[id]
            if scope.holds(found.worktree, found.session, found.task):
                return found
        return None

    def open_steps(self, worktree: str | None = None) -> tuple[Done, ...]:
        """Return what has no known `after` yet, oldest first; of one worktree or of all."""
        found = (self._deeds[id] for id in self._open)
        return tuple(sorted((one for one in found if worktree in (None, one.worktree)), key=lambda one: one.start_seq))

    def undone(self, scope: Scope) -> tuple[Done, ...]:
        """Return what is taken back in a scope, the last taken back first, and of one undo the oldest first."""
        found = (self._deeds[id] for id in self._undone)
        mine = (one for one in found if scope.holds(one.worktree, one.session, one.task))
        return tuple(sorted(mine, key=lambda one: (-one.undone_seq, one.start_seq)))

    def last_step(self, worktree: str, session: str | None) -> Done | None:
        """Return the newest step of exactly this session (None: of no session), whatever became of it."""
        id = self._last_step.get((worktree, session))
        return None if id is None else self._deeds[id]

    def sessions(self, worktree: str) -> tuple[str, ...]:
        """Return the names of all sessions with a step in a worktree, sorted."""
        return tuple(sorted(name for place, name in self._last_step if place == worktree and name is not None))

    def has_steps(self, worktree: str) -> bool:
        return any(place == worktree for place, _ in self._last_step)

    def last_checkpoint(self, worktree: str) -> str | None:
        """Return the newest checkpoint somebody asked for: a CHECKPOINT event whose data has no true `own`."""
        return self._checkpoints.get(worktree)

    def marks(self, scope: Scope) -> Iterator[Mark]:
        """Yield the prompt marks of a scope, newest first."""
        for mark in reversed(self._marks.get(scope.worktree, ())):
            if scope.holds(scope.worktree, mark.session, mark.task):
                yield mark

    def overlapping(self, done: Done) -> tuple[Done, ...]:
        """Return what else changed the same worktree between the before and the after of `done`, oldest first.

        Undo and redo events count, and so does what is taken back by now: their hands were in the tree all the same.
        """
        ids = self._order.get(done.worktree, [])
        spans = self._spans.get(done.worktree)
        if spans is None:
            spans = self._spans[done.worktree] = self._measure(ids)
        end = _end(done)
        at = bisect_right(spans.starts, end) - 1
        found = []
        while at >= 0 and spans.reach[at] >= done.start_seq:
            other = self._deeds[ids[at]]
            if other.id != done.id and _end(other) >= done.start_seq:
                found.append(other)
            at -= 1
        return tuple(reversed(found))

    def _measure(self, ids: list[str]) -> _Spans:
        spans = _Spans([], [])
        far = 0.0
        for id in ids:
            one = self._deeds[id]
            far = max(far, _end(one))
            spans.starts.append(one.start_seq)
            spans.reach.append(far)
        return spans

    def _add(self, event: Event) -> None:
        if event.seq <= self.seq:
            raise ValueError(f"event {event.seq} after event {self.seq}")
        self.seq = event.seq
        kind = event.kind
        if event.before is not None and kind is not EventKind.STEP_END:
            self._close_waiting(event)
        if kind is EventKind.STEP:
            self._begin(event)
            self._last_step[event.worktree, event.session] = event.id
        elif kind is EventKind.STEP_END:
            for id in event.targets:
                self._end_step(id, event)
        elif kind is EventKind.RESTORE:
            self._begin(event)
        elif kind is EventKind.UNDO:
            self._begin(event)
            for id in event.targets:
                self._mark(id, event.seq, event.id)
        elif kind is EventKind.REDO:
            self._begin(event)
            for id in event.targets:
                self._mark(id, 0, "")
        elif kind is EventKind.PROMPT:
            self._marks.setdefault(event.worktree, []).append(Mark(event.seq, event.session, event.task))
        elif kind is EventKind.CHECKPOINT and not event.data.get("own"):
            self._checkpoints[event.worktree] = event.id

    def _begin(self, event: Event) -> None:
        if event.id in self._deeds:
            return
        open_ = event.after is None and event.kind in _DEEDS
        self._deeds[event.id] = made = Done(
            id=event.id,
            kind=event.kind,
            worktree=event.worktree,
            session=event.session,
            task=event.task,
            before=event.before,
            after=event.after,
            start_seq=event.seq,
            end_seq=None if open_ else event.seq,
            started_ns=event.at_ns,
            ended_ns=None if open_ else event.at_ns,
            ended=not open_,
            undone_seq=0,
            undone_by="",
            text=event.text,
            targets=event.targets,
            data=event.data,
        )
        self._order.setdefault(event.worktree, []).append(event.id)
        if open_:
            self._open[event.id] = None
            if not made.has_owner:
                self._waiting.setdefault((event.worktree, event.session), []).append(event.id)

    def _close_waiting(self, event: Event) -> None:
        # A hook that is only told of beginnings never records an end. The next event of its session says when it was
        # over; an event of another session says nothing, and a step with an owner waits for its owner.
        for id in self._waiting.pop((event.worktree, event.session), ()):
            one = self._deeds[id]
            if one.after is None and not one.undone_seq:
                self._close(
                    one._replace(after=event.before, end_seq=event.seq - 1, ended_ns=one.ended_ns or event.at_ns)
                )

    def _end_step(self, id: str, event: Event) -> None:
        one = self._deeds.get(id)
        if one is None or one.kind is not EventKind.STEP or (one.ended and not one.data.get("lost")):
            return
        data = {name: value for name, value in one.data.items() if name != "lost"}
        one = self._deeds[id] = one._replace(ended_ns=event.at_ns, data={**data, **event.data})
        if one.undone_seq:
            # What was taken back is what it had been up to then; a state of later would hold the undo itself.
            return
        if event.after is not None:
            self._close(one._replace(after=event.after, end_seq=event.seq, ended=True))
            return
        # An end without a state: the next event that has one gives it, also when an earlier one had seemed to.
        self._deeds[id] = one._replace(after=None, end_seq=None)
        self._open[id] = None
        waiting = self._waiting.setdefault((one.worktree, one.session), [])
        if id not in waiting:
            waiting.append(id)

    def _close(self, done: Done) -> None:
        self._deeds[done.id] = done
        self._open.pop(done.id, None)

    def _mark(self, id: str, undone_seq: int, undone_by: str) -> None:
        one = self.done(id)
        if one is None:
            return
        self._deeds[id] = one._replace(undone_seq=undone_seq, undone_by=undone_by)
        self._open.pop(id, None)
        self._undone.pop(id, None)
        if undone_seq:
            self._undone[id] = None
        elif one.after is None:
            self._open[id] = None


def _end(done: Done) -> float:
    return float("inf") if done.end_seq is None else done.end_seq


def fold(events: Iterable[Event]) -> Timeline:
    """Return the sum of all events, in order of seq; raises ValueError when their seq does not grow."""
    return Timeline().extend(events)
