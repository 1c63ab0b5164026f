"""Decide what a restore would do, before anything is written.

A plan says for each path what is there (`now`) and what should be (`want`); what stands in the way is found here.
Does not cover: writing (`apply`), or an undo's three-way decisions (`undo`).
"""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from takeback.errors import TooManyDeletes
from takeback.files import checkpoint as checkpoints
from takeback.files import names, tree
from takeback.files.checkpoint import Parts
from takeback.files.gitrestore import GitPlan
from takeback.files.listing import Listing, split_ignored
from takeback.files.objects import Objects
from takeback.files.rules import EXCLUDES
from takeback.files.tree import TreeEditor
from takeback.files.workspace import Workspace
from takeback.host.process import Child
from takeback.model import Action, Checkpoint, Entry, Kind, NotCovered

Pairs = dict[bytes, tuple[Entry | None, Entry | None]]


@dataclass
class Plan:
    """Paths to change as path -> (now, want), git state to change, and what the reader must know."""

    paths: Pairs = field(default_factory=dict)
    git: GitPlan = field(default_factory=GitPlan)
    rebuild_git: bool = False
    folder_times: dict[bytes, int] = field(default_factory=dict)
    fresh_times: bool = False
    touches_state: bool = True  # then the checkpoint afterwards must walk the ignored files too
    not_covered: list[NotCovered] = field(default_factory=list)
    conflicts: list[NotCovered] = field(default_factory=list)
    shared: list[bytes] = field(default_factory=list)
    merged: set[bytes] = field(default_factory=set)
    not_undone: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    exact: bool = True

    def __bool__(self) -> bool:
        return bool(self.paths or self.git or self.rebuild_git)

    def actions(self, objects: Objects) -> list[Action]:
        """Return what would be done, for a preview."""
        result = []
        sizes = objects.sizes(want.oid for _, want in self.paths.values() if want is not None and want.oid)
        for path in sorted(self.paths):
            now, want = self.paths[path]
            where = "state" if path.startswith(b".git/") else "files"
            verb = "merge" if path in self.merged else _verb(now, want)
            size = sizes.get(want.oid, 0) if want is not None and verb in ("write", "change", "merge") else 0
            result.append(Action(path or b".", verb, where, size))
        result += [Action(path, "index", "index") for path in sorted(self.git.index)]
        for name, (_, new) in sorted(self.git.refs.items()):
            result.append(Action(name.encode("utf-8", "surrogateescape"), "move" if new else "delete", "refs"))
        if self.git.head is not None:
            result.append(Action(b"HEAD", "move", "refs"))
        if self.git.stash is not None:
            result.append(Action(b"refs/stash", "move", "refs"))
        if self.git.objects:
            result.append(Action(b".git/objects", "write", "refs"))
        if self.git.unfinished is not None:
            result.append(Action(b".git", "unfinished operation", "refs"))
        return result


def _verb(now: Entry | None, want: Entry | None) -> str:
    if want is None:
        return "rmdir" if now is not None and now.is_dir else "delete"
    if want.is_dir:
        if now is None or not now.is_dir:
            return "mkdir"
        return "mode" if now.mode != want.mode else "time"
    if now is not None and now.oid == want.oid and stat.S_IFMT(now.mode) == stat.S_IFMT(want.mode):
        return "mode" if now.mode != want.mode else "time"
    return "write" if now is None or now.is_dir else "change"


class Snapshot:
    """A checkpoint opened for look-ups: files and state as one set of paths."""

    def __init__(self, workspace: Workspace, checkpoint: Checkpoint, parts: Parts | None = None) -> None:
        self.checkpoint = checkpoint
        self.parts: Parts = parts or checkpoints.read_parts(workspace.objects, checkpoint)
        self.not_covered = checkpoints.read_not_covered(workspace.objects, self.parts)
        self.rules = checkpoints.read_rules(workspace.objects, self.parts)
        self._w = workspace
        self._files = TreeEditor(workspace.objects, self.parts.files)
        # No tree is an empty one: there was nothing that git ignores.
        self._state = TreeEditor(workspace.objects, self.parts.state) if checkpoint.kind is Kind.STATE else None

    @property
    def has_state(self) -> bool:
        return self._state is not None

    def get(self, path: bytes) -> Entry | None:
        """Return what the checkpoint holds at a path."""
        found = self._files.get(path)
        if self._state is None or (found is not None and not found.is_dir):
            return found
        other = self._state.get(path)
        return other if found is None or (other is not None and not other.is_dir) else found

    def in_state(self, path: bytes) -> bool:
        """Whether the path is held as state: ignored, or part of `.git`."""
        return self._state is not None and self._state.get(path) is not None and self._files.get(path) is None

    def uncovered(self, path: bytes) -> bool:
        """Whether the checkpoint says it does not hold this path or a directory above it."""
        return any(path == item.path or path.startswith(item.path + b"/") for item in self.not_covered)

    def unknown(self, others: Mapping[bytes, Entry]) -> set[bytes]:
        """Return those paths the checkpoint cannot know about: not covered, or ignored by its rules and without state.

        Paths it holds or was told to look at are known, ignored or not. `others` is what stands there at another time.
        """
        asked = [path for path in others if self.get(path) is None]
        result = {path for path in asked if self.uncovered(path)}
        if not self.has_state:
            result |= {path for path in asked if path.startswith(b".git/") or path == b".git"}
            rest = [path for path in asked if path not in result and path not in self.checkpoint.only]
            result |= self._ignored(rest, [path for path in rest if others[path].is_dir])
        return result

    def _ignored(self, paths: list[bytes], folders: list[bytes]) -> set[bytes]:
        """Ask git, with the checkpoint's own rules laid out in a folder that has else only `folders`."""
        if not paths:
            return set()
        with tempfile.TemporaryDirectory(prefix="ignore-", dir=self._w.dir.path) as text:
            folder = os.fsencode(text)
            above = {b""}
            for path in paths:
                above.update(names.parents(path))
            for directory in sorted(above):
                inner = directory + b"/.gitignore" if directory else b".gitignore"
                entry = self._files.get(inner)
                lines = self.rules[inner].text if inner in self.rules else b""
                if entry is not None and stat.S_ISREG(entry.mode):
                    lines = self._w.objects.read(entry.oid, "blob")
                if not directory and EXCLUDES in self.rules:  # weaker than the root's own rules
                    lines = self.rules[EXCLUDES].text + lines
                if lines:
                    os.makedirs(os.path.join(folder, directory), exist_ok=True)
                    with open(os.path.join(folder, inner), "wb") as file:
                        file.write(lines)
            for path in folders:  # a rule such as `build/` is for folders only
                os.makedirs(os.path.join(folder, path), exist_ok=True)
            git = self._w.store.view(work_tree=folder, index=os.path.join(folder, b".no-index"))
            return Listing(git, folder).ignored_of(paths)


