"""Find what a step changed beyond its class, once a later checkpoint differs from the one before the step.

A step that only reads has no checkpoint of its own, and a step of project files none of what git ignores. What changed
meanwhile is such a step's doing when it changed inside the step's span (ctime; of what is gone, the time of its
folder); all else was done by other hands, and is left out. Does not cover: taking checkpoints, or undoing.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field

from takeback.files import plan as plans
from takeback.files.checkpoint import Parts
from takeback.files.plan import Snapshot
from takeback.files.record import Recorder
from takeback.files.workspace import Workspace
from takeback.model import Checkpoint, Event, EventKind, Kind
from takeback.timeline.fold import Done, Scope, Timeline

# The kernel stamps files with the time of its last tick, which may be this much behind the clock (100 Hz at worst).
_TICK_NS = 10_000_000
_READS = "none"
_LIGHT = (_READS, "files")


@dataclass
class Escape:
    """What one step changed although its class said it would not; `state`: ignored files are among it."""

    step: Done
    before: str
    after: str
    paths: list[bytes] = field(default_factory=list)
    git: bool = False
    state: bool = False

    @property
    def cls(self) -> str:
        """The lightest class that would have covered it."""
        return "state" if self.state else "files"


def suspects(timeline: Timeline, recorder: Recorder, worktree: str) -> list[Done]:
    """Return the steps that changed who knows what, since no checkpoint after them shows it, newest first."""
    last, last_state = _newest(recorder, worktree, "")
    return [done for done in _light(timeline, worktree, last_state or last) if last_state or _reads_since(done, last)]


def find(
    w: Workspace, recorder: Recorder, timeline: Timeline, now: Checkpoint, parts: Parts | None = None
) -> list[Escape]:
    """Return what steps changed beyond their class, as a checkpoint just taken shows it, oldest step first.

    `parts` are those of one that is not recorded (see `checkpoint.peek`). Raises Damaged.
    """
    last, last_state = _newest(recorder, w.dir.key, now.id)
    mine = _light(timeline, w.dir.key, last_state or last)
    found: dict[tuple[str, bool], Escape] = {}
    readers = [one for one in mine if _reads_since(one, last)]
    if last is not None and readers:
        one, two = Snapshot(w, last), Snapshot(w, now, parts)
        pairs, _ = plans.between(w, one, two)
        _attribute(w, pairs, readers, last, now, found)
        _attribute_git(w, one, two, readers, last, now, found)
    if last_state is not None and now.kind is Kind.STATE and mine:
        one, two = Snapshot(w, last_state), Snapshot(w, now, parts)
        pairs, _ = plans.between(w, one, two)
        ignored = {path: pair for path, pair in pairs.items() if one.in_state(path) or two.in_state(path)}
        _attribute(w, ignored, mine, last_state, now, found, state=True)
    return sorted(found.values(), key=lambda escape: (escape.step.start_seq, escape.state))


def record(w: Workspace, recorder: Recorder, escape: Escape) -> Event:
    """Append an escape as a step of its own, which owns only the paths that were found."""
    step = escape.step
    return recorder.event(
        EventKind.STEP,
        lambda id: Event(
            seq=0,
            id=id,
            kind=EventKind.STEP,
            at_ns=w.now_ns(),
            worktree=w.dir.key,
            session=step.session,
            task=step.task,
            before=escape.before,
            after=escape.after,
            text=f"what {step.id} changed beside: {step.text}",
            data={"named": escape.paths, "escape_of": step.id, "git": escape.git, "cls": escape.cls},
        ),
    )


def _newest(recorder: Recorder, worktree: str, but: str) -> tuple[Checkpoint | None, Checkpoint | None]:
    """Return the newest checkpoint, and the newest with ignored files, other than `but`."""
    last = None
    for one in recorder.timeline.checkpoints(worktree):
        if one.id == but:
            continue
        last = last or one
        if one.kind is Kind.STATE:
            return last, one
    return last, None


def _light(timeline: Timeline, worktree: str, since: Checkpoint | None) -> list[Done]:
    """Return the ended steps of a light class that began after a checkpoint, newest first."""
    found = []
    for done in timeline.newest(Scope(worktree)):
        if since is None or done.started_ns < since.at_ns:
            break
        told = done.data
        # When a lost one ended nobody knows, so nothing can be laid at its door.
        if done.ended_ns is None or told.get("lost") or told.get("escape_of") or told.get("cls") not in _LIGHT:
            continue
        found.append(done)
    return found


def _reads_since(done: Done, last: Checkpoint | None) -> bool:
    return last is not None and done.data["cls"] == _READS and done.before == last.id


def _attribute(
    w: Workspace,
    pairs: plans.Pairs,
    steps: list[Done],
    before: Checkpoint,
    after: Checkpoint,
    found: dict[tuple[str, bool], Escape],
    *,
    state: bool = False,
) -> None:
    unsure: list[bytes] = []
    for path, (old, new) in sorted(pairs.items()):
        if old is not None and old.same_value(new):
            continue  # only a time
        at = _changed_at(w.real(path))
        step = _inside(at, steps)
        if step is not None:
            # Of its own for ignored files: these were last seen at another time than the rest.
            found.setdefault((step.id, state), Escape(step, before.id, after.id, state=state)).paths.append(path)
        elif new is None:
            unsure.append(path)
    # Something was made later where this was deleted, so its time is lost: then it was who did other such things.
    liars = [escape for (_, of_state), escape in found.items() if of_state is state]
    if liars and unsure:
        liars[0].paths = sorted([*liars[0].paths, *unsure])


def _attribute_git(
    w: Workspace,
    one: Snapshot,
    two: Snapshot,
    steps: list[Done],
    before: Checkpoint,
    after: Checkpoint,
    found: dict[tuple[str, bool], Escape],
) -> None:
    if not w.has_git or w.place.git_dir is None or w.place.common_dir is None:
        return
    looked = []
    if one.parts.index != two.parts.index:
        looked.append(os.path.join(w.place.git_dir, b"index"))
    if one.parts.refs != two.parts.refs:
        looked += [os.path.join(w.place.git_dir, b"HEAD"), os.path.join(w.place.common_dir, b"packed-refs")]
        looked += [os.path.join(top, name) for top, _, files in os.walk(os.path.join(w.place.common_dir, b"refs"))
                   for name in files]  # fmt: skip
    for path in looked:
        step = _inside(_changed_at(path), steps)
        if step is not None:
            found.setdefault((step.id, False), Escape(step, before.id, after.id)).git = True


def _changed_at(path: bytes) -> int:
    """Return when a path was last changed; of one that is gone, when something last changed in its folder."""
    try:
        return os.lstat(path).st_ctime_ns
    except OSError:
        pass
    above = os.path.dirname(path)
    while above and above != os.path.dirname(above):
        try:
            return os.lstat(above).st_mtime_ns
        except OSError:
            above = os.path.dirname(above)
    return 0


def _inside(at_ns: int, steps: list[Done]) -> Done | None:
    for step in steps:
        if step.ended_ns is not None and step.started_ns - _TICK_NS <= at_ns <= step.ended_ns:
            return step
    return None
