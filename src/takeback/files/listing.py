"""What git would see in a worktree: untracked files, directories, nested repositories, ignored roots.

Does not cover: reading any of it (`scan`, `ignored`). The listing is git's own, with takeback's private index.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from dataclasses import dataclass, field

from takeback.host.git import Git, checked, split
from takeback.host.process import Child

STAGE = b".takeback-stage"
_ARGUMENTS = 400  # pathspecs in one call; more than this and listing everything is cheaper


@dataclass
class Found:
    """Paths by kind; `nested` are the roots of other repositories inside this one."""

    files: set[bytes] = field(default_factory=set)
    dirs: set[bytes] = field(default_factory=set)
    nested: set[bytes] = field(default_factory=set)
    special: set[bytes] = field(default_factory=set)  # FIFOs, sockets, devices


class Listing:
    """Lists one worktree through the store's git and a private index."""

    def __init__(self, git: Git, root: bytes) -> None:
        self._git = git
        self._root = root

    def start_others(self) -> Child:
        """Start listing what is not in the private index, whole directories as one."""
        return self._git.start("ls-files", "-o", "--exclude-standard", "--directory", "-z")

    def ignored_roots(self, below: Iterable[bytes] = ()) -> set[bytes]:
        """Return ignored files, and ignored directories without what is in them."""
        return split_ignored(self.start_ignored(below))

    def start_ignored(self, below: Iterable[bytes] = ()) -> Child:
        """Start `ignored_roots`."""
        return self._git.start("ls-files", "-o", "-i", "--exclude-standard", "--directory", "-z", "--", *below)

    def index_ignored(self) -> set[bytes]:
        """Return paths of the private index that the rules now ignore."""
        return set(split(self._git.run("ls-files", "-c", "-i", "--exclude-standard", "-z")))

    def ignored_of(self, paths: Iterable[bytes]) -> set[bytes]:
        """Return those of `paths`, on disk or not, that the rules ignore."""
        # check-ignore knows no literal pathspecs; `./` in front keeps a name like `:(x)` a name.
        feed = b"".join(b"./" + path + b"\0" for path in paths)
        if not feed:
            return set()
        plain = {"GIT_LITERAL_PATHSPECS": "0"}
        out = self._git.run("check-ignore", "--no-index", "-z", "--stdin", feed=feed, ok=(0, 1), env=plain)
        return {path[2:] for path in split(out)}

    def expand(self, others: Iterable[bytes]) -> Found:
        """Turn the answer of `start_others` into files, directories and nested repositories."""
        found = Found()
        collapsed: list[bytes] = []
        for name in others:
            if name.startswith(STAGE):
                continue
            if not name.endswith(b"/"):
                found.files.add(name)
                continue
            path = name[:-1]
            if os.path.lexists(self._full(path + b"/.git")):
                self._expand_nested(path, found)
            elif _is_empty(self._full(path)):
                found.dirs.add(path)
            else:
                collapsed.append(path)
        if collapsed:
            self._expand_collapsed(collapsed, found)
        return found

    def became_folders(self, dirty: Iterable[bytes], found: Found) -> list[bytes]:
        """Add what is in folders that stand where the private index has files, and return these: git hides them."""
        paths = [path for path in dirty if os.path.isdir(self._full(path)) and not os.path.islink(self._full(path))]
        if not paths:
            return []
        nowhere = os.path.join(self._git.git_dir, b"no-index")
        inner = Listing(self._git.view(index=nowhere), self._root)
        repositories = [path for path in paths if os.path.lexists(self._full(path + b"/.git"))]
        for path in repositories:
            inner._expand_nested(path, found)
        plain = [path for path in paths if path not in repositories]
        if plain:
            inner._expand_collapsed(plain, found)
        return paths

    def everything(self) -> Found:
        """List the whole worktree, for the first time."""
        found = Found()
        self._expand_collapsed([], found)
        return found

    def _expand_collapsed(self, paths: list[bytes], found: Found) -> None:
        spec = paths if len(paths) <= _ARGUMENTS else []
        nested: list[bytes] = []
        for name in split(self._git.run("ls-files", "-o", "--exclude-standard", "-z", "--", *spec)):
            if name.startswith(STAGE):
                continue
            if name.endswith(b"/"):
                nested.append(name[:-1])
            else:
                found.files.add(name)
        ignored = set(_ignored(self.start_ignored(spec)))
        _walk_dirs(self._root, paths or [b""], ignored, set(nested), found)
        for path in nested:
            self._expand_nested(path, found)

    def _expand_nested(self, path: bytes, found: Found) -> None:
        """A nested repository is listed by its own rules, as its own worktree."""
        found.nested.add(path)
        root = self._full(path)
        nowhere = os.path.join(self._git.git_dir, b"no-index")
        inner = Listing(self._git.view(work_tree=root, index=nowhere), root)
        inside = inner.everything()
        found.dirs.add(path)
        for name in inside.files:
            found.files.add(path + b"/" + name)
        for name in inside.dirs:
            found.dirs.add(path + b"/" + name if name else path)
        found.nested.update(path + b"/" + name for name in inside.nested)
        found.special.update(path + b"/" + name for name in inside.special)

    def _full(self, path: bytes) -> bytes:
        return self._root + b"/" + path


