"""Put git state back: index entries, refs, HEAD, the stash, unfinished operations.

Everything written here is the user's repository. The index is changed on a copy that replaces it in one rename under
git's own `index.lock`; refs move in transactions that check the old value.
Does not cover: what should be put back (`plan`, `undo`).
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable
from dataclasses import dataclass, field

from takeback.errors import GitFailed, IndexLocked
from takeback.files.gitparts import IndexValue, Refs, read_index
from takeback.files.gitstate import UNFINISHED
from takeback.files.objects import Objects, receive_pack
from takeback.files.place import Place
from takeback.files.tree import decode_tree
from takeback.host import proc
from takeback.host.git import Git

_OURS = b".takeback"


@dataclass
class GitPlan:
    """What to change; None and empty mean: leave as it is."""

    index: dict[bytes, IndexValue] = field(default_factory=dict)
    refs: dict[str, tuple[str, str]] = field(default_factory=dict)  # name -> (old, new), empty is absent
    symbolic: dict[str, str] = field(default_factory=dict)  # name -> target, empty is absent
    head: str | None = None  # as in Refs.head
    stash: tuple[tuple[str, str], ...] | None = None
    unfinished: str | None = None  # tree, "" for none at all
    objects: list[str] = field(default_factory=list)  # tips to bring back with all they lead to

    def __bool__(self) -> bool:
        changes = bool(self.index or self.refs or self.symbolic or self.objects)
        return changes or any(part is not None for part in (self.head, self.stash, self.unfinished))


class GitRestorer:
    """Writes one worktree's git state."""

    def __init__(self, place: Place, store: Git, objects: Objects, scratch: bytes) -> None:
        assert place.git_dir is not None and place.common_dir is not None
        self._place = place
        self._git_dir = place.git_dir
        self._user = place.repository()
        self._store = store
        self._objects = objects
        self._scratch = scratch

    def check(self, plan: GitPlan) -> None:
        """Raise IndexLocked when the index must change and somebody holds its lock."""
        lock = os.path.join(self._git_dir, b"index.lock")
        if plan.index and os.path.lexists(lock):
            pids = next(iter(proc.holders([lock]).values()), [])
            owner = f" by process {pids[0]} ({proc.command_of(pids[0])})" if pids else ""
            raise IndexLocked(lock=os.fsdecode(lock), owner=owner)

    def apply(self, plan: GitPlan, reason: str) -> None:
        """Make the changes; each part is skipped where it already is as wanted, so that a dead run can be repeated."""
        if plan.objects:
            receive_pack(self._user, self._store, plan.objects, [], self._scratch)
        self._bring_objects(plan)
        self._move_refs(plan, reason)
        if plan.stash is not None:
            self._set_stash(plan.stash)
        if plan.head is not None:
            self._set_head(plan.head, reason)
        if plan.index:
            self._change_index(plan.index)
        if plan.unfinished is not None:
            self._set_unfinished(plan.unfinished)

    def _bring_objects(self, plan: GitPlan) -> None:
        wanted = [new for _, new in plan.refs.values() if new]
        wanted += [oid for oid, _ in plan.stash or ()]
        wanted += [oid for values in plan.index.values() for _, mode, oid, _ in values if mode != "160000"]
        if plan.head and not plan.head.startswith("ref "):
            wanted.append(plan.head)
        if plan.unfinished:
            wanted += self._named_commits(plan.unfinished)
        missing = self._user.missing(wanted)
        available = sorted(missing - self._store.missing(missing))
        if available:
            receive_pack(self._user, self._store, available, self._present_tips(), self._scratch)

    def _present_tips(self) -> list[str]:
        """What the user's repository has, and the store too, need not be copied."""
        out = self._user.run("for-each-ref", "--format=%(objectname)").decode().split()
        if self._user.missing(out):
            return []  # objects are gone here; nobody knows which others
        return sorted(set(out) - self._store.missing(out))

    def _named_commits(self, tree: str) -> list[str]:
        found = []
        for name, (is_tree, oid) in decode_tree(self._objects.read(tree, "tree"), self._objects.raw_length).items():
            if not is_tree and name.endswith(b"_HEAD"):
                found += [word.decode() for word in self._objects.read(oid, "blob").split() if len(word) in (40, 64)]
        return found

    # -- refs ----------------------------------------------------------------------------------------------------

    def _move_refs(self, plan: GitPlan, reason: str) -> None:
        lost = [old for old, _ in plan.refs.values() if old]
        missing = self._store.missing(lost)
        keep = [oid for oid in dict.fromkeys(lost) if oid not in missing]
        if keep:
            feed = "".join(f"update refs/checkpoints/lost/{oid}\0{oid}\0\0" for oid in keep)
            self._store.run("update-ref", "--stdin", "-z", feed=feed.encode())
        now = self._now()
        # Deletions first: `a` must be gone before `a/b` can be.
        deletes = [(name, old) for name, (old, new) in plan.refs.items() if not new and name in now]
        updates = [(name, new) for name, (_, new) in plan.refs.items() if new and now.get(name) != new]
        if deletes:
            feed = "".join(f"delete {name}\0{now[name]}\0" for name, _ in deletes)
            self._update(feed, reason)
        if updates:
            zero = "0" * len(self._objects.empty_tree)
            feed = "".join(f"update {name}\0{new}\0{now.get(name, zero)}\0" for name, new in updates)
            self._update(feed, reason)
        for name, target in plan.symbolic.items():
            if target:
                self._user.run("symbolic-ref", name, target)
            else:
                self._user.run("symbolic-ref", "-d", name, ok=(0, 1, 128))

    def _update(self, feed: str, reason: str) -> None:
        self._user.run(
            "update-ref", "--no-deref", "-m", reason, "--stdin", "-z", feed=feed.encode("utf-8", "surrogateescape")
        )

    def _now(self) -> dict[str, str]:
        out = self._user.run("for-each-ref", "--format=%(objectname) %(refname)")
        pairs = (line.split(" ", 1) for line in out.decode("utf-8", "surrogateescape").splitlines())
        return {name: oid for oid, name in pairs}

    def _set_head(self, head: str, reason: str) -> None:
        if head.startswith("ref "):
            self._user.run("symbolic-ref", "-m", reason, "HEAD", head[4:])
        elif head:
            self._user.run("update-ref", "--no-deref", "-m", reason, "HEAD", head)

    def _set_stash(self, stash: tuple[tuple[str, str], ...]) -> None:
        """The stash is the reflog of refs/stash: made again oldest first."""
        self._user.run("stash", "clear", ok=(0, 1))
        for oid, message in reversed(stash):
            self._user.run("stash", "store", "-q", "-m", message, oid)

    # -- index ---------------------------------------------------------------------------------------------------

    def _change_index(self, changes: dict[bytes, IndexValue]) -> None:
        index = os.path.join(self._git_dir, b"index")
        lock = index + b".lock"
        copy = os.path.join(self._scratch, b"index.new")
        free_dead_lock(self._place)
        fd = _lock(lock, index + _OURS)
        try:
            try:
                if os.path.exists(copy):
                    os.unlink(copy)
                if os.path.exists(index):
                    shutil.copyfile(index, copy)
                    if self._user.view(index=copy).code("ls-files", "-z") != 0:
                        os.unlink(copy)  # not an index any more: it was not saved either, so all entries come
                self._edit(self._user.view(index=copy), changes)
                if os.path.exists(copy):
                    # Closed by us, not by the collector: it would hide that the last bytes did not fit.
                    with open(copy, "rb") as source, os.fdopen(os.dup(fd), "wb") as target:
                        shutil.copyfileobj(source, target)
            finally:
                os.close(fd)
            if os.path.exists(copy):
                if os.path.exists(index):
                    shutil.copymode(index, lock)
                os.rename(lock, index)
                os.unlink(copy)
        finally:
            if os.path.lexists(lock):
                os.unlink(lock)
            if os.path.lexists(index + _OURS):
                os.unlink(index + _OURS)

    def _edit(self, git: Git, changes: dict[bytes, IndexValue]) -> None:
        zero = "0" * len(self._objects.empty_tree)
        lines = bytearray()
        assumed, skipped, intended = bytearray(), bytearray(), []
        # All removals first: a file entry may take the place of a directory's.
        for path in changes:
            lines += f"0 {zero}\t".encode() + path + b"\0"
        for path, values in changes.items():
            for tag, mode, oid, stage in values:
                if tag == "N":
                    intended.append(path)
                    continue
                lines += f"{mode} {oid} {stage}\t".encode() + path + b"\0"
                if tag.islower():
                    assumed += path + b"\0"
                if tag in "Ss":
                    skipped += path + b"\0"
        git.run("update-index", "-z", "--index-info", feed=bytes(lines))
        if assumed:
            git.run("update-index", "--assume-unchanged", "-z", "--stdin", feed=bytes(assumed))
        if skipped:
            git.run("update-index", "--skip-worktree", "-z", "--stdin", feed=bytes(skipped))
        for path in intended:
            git.run("add", "-f", "--intent-to-add", "--", path, ok=(0, 1, 128))

    # -- unfinished operations -----------------------------------------------------------------------------------

    def _set_unfinished(self, tree: str) -> None:
        wanted = decode_tree(self._objects.read(tree, "tree"), self._objects.raw_length) if tree else {}
        for name in UNFINISHED:
            path = os.path.join(self._git_dir, name)
            if name not in wanted:
                if os.path.isdir(path) and not os.path.islink(path):
                    shutil.rmtree(path)
                elif os.path.lexists(path):
                    os.unlink(path)
        for name, (is_tree, oid) in wanted.items():
            self._write_unfinished(os.path.join(self._git_dir, name), is_tree, oid)

    def _write_unfinished(self, path: bytes, is_tree: bool, oid: str) -> None:
        if not is_tree:
            temp = path + b".takeback"
            with open(temp, "wb") as file:
                file.write(self._objects.read(oid, "blob"))
            os.rename(temp, path)
            return
        os.makedirs(path, exist_ok=True)
        wanted = decode_tree(self._objects.read(oid, "tree"), self._objects.raw_length)
        for name in os.listdir(path):
            if name not in wanted:
                inner = os.path.join(path, name)
                shutil.rmtree(inner) if os.path.isdir(inner) else os.unlink(inner)
        for name, (inner_tree, inner_oid) in wanted.items():
            self._write_unfinished(os.path.join(path, name), inner_tree, inner_oid)


