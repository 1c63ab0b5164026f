"""Look at the timeline and at checkpoints: log, show, diff, status.

Does not cover: changing anything.
"""

from __future__ import annotations

import difflib
import os
import stat
from collections.abc import Callable
from dataclasses import replace

from takeback.errors import NothingToDo, TakebackError, UnknownId
from takeback.files import gitparts
from takeback.files import plan as plans
from takeback.files.plan import Snapshot
from takeback.files.workspace import Workspace
from takeback.model import Change, ChangeKind, Checkpoint, Entry, Event, EventKind, Status
from takeback.store.base import TimelineStore
from takeback.timeline import algebra
from takeback.timeline.fold import Done, Scope, Timeline, fold

_TEXT_LIMIT = 2 * 1024 * 1024


def log(
    store: TimelineStore, worktree: str, *, limit: int | None, session: str | None, task: str | None
) -> list[Event]:
    """Return the events of a worktree, newest first, each step joined with its end."""
    events = list(store.events())
    timeline = fold(events)
    result: list[Event] = []
    for event in reversed(events):
        if event.worktree != worktree or event.kind is EventKind.STEP_END:
            continue
        if (session is not None and event.session != session) or (task is not None and event.task != task):
            continue
        result.append(_joined(timeline, event))
        if limit is not None and len(result) >= limit:
            break
    return result


def _joined(timeline: Timeline, event: Event) -> Event:
    done = timeline.done(event.id)
    if done is None:
        return event
    data = {**event.data, **done.data, "status": str(done.status)}
    if done.undone_by:
        data["undone_by"] = done.undone_by
    if done.ended_ns is not None:
        data["ended_ns"] = done.ended_ns
    return replace(event, after=done.after, data=data)


def show(
    workspace: Workspace, store: TimelineStore, id: str, checkpoint: Callable[[str], Checkpoint]
) -> tuple[Event, Checkpoint | None, list[Change]]:
    """Return one event, its checkpoint if it is one, and what changed with it."""
    events = list(store.events())
    timeline = fold(events)
    found = next((event for event in events if event.id == id and event.kind is not EventKind.STEP_END), None)
    if found is None:
        raise UnknownId(what="event", id=id, nearest=nearest(store, id))
    event = _joined(timeline, found)
    if event.kind is EventKind.CHECKPOINT:
        mine = checkpoint(id)
        earlier = [one for one in store.checkpoints(mine.worktree) if one.at_ns < mine.at_ns and one.id != id]
        before = earlier[0] if earlier else None
        changes = _changes(workspace, before, mine) if before is not None else []
        return event, mine, changes
    if event.before and event.after and event.before != event.after:
        before, after = store.checkpoint(event.before), store.checkpoint(event.after)
        if before is None or after is None:  # `gc` took it
            return replace(event, data={**event.data, "removed": event.after if before else event.before}), None, []
        return event, None, _changes(workspace, before, after)
    return event, None, []


def count_changes(workspace: Workspace, before: Checkpoint, after: Checkpoint) -> int:
    """Return how many paths, index entries and refs differ, times alone not counted."""
    return 0 if before.id == after.id else len(_changes(workspace, before, after))


def diff(
    workspace: Workspace, one: Snapshot, two: Snapshot, chosen: tuple[bytes, ...], *, text: bool
) -> tuple[list[Change], bytes]:
    """Return the changes between two checkpoints, and as a unified diff when `text`."""
    pairs, _ = plans.between(workspace, one, two)
    changes: list[Change] = []
    parts: list[bytes] = []
    for path in sorted(pairs):
        if not plans.selected(path, chosen):
            continue
        change = _change(path, *pairs[path], one, two)
        if change is None:
            continue
        added, deleted, lines = _compare(workspace, path, *pairs[path], text=text)
        changes.append(replace(change, added_lines=added, deleted_lines=deleted))
        parts.append(lines)
    changes += [item for item in _git_changes(workspace, one, two) if plans.selected(item.path, chosen)]
    return changes, b"".join(parts)


def _changes(w: Workspace, before: Checkpoint, after: Checkpoint) -> list[Change]:
    one, two = Snapshot(w, before), Snapshot(w, after)
    pairs, _ = plans.between(w, one, two)
    found = [_change(path, *pairs[path], one, two) for path in sorted(pairs)]
    return [change for change in found if change is not None] + _git_changes(w, one, two)


def _change(path: bytes, old: Entry | None, new: Entry | None, one: Snapshot, two: Snapshot) -> Change | None:
    where = "state" if one.in_state(path) or two.in_state(path) else "files"
    if old is None:
        kind = ChangeKind.ADDED
    elif new is None:
        kind = ChangeKind.DELETED
    elif stat.S_IFMT(old.mode) != stat.S_IFMT(new.mode):
        kind = ChangeKind.TYPE
    elif old.oid != new.oid:
        kind = ChangeKind.MODIFIED
    elif old.mode != new.mode:
        kind = ChangeKind.MODE
    else:
        return None  # only a time
    return Change(path, kind, where, _say(old), _say(new))


def _say(entry: Entry | None) -> str:
    if entry is None:
        return ""
    return f"{entry.mode:o}" if entry.is_dir else f"{entry.mode:o} {entry.oid}"


