"""What changed in the user's own tree, and in the repository's settings and hooks, while an attempt ran.

Who wrote there cannot be told without a sandbox: the paths are named, and policy says whether that fails the attempt.
Does not cover: places outside the repository, or refs.
"""

from __future__ import annotations

import os
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
        found[b".git/" + name] = _stamp(os.path.join(common, name))
    hooks = os.path.join(common, b"hooks")
    for name in os.listdir(hooks) if os.path.isdir(hooks) else []:
        found[b".git/hooks/" + name] = _stamp(os.path.join(hooks, name))
    return found


def flag(before: dict[bytes, Stamp], after: dict[bytes, Stamp]) -> Flag | None:
    """Return the flag for what differs between two looks, None for nothing."""
    moved = sorted(path for path in before.keys() | after.keys() if before.get(path) != after.get(path))
    if not moved:
        return None
    return Flag("outside", tuple(os.fsdecode(path) for path in moved), "changed in your own tree while the agent ran")


def _stamp(path: bytes) -> Stamp:
    try:
        found = os.lstat(path)
    except OSError:
        return None
    return (found.st_mode, found.st_size, found.st_mtime_ns, found.st_ino)
