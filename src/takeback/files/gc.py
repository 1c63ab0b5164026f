"""Remove old checkpoints and what only they held, and say how much disk is used.

Does not cover: the timeline's events, which stay; an undo that needs a removed checkpoint says so.
"""

from __future__ import annotations

import os
from collections.abc import Collection
from contextlib import suppress

from takeback.errors import Damaged, DiskFull, GitFailed
from takeback.files import cursor as cursors
from takeback.files import gitparts, leftovers, tree
from takeback.files.anchor import release
from takeback.files.checkpoint import read_parts
from takeback.files.plan import Snapshot
from takeback.files.record import REF, Recorder, delete_refs
from takeback.files.views import folder_size
from takeback.files.workspace import Workspace
from takeback.host import trash
from takeback.model import Checkpoint, GcResult, Usage
from takeback.store.base import TimelineStore
from takeback.timeline.fold import Scope, Timeline

_REPACK = ("repack", "-a", "-d", "-q", "--window=5", "--depth=20")
_STEPS = 20  # so many of a worktree's newest steps can always be undone and redone


def collect(
    workspace: Workspace,
    recorder: Recorder,
    timeline: Timeline,
    *,
    keep: int | None,
    older_than_s: float | None,
    max_bytes: int | None,
    dry_run: bool,
    named: Collection[str] = (),
) -> GcResult:
    """Remove checkpoints beyond the newest `keep`, older than an age, or until the store is under a size.

    Always kept: the newest of every worktree, what its newest 20 steps need, and those in `named`.
    Raises GitFailed, DiskFull.
    """
    before = folder_size(workspace.project.store)
    everything = list(recorder.timeline.checkpoints())
    needed = _needed(timeline, everything) | set(named)
    if keep is None and older_than_s is None and max_bytes is None:
        keep = workspace.settings.keep
    oldest = None if older_than_s is None else workspace.now_ns() - older_than_s * 1e9
    removable = [one for one in everything if one.id not in needed]
    removed = [
        one
        for place, one in enumerate(everything)
        if one.id not in needed
        and ((keep is not None and place >= keep) or (oldest is not None and one.at_ns < oldest))
    ]
    if dry_run:
        if max_bytes is not None and before > max_bytes:
            removed = removable  # which of them are enough is only known by doing it
        ids = tuple(one.id for one in reversed(removed))
        return GcResult(True, ids, len(everything) - len(ids), before, before)
    trash.clear(workspace.project.trash)
    _forget(workspace, recorder, removed)
    _repack(workspace, recorder)
    gone = {one.id for one in removed}
    rest = sorted((one for one in removable if one.id not in gone), key=lambda one: one.at_ns)
    while max_bytes is not None and rest and folder_size(workspace.project.store) > max_bytes:
        count = max(1, len(rest) // 4)
        _forget(workspace, recorder, rest[:count])
        _repack(workspace, recorder)
        removed += rest[:count]
        rest = rest[count:]
    ids = tuple(one.id for one in sorted(removed, key=lambda one: one.at_ns))
    return GcResult(False, ids, len(everything) - len(ids), before, folder_size(workspace.project.store))


def _needed(timeline: Timeline, everything: list[Checkpoint]) -> set[str]:
    kept: set[str] = set()
    for key in {checkpoint.worktree for checkpoint in everything}:
        kept.add(next(checkpoint.id for checkpoint in everything if checkpoint.worktree == key))
        for place, done in enumerate(timeline.newest(Scope(key))):
            if place < _STEPS or done.after is None:
                kept |= {id for id in (done.before, done.after) if id}
    return kept


def _forget(w: Workspace, recorder: Recorder, checkpoints: list[Checkpoint]) -> None:
    ids = [one.id for one in checkpoints]
    if not ids:
        return
    delete_refs(w, [REF + id for id in ids])
    recorder.timeline.forget_checkpoints(ids)
    if w.settings.store == "repository" and w.has_git:
        release(w, ids)
    if w.cursor.last in ids:
        w.cursor.last = ""
        w.save_cursor()


def _repack(w: Workspace, recorder: Recorder) -> None:
    """Drop what nothing names any more; what the next scans build on is named for the while."""
    _drop_keeps(w, recorder)
    bases = _cursor_objects(w)
    if bases:
        feed = "".join(f"update {REF}cursor/{number}\0{oid}\0\0" for number, oid in enumerate(bases))
        w.store.run("update-ref", "--no-deref", "--stdin", "-z", feed=feed.encode())
    w.objects.close()
    try:
        w.store.run("pack-refs", "--all", "--prune")
        _release_packs(w)
        try:
            w.store.run(*_REPACK)
        except GitFailed as error:
            if not leftovers.disk_is_full(error, w.project.store):
                raise
            _without_room(w)
        w.store.run("prune", "--expire=now")
    finally:
        delete_refs(w, [f"{REF}cursor/{number}" for number in range(len(bases))])


def _without_room(w: Workspace) -> None:
    """Free what can be freed without writing: git makes the new pack before it removes the old ones.

    What is left in packs that hold something needed too stays until a `gc` that finds room. Raises DiskFull when
    nothing could be freed.
    """
    before = folder_size(w.project.store)
    leftovers.clean_store(w)
    w.store.run("prune", "--expire=now")
    lines = w.store.run("rev-list", "--objects", "--all").splitlines()
    wanted = {line.split(b" ")[0] for line in lines}
    folder = os.path.join(w.project.store, b"objects", b"pack")
    for name in os.listdir(folder):
        stem, suffix = os.path.splitext(os.path.join(folder, name))
        if suffix == b".idx" and not os.path.exists(stem + b".keep"):
            with open(stem + suffix, "rb") as index:
                held = {line.split(b" ")[1] for line in w.store.run("show-index", stdin=index).splitlines()}
            if not held & wanted:
                for part in (b".idx", b".pack", b".rev"):  # the index first: git looks for that
                    with suppress(FileNotFoundError):
                        os.unlink(stem + part)
    try:
        w.store.run(*_REPACK)
    except GitFailed as error:
        if not leftovers.disk_is_full(error, w.project.store):
            raise
        leftovers.clean_store(w)
        if folder_size(w.project.store) >= before:
            raise DiskFull(path=os.fsdecode(w.project.store)) from error


def _cursor_objects(w: Workspace) -> list[str]:
    """Objects that some worktree's next scan starts from and that may be in no checkpoint."""
    found: list[str] = []
    folder = w.project.path / "worktrees"
    for name in sorted(os.listdir(folder)) if folder.is_dir() else []:
        cursor = cursors.load(folder / name / "cursor.json")
        found += [oid for oid in (cursor.tree, cursor.state) if oid]
        found += [oid for oid in (cursor.git.get(part) for part in ("index", "keep", "refs", "unfinished")) if oid]
        found += [seen.entry.oid for seen in cursor.overlay.values() if seen is not None]
    missing = w.store.missing(found)
    return [oid for oid in dict.fromkeys(found) if oid not in missing]


def _drop_keeps(w: Workspace, recorder: Recorder) -> None:
    """Annotated tags stay while some checkpoint names them."""
    out = w.store.run("for-each-ref", "--format=%(refname)", f"{REF}keep").decode().split()
    if not out:
        return
    named: set[str] = set()
    for checkpoint in recorder.timeline.checkpoints():
        try:
            refs = gitparts.read_refs(w.objects, read_parts(w.objects, checkpoint).refs)
        except Damaged:
            return  # better to keep too much
        named.update(oid for oid, _ in refs.refs.values())
    delete_refs(w, [name for name in out if name.rpartition("/")[2] not in named])


def _release_packs(w: Workspace) -> None:
    """A pack that the project no longer shares is ours alone: let the repack thin it out."""
    folder = os.path.join(w.project.store, b"objects", b"pack")
    for name in os.listdir(folder):
        if name.endswith(b".keep"):
            try:
                if os.stat(os.path.join(folder, name[:-5] + b".pack")).st_nlink == 1:
                    os.unlink(os.path.join(folder, name))
            except OSError:
                continue


def usage(workspace: Workspace, store: TimelineStore) -> Usage:
    """Return the disk used by a project's private data, in bytes."""
    path = os.fsencode(workspace.project.path)
    objects = os.path.join(workspace.project.store, b"objects")
    linked = 0
    for folder, _, files in os.walk(objects):
        for name in files:
            found = os.lstat(os.path.join(folder, name))
            if found.st_nlink > 1:
                linked += found.st_blocks * 512
    timeline = sum(
        os.lstat(entry.path).st_blocks * 512
        for entry in os.scandir(workspace.project.path)
        if entry.name.startswith("timeline.sqlite")
    )
    return Usage(
        total=folder_size(path),
        objects=folder_size(objects) - linked,
        linked=linked,
        timeline=timeline,
        worktrees=folder_size(os.path.join(path, b"worktrees")),
        checkpoints=sum(1 for _ in store.checkpoints()),
    )


def problem_with(workspace: Workspace, checkpoint: Checkpoint, damaged: frozenset[str] = frozenset()) -> str:
    """Return what is wrong with a checkpoint, empty when all it names is there and none of it is in `damaged`."""
    try:
        snapshot = Snapshot(workspace, checkpoint)
        wanted: set[str] = set()
        for part in (snapshot.parts.files, snapshot.parts.state):
            for _, entry in tree.walk(workspace.objects, part) if part else ():
                if not entry.is_dir:
                    wanted.add(entry.oid)
        gitparts.read_refs(workspace.objects, snapshot.parts.refs)
        gitparts.read_index(workspace.objects, snapshot.parts.index)
    except Damaged as error:
        return str(error)
    missing = workspace.store.missing(wanted) | (wanted & damaged)
    return f"{len(missing)} of its {len(wanted)} file contents are missing or damaged" if missing else ""