def _git_changes(w: Workspace, one: Snapshot, two: Snapshot) -> list[Change]:
    if one.parts.refs is None or two.parts.refs is None:
        return []
    result = []
    for path, (old, new) in sorted(gitparts.diff_index(w.store, w.objects, one.parts.index, two.parts.index).items()):
        kind = ChangeKind.ADDED if not old else ChangeKind.DELETED if not new else ChangeKind.MODIFIED
        result.append(Change(path, kind, "index", " ".join(map(str, old)), " ".join(map(str, new))))
    before, after = gitparts.read_refs(w.objects, one.parts.refs), gitparts.read_refs(w.objects, two.parts.refs)
    values = [
        ("HEAD", before.head, after.head),
        ("refs/stash", " ".join(oid for oid, _ in before.stash), " ".join(oid for oid, _ in after.stash)),
    ]
    for name in sorted((before.refs.keys() | after.refs.keys()) - {"refs/stash"}):
        values.append((name, before.refs.get(name, ("", ""))[0], after.refs.get(name, ("", ""))[0]))
    for name, was, now in values:
        if was != now:
            kind = ChangeKind.ADDED if not was else ChangeKind.DELETED if not now else ChangeKind.MODIFIED
            result.append(Change(name.encode("utf-8", "surrogateescape"), kind, "refs", was, now))
    return result


def _compare(
    w: Workspace, path: bytes, old: Entry | None, new: Entry | None, *, text: bool
) -> tuple[int | None, int | None, bytes]:
    """Return (lines added, lines deleted, unified diff); None for binaries and directories."""
    if _is_folder(old) or _is_folder(new):
        return None, None, b""
    sides = []
    for entry in (old, new):
        if entry is None:
            sides.append(b"")
        elif (w.objects.size(entry.oid) or 0) > _TEXT_LIMIT:
            return None, None, _binary(path)
        else:
            sides.append(w.objects.read(entry.oid, "blob"))
    if any(b"\0" in side for side in sides):
        return None, None, _binary(path)
    before, after = (side.splitlines(keepends=True) for side in sides)
    added = deleted = 0
    lines: list[bytes] = []
    heads = (b"a/" + path if old else b"/dev/null", b"b/" + path if new else b"/dev/null")
    for line in difflib.diff_bytes(difflib.unified_diff, before, after, *heads, lineterm=b"\n"):
        added += line.startswith(b"+") and not line.startswith(b"+++ ")
        deleted += line.startswith(b"-") and not line.startswith(b"--- ")
        lines.append(line if line.endswith(b"\n") else line + b"\n\\ No newline at end of file\n")
    return added, deleted, b"".join(lines) if text else b""


def _binary(path: bytes) -> bytes:
    return b"Binary file " + path + b" differs\n"


def _is_folder(entry: Entry | None) -> bool:
    return entry is not None and entry.is_dir


def status(workspace: Workspace, store: TimelineStore, timeline: Timeline, paused_until: int) -> Status:
    """Return what `takeback` alone prints."""
    key = workspace.dir.key
    last = next(iter(store.checkpoints(key)), None)
    scope = Scope(key)
    recent = [_event(done) for done, _ in zip(timeline.newest(scope), range(5), strict=False)]
    if not os.path.isdir(workspace.place.root):
        protected, why = False, "the folder is gone; `takeback undo` or `takeback restore ID` brings it back"
    elif paused_until:
        protected, why = False, "paused; `takeback resume` takes checkpoints again"
    elif last is None:
        protected, why = False, "no checkpoint yet; `takeback checkpoint` makes the first"
    else:
        protected, why = True, "every step through takeback can be taken back"
    return Status(
        protected=protected,
        why=why,
        root=workspace.place.root,
        last_checkpoint=last.id if last else "",
        last_checkpoint_ns=last.at_ns if last else 0,
        steps=tuple(recent),
        undo=_would(lambda: algebra.choose_undo(timeline, scope)),
        redo=_would(lambda: algebra.choose_redo(timeline, scope)),
        disk_bytes=folder_size(os.fsencode(workspace.project.path)),
        paused_until_ns=paused_until,
        notes=("a restore, undo or redo was interrupted; the next command finishes it",)
        if workspace.dir.journal.exists()
        else (),
    )


def _event(done: Done) -> Event:
    return Event(
        seq=done.start_seq, id=done.id, kind=done.kind, at_ns=done.started_ns, worktree=done.worktree,
        session=done.session, task=done.task, before=done.before, after=done.after, targets=done.targets,
        text=done.text, data={**done.data, "status": str(done.status), "undone_by": done.undone_by},
    )  # fmt: skip


def _would(choose: Callable[[], algebra.UndoChoice | algebra.RedoChoice]) -> str:
    try:
        choice = choose()
    except NothingToDo:
        return ""
    except TakebackError:
        return ""
    if isinstance(choice, algebra.UndoChoice) and choice.back_to is not None:
        return f"back to {choice.back_to}"
    if isinstance(choice, algebra.UndoChoice) and choice.already is not None:
        return f"nothing yet: {choice.already.id} failed and was taken back by itself; then the step before it"
    return ", ".join(f"{done.id} {done.text}".strip() for done in choice.targets)


def nearest(store: TimelineStore, id: str) -> str:
    """Return a hint with the ids closest to one that does not exist."""
    known = [checkpoint.id for checkpoint in store.checkpoints()]
    known += [event.id for event in store.events() if event.kind in (EventKind.STEP, EventKind.RESTORE)]
    near = difflib.get_close_matches(id, known, 3, 0.3)
    if near:
        return f"nearest: {', '.join(near)}; `takeback log` lists them all"
    return "`takeback log` lists them all" if known else "`takeback checkpoint` makes the first"


def folder_size(path: bytes) -> int:
    """Return the bytes on disk below a folder, hard links counted once."""
    total = 0
    seen: set[tuple[int, int]] = set()
    for folder, _, files in os.walk(path):
        for name in files:
            try:
                found = os.lstat(os.path.join(folder, name))
            except OSError:
                continue
            if found.st_nlink > 1:
                if (found.st_dev, found.st_ino) in seen:
                    continue
                seen.add((found.st_dev, found.st_ino))
            total += found.st_blocks * 512
    return total