def _lock(lock: bytes, ours: bytes) -> int:
    """Take git's lock and return it opened; a second name tells it, once we are dead, from a lock of git's.

    Raises IndexLocked, OSError.
    """
    fd = os.open(ours, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
    try:
        try:
            os.link(ours, lock)
        except FileExistsError:
            raise
        except OSError:  # no hard links here: then nothing can tell the two apart
            other = os.open(lock, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
            os.close(fd)
            fd = other
        return fd
    except BaseException as error:
        os.close(fd)
        os.unlink(ours)
        if isinstance(error, FileExistsError):
            raise IndexLocked(lock=os.fsdecode(lock), owner="") from None
        raise


def free_dead_lock(place: Place) -> None:
    """Remove the index.lock that a killed takeback left; the worktree's own lock is held, so ours is a dead one's."""
    assert place.git_dir is not None
    index = os.path.join(place.git_dir, b"index")
    try:
        if os.path.samefile(index + _OURS, index + b".lock"):
            os.unlink(index + b".lock")
    except OSError:
        pass
    try:
        os.unlink(index + _OURS)
    except OSError:
        pass


def held_elsewhere(place: Place) -> set[str]:
    """Return the branches that other worktrees have checked out; those never move."""
    try:
        out = place.repository().run("worktree", "list", "--porcelain", "-z")
    except GitFailed:
        return set()
    result: set[str] = set()
    # The first is the main worktree; with a separate git directory its path is not where the files are.
    here = place.git_dir == place.common_dir
    first, root = True, b""
    for line in out.split(b"\0"):
        if line.startswith(b"worktree "):
            first, root = root == b"", line[9:]
        elif line.startswith(b"branch ") and not (first and here) and os.path.realpath(root) != place.root:
            result.add(line[7:].decode("utf-8", "surrogateescape"))
    return result


def movable(names: Iterable[str], elsewhere: set[str]) -> list[str]:
    """Return the refs an undo or restore may move."""
    return [name for name in names if not name.startswith("refs/remotes/") and name not in elsewhere]


def refs_between(now: Refs, wanted: Refs, elsewhere: set[str]) -> dict[str, tuple[str, str]]:
    """Return the moves that lead from one set of refs to another."""
    result: dict[str, tuple[str, str]] = {}
    for name in movable(sorted(now.refs.keys() | wanted.refs.keys()), elsewhere):
        if name == "refs/stash":
            continue
        old, new = now.refs.get(name, ("", ""))[0], wanted.refs.get(name, ("", ""))[0]
        if old != new:
            result[name] = (old, new)
    return result


def lost_objects(place: Place, store: Git, objects: Objects, refs: Refs, index: str | None) -> list[str]:
    """Return what to bring back whole when the repository no longer has what its own refs name; else nothing."""
    tips = [oid for oid, kind in refs.refs.values() if kind != "missing"] + [oid for oid, _ in refs.stash]
    if not place.repository().missing(tips):
        return []
    entries = read_index(objects, index).entries
    objects.flush()
    wanted = sorted({*tips, entries})
    absent = store.missing(wanted)
    return [oid for oid in wanted if oid not in absent]


def init_repository(root: bytes, object_format: str) -> None:
    """Make `.git` in a folder again, or repair one whose own files are gone."""
    git_dir = os.path.join(root, b".git")
    os.makedirs(os.path.join(git_dir, b"objects"), exist_ok=True)
    os.makedirs(os.path.join(git_dir, b"refs"), exist_ok=True)
    with open(os.path.join(git_dir, b"HEAD"), "wb") as file:
        file.write(b"ref: refs/heads/main\n")  # for the moment: a HEAD that git understands
    Git(git_dir, work_tree=root).run("init", "-q", "--template=", f"--object-format={object_format}")