def between(workspace: Workspace, now: Snapshot, wanted: Snapshot) -> tuple[Pairs, bool]:
    """Return the paths whose entries differ between two checkpoints, and whether ignored files are among them."""
    objects = workspace.objects
    keys = set(tree.diff(objects, now.parts.files, wanted.parts.files))
    rules_moved = any(path.rpartition(b"/")[2] == b".gitignore" for path in keys)
    state_keys: set[bytes] = set()
    if now.has_state and wanted.has_state:
        state_keys = set(tree.diff(objects, now.parts.state, wanted.parts.state))
    keys |= state_keys
    # Ignored ones among these may be in one's files and the other's state.
    keys |= {path for one in (now, wanted) for path in one.checkpoint.only if not path.startswith(b".git/")}
    if now.checkpoint.worktree != wanted.checkpoint.worktree:
        # Of another worktree: its tie to the repository, and the settings saved through it, are not this one's.
        keys = {path for path in keys if path != b".git" and not path.startswith(b".git/")}
    result: Pairs = {}
    for path in keys:
        one, two = now.get(path), wanted.get(path)
        if one != two:
            result[path] = (one, two)
    return result, bool(state_keys) or rules_moved or now.has_state != wanted.has_state


def selected(path: bytes, chosen: tuple[bytes, ...]) -> bool:
    """Whether a path is one of `chosen` or below one; nothing chosen means everything."""
    return not chosen or any(path == one or one == b"" or path.startswith(one + b"/") for one in chosen)


def unseen(workspace: Workspace, now: Snapshot, paths: Iterable[bytes]) -> bool:
    """Whether something is at one of `paths` that `now`, being without state, does not hold as the rules ignore it."""
    if now.has_state:
        return False
    return any(now.get(path) is None and workspace.reader.look(path) is not None for path in paths)


def settle_deletes(plan: Plan, now: Snapshot, wanted: Snapshot) -> None:
    """Take out of the plan what `wanted` cannot know about; a path it never saw is not deleted."""
    deletes = {path: have for path, (have, want) in plan.paths.items() if have is not None and want is None}
    for path in sorted(wanted.unknown(deletes)):
        del plan.paths[path]
    # What stands uncovered in the way of a write is kept too.
    for path, (have, want) in list(plan.paths.items()):
        if have is None and want is not None and now.uncovered(path):
            del plan.paths[path]
            plan.exact = False
            plan.notes.append(f"{names.show(path)} is kept: its present content is not in any checkpoint")


def blocked(workspace: Workspace, plan: Plan) -> dict[bytes, bytes]:
    """Return the paths that cannot be written since something that is no folder stands above them, with what it is."""
    result: dict[bytes, bytes] = {}
    stands: dict[bytes, bool] = {}
    for path, (_, want) in plan.paths.items():
        if want is None or path.startswith(b".git/"):
            continue
        for above in names.parents(path):
            if above not in stands:
                wanted = plan.paths.get(above)
                found = workspace.reader.look(above)
                if wanted is not None:
                    stands[above] = wanted[1] is not None and not wanted[1].is_dir
                else:
                    stands[above] = found is not None and not stat.S_ISDIR(found.st_mode)
            if stands[above]:
                result[path] = above
                break
    return result


def check_share(workspace: Workspace, plan: Plan, total: int, yes: bool) -> None:
    """Raise TooManyDeletes when the plan deletes more of the project than the setting allows."""
    deletes = sum(1 for have, want in plan.paths.values() if want is None and have is not None and not have.is_dir)
    settings = workspace.settings
    if not yes and deletes > settings.delete_floor and deletes > total * settings.delete_share:
        raise TooManyDeletes(deletes=deletes, total=total, share=settings.delete_share)


def newer_outputs(workspace: Workspace, wanted: Snapshot, ignored: Child | None = None) -> bool:
    """Whether build outputs newer than the checkpoint stay: `make` would take them for up to date.

    `ignored` is the listing of ignored paths if it was started before, since it takes as long as `git status`.
    """
    roots = [item.path for item in wanted.not_covered]
    if not wanted.has_state:
        roots += sorted(split_ignored(ignored or workspace.scanner.listing.start_ignored()))
    budget = 2000
    since = wanted.checkpoint.at_ns
    pending = [workspace.real(path) for path in roots]
    while pending:
        path = pending.pop()
        try:
            found = os.lstat(path)
            if stat.S_ISDIR(found.st_mode):
                pending += [os.path.join(path, name) for name in os.listdir(path)]
            elif found.st_mtime_ns > since:
                return True
        except OSError:
            continue
        budget -= 1
        if budget <= 0:
            return True
    return False