def _walk_dirs(root: bytes, starts: list[bytes], ignored: set[bytes], nested: set[bytes], found: Found) -> None:
    pending = list(starts)
    while pending:
        at = pending.pop()
        found.dirs.add(at)
        if at and os.path.lexists(root + b"/" + at + b"/.git"):  # also one that git itself cannot read
            found.nested.add(at)
        for path, is_dir in _entries(root, at):
            if not is_dir:
                found.special.add(path)
            elif path not in ignored and path not in nested:
                pending.append(path)


def look_inside(root: bytes, at: bytes, found: Found) -> None:
    """Add what git's own walk passes over in one directory: special files, and whether it became a repository."""
    found.special.update(path for path, is_dir in _entries(root, at) if not is_dir)
    if at and os.path.lexists(root + b"/" + at + b"/.git"):
        found.nested.add(at)


def _entries(root: bytes, at: bytes) -> list[tuple[bytes, bool]]:
    """Return (path, is a directory) of directories and special files."""
    base = at + b"/" if at else b""
    result = []
    try:
        with os.scandir(root + b"/" + at) as entries:
            for entry in entries:
                if entry.is_symlink() or entry.is_file(follow_symlinks=False):
                    continue
                if entry.name != b".git" and not (at == b"" and entry.name.startswith(STAGE)):
                    result.append((base + entry.name, entry.is_dir(follow_symlinks=False)))
    except OSError:
        return []
    return result


def split_ignored(child: Child) -> set[bytes]:
    """Return the answer of `start_ignored`, each path once: not also what is below a directory of the answer."""
    return roots_of(list_ignored(child))


def list_ignored(child: Child) -> list[bytes]:
    """Return the answer of `start_ignored` as git gives it, directories with a `/` at the end."""
    return _ignored(child, slash=True)


def roots_of(ignored: Iterable[bytes]) -> set[bytes]:
    """Return the answer of `list_ignored` without what is below a directory of it.

    Of a directory whose own .gitignore ignores all that is in it, such as a `.venv`, git names both.
    """
    result: set[bytes] = set()
    above: bytes | None = None
    for name in sorted(ignored):
        if above is not None and name.startswith(above):
            continue
        if name.endswith(b"/"):
            above = name
        result.add(name.rstrip(b"/"))
    return result


def _ignored(child: Child, *, slash: bool = False) -> list[bytes]:
    out = checked(("ls-files",), child.finish()).out
    return [name if slash else name.rstrip(b"/") for name in split(out) if not name.startswith(STAGE)]


def _is_empty(path: bytes) -> bool:
    try:
        with os.scandir(path) as entries:
            return next(entries, None) is None
    except OSError:
        return False


def behind_link(root: bytes, paths: Iterable[bytes]) -> set[bytes]:
    """Return those of `paths` that are reached through a symbolic link, and so are not in the tree."""
    known: dict[bytes, bool] = {b"": False}

    def linked(directory: bytes) -> bool:
        answer = known.get(directory)
        if answer is None:
            above, _, _ = directory.rpartition(b"/")
            answer = linked(above)
            if not answer:
                try:
                    answer = stat.S_ISLNK(os.lstat(root + b"/" + directory).st_mode)
                except OSError:
                    answer = False
            known[directory] = answer
        return answer

    return {path for path in paths if linked(path.rpartition(b"/")[0])}
