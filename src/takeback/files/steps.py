"""Record steps: a checkpoint before, one after, and what happened between.

Does not cover: running anything (`host.command`), or taking a step back (`undo`).
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from takeback.files import checkpoint as checkpoints
from takeback.files.record import Recorder
from takeback.files.workspace import Workspace
from takeback.host import proc
from takeback.host.proc import ProcessId
from takeback.model import CheckpointResult, Event, EventKind
from takeback.timeline.fold import Timeline

_LONGEST = 20_000


@dataclass(frozen=True)
class Open:
    """A step that has begun; `data` is what was recorded with it."""

    id: str
    before: str
    session: str | None
    task: str | None
    data: Mapping[str, object] = field(default_factory=dict)


def begin(
    workspace: Workspace,
    recorder: Recorder,
    *,
    text: str,
    session: str | None,
    task: str | None,
    named: Iterable[bytes],
    state: bool,
    owner: ProcessId | None,
    only: Iterable[bytes] | None = None,
    about: Mapping[str, object] | None = None,
    taken: Callable[[CheckpointResult], Mapping[str, object]] | None = None,
) -> Open:
    """Take the checkpoint before a step and record its beginning; the caller holds the lock.

    `taken` is called after the checkpoint and before the step is recorded; what it returns, and `about`, go into the
    step's data.
    """
    before = checkpoints.take(
        workspace, recorder, text=f"before: {text}", session=session, task=task, state=state, only=only, own=True
    )
    data: dict[str, object] = {"named": list(named), **(about or {}), **(taken(before) if taken is not None else {})}
    if owner is not None:
        data.update(pid=owner.pid, start=owner.start)
    return _opened(workspace, recorder, before.id, text, session, task, data)


def read_only(
    workspace: Workspace,
    recorder: Recorder,
    *,
    text: str,
    session: str | None,
    task: str | None,
    owner: ProcessId | None,
    about: Mapping[str, object],
) -> Open:
    """Record the beginning of a step that changes nothing: no checkpoint is taken where there is one already."""
    newest = next(iter(recorder.timeline.checkpoints(workspace.dir.key)), None)
    if newest is None:
        before = checkpoints.take(workspace, recorder, text=f"before: {text}", session=session, task=task, own=True).id
    else:
        before = newest.id
    data: dict[str, object] = {"named": [], **about}
    if owner is not None:
        data.update(pid=owner.pid, start=owner.start)
    return _opened(workspace, recorder, before, text, session, task, data)


def has_read(workspace: Workspace, recorder: Recorder, step: Open, data: dict[str, object]) -> None:
    """Record the end of a step that `read_only` began: what was before is what is after."""
    _end(workspace, recorder, step.id, step.session, step.task, step.before, data)


def _opened(
    workspace: Workspace,
    recorder: Recorder,
    before: str,
    text: str,
    session: str | None,
    task: str | None,
    data: dict[str, object],
) -> Open:
    event = recorder.event(
        EventKind.STEP,
        lambda id: Event(
            seq=0,
            id=id,
            kind=EventKind.STEP,
            at_ns=workspace.now_ns(),
            worktree=workspace.dir.key,
            session=session,
            task=task,
            before=before,
            text=text,
            data=data,
        ),
    )
    return Open(event.id, before, session, task, data)


def finish(
    workspace: Workspace,
    recorder: Recorder,
    step: Open,
    *,
    state: bool,
    data: dict[str, object],
    only: Iterable[bytes] | None = None,
) -> str:
    """Take the checkpoint after a step and record its end; returns the checkpoint's id."""
    after = checkpoints.take(
        workspace, recorder, text=f"after {step.id}", session=step.session, task=step.task, state=state, only=only,
        own=True,
    )  # fmt: skip
    _end(workspace, recorder, step.id, step.session, step.task, after.id, data)
    return after.id


def _end(
    w: Workspace,
    recorder: Recorder,
    id: str,
    session: str | None,
    task: str | None,
    after: str,
    data: dict[str, object],
) -> None:
    recorder.event(
        EventKind.STEP_END,
        lambda own: Event(
            seq=0,
            id=own,
            kind=EventKind.STEP_END,
            at_ns=w.now_ns(),
            worktree=w.dir.key,
            session=session,
            task=task,
            after=after,
            targets=(id,),
            data=data,
        ),
    )


def close_dead(workspace: Workspace, recorder: Recorder, timeline: Timeline) -> bool:
    """Record the end of steps whose process is gone: what is there now is what they left. True when there was one."""
    dead = []
    for done in timeline.open_steps(workspace.dir.key):
        pid, start = done.data.get("pid"), done.data.get("start")
        if pid is None or not ProcessId(int(pid), str(start)).alive():
            dead.append(done)
    if not dead:
        return False
    after: str | None = None
    for done in dead:
        if done.data.get("cls") == "none" and done.before is not None:
            # It only read: what changed since is other hands' work.
            _end(workspace, recorder, done.id, done.session, done.task, done.before, {"lost": True})
            continue
        if after is None:
            after = checkpoints.take(workspace, recorder, text="a step ended without a word", own=True).id
        _end(workspace, recorder, done.id, done.session, done.task, after, {"lost": True})
    return True


def me() -> ProcessId:
    """Return the owner to record for a step of this process."""
    return proc.myself()


def named_paths(words: Sequence[str], shell_source: str | None, cwd: bytes, root: bytes) -> list[bytes]:
    """Return the paths below `root` that a command line spells: what the step owns when others work beside it."""
    spelled = list(words)
    if shell_source is not None:
        try:
            # It takes the square of a word's length.
            long = len(shell_source) > _LONGEST
            spelled = shell_source.split() if long else shlex.split(shell_source, comments=False)
        except ValueError:
            spelled = shell_source.split()
    found: set[bytes] = set()
    for word in spelled:
        for part in {word, word.lstrip("<>&0123456789"), word.rpartition("=")[2], word.rstrip(";|&")}:
            if not part or part.startswith("-"):
                continue
            try:
                full = os.path.normpath(os.path.join(cwd, os.fsencode(part)))
            except ValueError:
                continue
            if b"\0" in full:
                continue
            if full == root:
                found.add(b"")
            elif full.startswith(root.rstrip(b"/") + b"/"):
                found.add(os.path.relpath(full, root))
    return sorted(found)
