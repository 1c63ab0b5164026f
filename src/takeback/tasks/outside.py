"""What changed in the user's own tree, in the repository's settings, hooks and refs, while an attempt ran.

Who wrote there cannot be told without a sandbox: the paths are named, and policy says whether that fails the attempt.
A ref counts when it is gone or was rewritten; one that is new, or went forward, takes nothing from anybody.
Does not cover: places outside the repository.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterable

from takeback.host.usergit import UserGit
from takeback.tasks.model import Flag

Stamp = tuple[int, int, int, int] | None


def look(git: UserGit, common: bytes, more: Iterable[bytes]) -> dict[bytes, Stamp]:
    """Return the stamp of every path that differs from HEAD in a tree, of `more` paths, and of settings and hooks."""
    if not os.path.isdir(git.cwd):
        return {b"": None}
    out = git.finish("--no-optional-locks", "status", "--porcelain", "-z", "-uall", "--no-renames").out
    paths = {record[3:] for record in out.split(b"\0") if len(record) > 3}
    found = {path: _stamp(os.path.join(git.cwd, path)) for path in paths | set(more)}
    for name in (b"config", b"info/exclude", b"info/attributes"):
        found[b".git/" + name] = _content(os.path.join(common, name))
    hooks = os.path.join(common, b"hooks")
    for name in os.listdir(hooks) if os.path.isdir(hooks) else []:
        found[b".git/hooks/" + name] = _content(os.path.join(hooks, name))
    return found


def refs(git: UserGit) -> dict[str, str]:
    """Return the commit or object of every branch, tag and stash."""
    out = git.run("for-each-ref", "--format=%(objectname) %(refname)", "refs/heads/", "refs/tags/", "refs/stash")
    pairs = (line.split(" ", 1) for line in out.decode("utf-8", "surrogateescape").splitlines())
    return {name: oid for oid, name in pairs}


def lost(git: UserGit, before: dict[str, str], after: dict[str, str]) -> list[str]:
    """Return the refs that are gone, or do not lead to what they led to before."""
    found = []
    for name, old in before.items():
        new = after.get(name)
        if new is None or (
            new != old and name != "refs/stash" and git.finish("merge-base", "--is-ancestor", old, new).code != 0
        ):
            found.append(name)
    return found


def flag(before: dict[bytes, Stamp], after: dict[bytes, Stamp], lost: list[str]) -> Flag | None:
    """Return the flag for what differs between two looks, None for nothing."""
    moved = sorted(path for path in before.keys() | after.keys() if before.get(path) != after.get(path))
    if not moved and not lost:
        return None
    paths = (*(os.fsdecode(path) for path in moved), *lost)
    return Flag("outside", paths, "changed outside the task's tree while the agent ran")


def _content(path: bytes) -> Stamp:
    """Return a stamp of what a small file holds: git writes its settings anew without changing them."""
    try:
        with open(path, "rb") as file:
            data = file.read()
        return (os.stat(path).st_mode, len(data), zlib.crc32(data), 0)
    except OSError:
        return _stamp(path)


def _stamp(path: bytes) -> Stamp:
    try:
        found = os.lstat(path)
    except OSError:
        return None
    return (found.st_mode, found.st_size, found.st_mtime_ns, found.st_ino)
