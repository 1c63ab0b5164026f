"""Exact fingerprints of a directory tree, taken without following a link.

Does not cover: owners, extended attributes, hard-link counts and ctimes. Paths are bytes relative to the root;
the root itself is `b"."`.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Collection, Mapping
from typing import NamedTuple

_KINDS = {
    stat.S_IFREG: "file",
    stat.S_IFDIR: "directory",
    stat.S_IFLNK: "link",
    stat.S_IFIFO: "fifo",
    stat.S_IFSOCK: "socket",
    stat.S_IFCHR: "device",
    stat.S_IFBLK: "device",
}


class Node(NamedTuple):
    """One path: its type, all permission bits, mtime in ns, and a sha256 (file) or target (link) as `content`."""

    kind: str
    mode: int
    mtime_ns: int
    content: str


Tree = dict[bytes, Node]


def node(path: str | bytes) -> Node:
    """Return the fingerprint of one path."""
    found = os.lstat(path)
    kind = _KINDS[stat.S_IFMT(found.st_mode)]
    content = ""
    if kind == "file":
        content = _digest(path)
    elif kind == "link":
        content = repr(os.readlink(os.fsencode(path)))
    return Node(kind, stat.S_IMODE(found.st_mode), found.st_mtime_ns, content)


def fingerprint(
    root: str | bytes | os.PathLike[str],
    *,
    git: bool = False,
    skip: Collection[bytes] = (),
    root_time: bool = True,
) -> Tree:
    """Return every path below `root` with its node, empty directories and the root itself included.

    `git=False` leaves out the top `.git`; `skip` names relative paths left out with all below them.
    """
    base = os.fsencode(root)
    left_out = set(skip) if git else {*skip, b".git"}
    found: Tree = {b".": node(base)}
    if not root_time:
        found[b"."] = found[b"."]._replace(mtime_ns=0)
    waiting = [b""]
    while waiting:
        directory = waiting.pop()
        for name in os.listdir(os.path.join(base, directory)):
            relative = os.path.join(directory, name)
            if relative in left_out:
                continue
            found[relative] = node(os.path.join(base, relative))
            if found[relative].kind == "directory":
                waiting.append(relative)
    return found


def without_times(tree: Mapping[bytes, Node], *, directories_only: bool = False) -> Tree:
    """Return the tree with mtimes set to zero, for the few comparisons in which time may pass."""
    return {
        path: one._replace(mtime_ns=0) if one.kind == "directory" or not directories_only else one
        for path, one in tree.items()
    }


def difference(before: Mapping[bytes, Node], after: Mapping[bytes, Node]) -> list[str]:
    """Return one readable line for each path that is not the same in both."""
    lines = []
    for path in sorted(before.keys() | after.keys()):
        old, new = before.get(path), after.get(path)
        if old == new:
            continue
        if old is None:
            lines.append(f"{path!r}: appeared ({new.kind if new else ''})")
        elif new is None:
            lines.append(f"{path!r}: is gone (was a {old.kind})")
        else:
            parts = [
                f"{field} {_shown(field, left)} -> {_shown(field, right)}"
                for field, left, right in zip(Node._fields, old, new, strict=True)
                if left != right
            ]
            lines.append(f"{path!r}: " + ", ".join(parts))
    return lines


def _shown(field: str, value: object) -> str:
    if field == "mode":
        return f"{value:04o}"
    return str(value)[:24]


def _digest(path: str | bytes) -> str:
    digest = hashlib.sha256()
    # A mode-0000 file is part of a tree too; the owner may read it after a chmod, which must not show in the mode.
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    except PermissionError:
        return "unreadable"
    with os.fdopen(fd, "rb") as file:
        for block in iter(lambda: file.read(1 << 20), b""):
            digest.update(block)
    return digest.hexdigest()
