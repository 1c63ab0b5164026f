"""Record steps: a checkpoint before, one after, and what happened between.

Does not cover: running anything (`host.command`), or taking a step back (`undo`).
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from takeback.files import checkpoint as checkpoints
from takeback.files.record import Recorder
from takeback.files.workspace import Workspace
from takeback.host import proc
from takeback.host.proc import ProcessId
from takeback.model import Event, EventKind
from takeback.timeline.fold import Timeline


@dataclass(frozen=True)
class Open:
    """A step that has begun."""

    id: str
    before: str
    session: str | None
    task: str | None


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
) -> Open:
    """Take the checkpoint before a step and record its beginning; the caller holds the lock."""
    before = checkpoints.take(
        workspace, recorder, text=f"before: {text}", session=session, task=task, state=state, only=only, own=True
    )
    data: dict[str, object] = {"named": list(named)}
    if owner is not None:
        data.update(pid=owner.pid, start=owner.start)
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
            before=before.id,
            text=text,
            data=data,
        ),
    )
    return Open(event.id, before.id, session, task)


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
    after = checkpoints.take(workspace, recorder, text="a step ended without a word", own=True)
    for done in dead:
        _end(workspace, recorder, done.id, done.session, done.task, after.id, {"lost": True})
    return True


def me() -> ProcessId:
    """Return the owner to record for a step of this process."""
    return proc.myself()


def named_paths(words: Sequence[str], shell_source: str | None, cwd: bytes, root: bytes) -> list[bytes]:
    """Return the paths below `root` that a command line spells: what the step owns when others work beside it."""
    spelled = list(words)
    if shell_source is not None:
        try:
            spelled = shlex.split(shell_source, comments=False)
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
