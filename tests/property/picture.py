"""The model's side: an exact picture of a project, taken without takeback.

Does not cover: times of directories, owners, reflogs other than the stash, and git's scratch files.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

_UNFINISHED = (
    "MERGE_HEAD", "MERGE_MSG", "MERGE_MODE", "AUTO_MERGE", "SQUASH_MSG", "ORIG_HEAD", "CHERRY_PICK_HEAD",
    "REVERT_HEAD", "REBASE_HEAD",
)  # fmt: skip
_ENTRY = re.compile(rb"(\S) (\d+) (\w+) (\d)\t([^\0]+)\0  ctime: .*?flags: (\w+)\n", re.DOTALL)
_INTENT_TO_ADD = 0x20000000


class Node(NamedTuple):
    """One path: st_mode, mtime in ns (0 for a directory), and the git name of its bytes ("" for a directory)."""

    mode: int
    mtime_ns: int
    oid: str

    @property
    def is_dir(self) -> bool:
        return stat.S_ISDIR(self.mode)

    @property
    def value(self) -> tuple[int, str]:
        return self.mode, self.oid


Tree = dict[bytes, Node]


@dataclass(frozen=True)
class Picture:
    """All of a project that takeback promises to bring back; `ignored` and `rules` say what git would not see."""

    tree: Tree
    ignored: frozenset[bytes] = frozenset()
    rules: tuple[tuple[bytes, str], ...] = ()
    index: dict[bytes, tuple[bytes, ...]] = field(default_factory=dict)
    refs: dict[str, str] = field(default_factory=dict)
    head: str = ""
    stash: tuple[tuple[str, str], ...] = ()
    unfinished: dict[str, bytes] = field(default_factory=dict)

    @property
    def commit(self) -> str:
        """The commit HEAD leads to, empty when it leads nowhere."""
        return self.refs.get(self.head[5:], "") if self.head.startswith("ref: ") else self.head

    def is_ignored(self, path: bytes) -> bool:
        """Whether the path is ignored, inside a nested repository, or part of `.git`: not sure to be in `files`."""
        if path in self.ignored or path.startswith((b".git/", b"nested/")):
            return True
        parts = path.split(b"/")
        above = [b"/".join(parts[: count + 1]) for count in range(len(parts))]
        return any(one in self.ignored or self._is_ignored_folder(one) for one in above)

    def _is_ignored_folder(self, path: bytes) -> bool:
        if path not in self.tree or not self.tree[path].is_dir:
            return False
        inside = [one for one in self.tree if one.startswith(path + b"/") and not self.tree[one].is_dir]
        return bool(inside) and self.ignored.issuperset(inside)


def take(root: bytes, env: Mapping[str, str], blank: str) -> Picture:
    """Return the picture of the project at `root`; `blank` is an empty git directory, for folders without git."""
    tree: Tree = {}
    _walk(root, b"", tree, skip=b".git")
    dot_git = os.path.join(root, b".git")
    has_git = os.path.exists(os.path.join(dot_git, b"HEAD"))
    quiet = {**env, "GIT_OPTIONAL_LOCKS": "0"}
    if not has_git:
        quiet.update(GIT_DIR=blank, GIT_WORK_TREE=os.fsdecode(root))
    listed = _git(root, quiet, "ls-files", "-o", "-i", "--exclude-standard", "-z")
    folders = _git(root, quiet, "ls-files", "-o", "-i", "--exclude-standard", "--directory", "-z").split(b"\0")[:-1]
    ignored = frozenset(listed.split(b"\0")[:-1]) | {path[:-1] for path in folders if path.endswith(b"/")}
    rules = {path: node.oid for path, node in tree.items() if path.rpartition(b"/")[2] == b".gitignore"}
    if not has_git:
        return Picture(tree, ignored, tuple(sorted(rules.items())))
    for name in (b"config", b"hooks", b"info"):
        if os.path.lexists(os.path.join(dot_git, name)):
            tree[b".git/" + name] = _node(os.path.join(dot_git, name))
            if os.path.isdir(os.path.join(dot_git, name)):
                _walk(dot_git, name, tree, prefix=b".git/")
    if b".git/info/exclude" in tree:
        rules[b".git/info/exclude"] = tree[b".git/info/exclude"].oid
    index: dict[bytes, tuple[bytes, ...]] = {}
    for found in _ENTRY.finditer(_git(root, quiet, "ls-files", "-s", "-v", "-z", "--debug")):
        tag, mode, oid, stage, path, flags = found.groups()
        intent = b" N" if int(flags, 16) & _INTENT_TO_ADD else b""
        index[path] = (*index.get(path, ()), b" ".join((tag, mode, oid, stage)) + intent)
    refs = {}
    for line in _git(root, quiet, "for-each-ref", "--format=%(refname) %(objectname) %(symref)").decode().splitlines():
        name, _, rest = line.partition(" ")
        refs[name] = rest.strip()
    unfinished = {}
    for name in _UNFINISHED:
        try:
            with open(os.path.join(dot_git, name.encode()), "rb") as file:
                unfinished[name] = file.read()
        except FileNotFoundError:
            pass
    with open(os.path.join(dot_git, b"HEAD"), encoding="utf-8") as file:
        head = file.read().strip()
    stash = _stash(dot_git) if "refs/stash" in refs else ()
    return Picture(tree, ignored, tuple(sorted(rules.items())), index, refs, head, stash, unfinished)


def _stash(dot_git: bytes) -> tuple[tuple[str, str], ...]:
    with open(os.path.join(dot_git, b"logs/refs/stash"), encoding="utf-8") as file:
        lines = file.read().splitlines()
    return tuple((line.split(" ", 2)[1], line.partition("\t")[2]) for line in reversed(lines))


def _git(root: bytes, env: Mapping[str, str], *args: str) -> bytes:
    return subprocess.run(["git", *args], cwd=root, env=env, capture_output=True, check=True).stdout


def _walk(root: bytes, at: bytes, tree: Tree, *, skip: bytes = b"", prefix: bytes = b"") -> None:
    pending = [at]
    if not at:
        tree[b""] = _node(root)
    while pending:
        folder = pending.pop()
        for name in os.listdir(os.path.join(root, folder)):
            path = folder + b"/" + name if folder else name
            if path == skip:
                continue
            tree[prefix + path] = _node(os.path.join(root, path))
            if tree[prefix + path].is_dir:
                pending.append(path)


def _node(full: bytes) -> Node:
    found = os.lstat(full)
    if stat.S_ISDIR(found.st_mode):
        return Node(found.st_mode, 0, "")
    if stat.S_ISLNK(found.st_mode):
        data = os.readlink(full)
    else:
        with open(full, "rb") as file:
            data = file.read()
    return Node(found.st_mode, found.st_mtime_ns, hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest())


def difference(old: Mapping[object, object], new: Mapping[object, object]) -> list[str]:
    """Return one line for each key whose values are not the same."""
    keys = sorted(old.keys() | new.keys(), key=repr)
    return [f"{key!r}: {old.get(key)} -> {new.get(key)}" for key in keys if old.get(key) != new.get(key)]
