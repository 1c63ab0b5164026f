"""What changed in the user's own tree, in the repository's settings, hooks and refs, while an attempt ran.

Who wrote there cannot be told without a sandbox: the paths are named, and policy says whether that fails the attempt.
A worktree or ref counts when it is gone or was rewritten; one that is new, or went forward, takes nothing from anybody.
But the branch that the user has out may not move at all, nor notes and replacements, which change what history says.
Does not cover: places outside the repository, and what is in other worktrees of the user's.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterable
from contextlib import suppress

from takeback.host.usergit import UserGit
from takeback.tasks.model import Flag

Stamp = tuple[bytes | int, ...] | None

# Small files in the repository that say how it is read, and in a worktree's own folder what it is in the middle of.
_SETTINGS = (b"config", b"config.worktree", b"info/exclude", b"info/attributes", b"info/grafts", b"shallow")
_OWN = (b"HEAD", b"config.worktree", b"info/sparse-checkout", b"MERGE_HEAD", b"CHERRY_PICK_HEAD", b"REVERT_HEAD")
_REFS = ("refs/heads/", "refs/tags/", "refs/stash", "refs/remotes/", "refs/notes/", "refs/replace/")
_SAID = ("refs/notes/", "refs/replace/")
_CURRENT = "HEAD"
_WORKTREE = (b"worktree",)


def look(git: UserGit, common: bytes, more: Iterable[bytes], ours: bytes) -> dict[bytes, Stamp]:
    """Return what there is to see of the user's tree, of `more` paths in it, of settings, hooks and other worktrees.

    Of the tree that is each path that differs from HEAD or the index, with how. Worktrees below `ours` are takeback's.
    """
    if not os.path.isdir(git.cwd):
        return {b"": None}
    found = {path: _stamp(os.path.join(git.cwd, path)) for path in more}
    found |= _tree(git, os.path.dirname(git.path("HEAD")), b".git/")
    for name in _SETTINGS:
        found[b".git/" + name] = _content(os.path.join(common, name))
    hooks = os.path.join(common, b"hooks")
    for name in os.listdir(hooks) if os.path.isdir(hooks) else []:
        found[b".git/hooks/" + name] = _content(os.path.join(hooks, name))
    # Not what is in them: people and other agents work there at the same time.
    found |= {where: _WORKTREE for where in _worktrees(common, ours) if where != git.cwd and os.path.isdir(where)}
    return found


def _tree(git: UserGit, own: bytes, prefix: bytes) -> dict[bytes, Stamp]:
    out = git.finish("--no-optional-locks", "status", "--porcelain", "-z", "-uall", "--no-renames").out
    # With its two letters: of a file that is gone, or that was staged, nothing else differs.
    found: dict[bytes, Stamp] = {
        record[3:]: (record[:2], *(_stamp(os.path.join(git.cwd, record[3:])) or ()))
        for record in out.split(b"\0")
        if len(record) > 3
    }
    return found | {prefix + name: _content(os.path.join(own, name)) for name in _OWN}


def _worktrees(common: bytes, ours: bytes) -> list[bytes]:
    """Return the user's worktrees, without asking git."""
    above = os.path.join(common, b"worktrees")
    found = [os.path.dirname(common)] if os.path.basename(common) == b".git" else []
    for name in os.listdir(above) if os.path.isdir(above) else []:
        own = os.path.join(above, name)
        with suppress(OSError), open(os.path.join(own, b"gitdir"), "rb") as file:
            where = os.path.realpath(os.path.join(own, os.path.dirname(file.read().strip())))
            if not where.startswith(os.path.join(os.path.realpath(ours), b"")):
                found.append(where)
    return found


def refs(git: UserGit, common: bytes) -> dict[str, str]:
    """Return the commit or object of every ref that counts, of every stash, and what the user's tree has out."""
    out = git.run("for-each-ref", "--format=%(HEAD)%(objectname) %(refname)", *_REFS)
    found: dict[str, str] = {}
    for line in out.decode("utf-8", "surrogateescape").splitlines():
        oid, name = line[1:].split(" ", 1)
        found[name] = oid
        if line.startswith("*"):
            found[_CURRENT] = name
    # Only the log of the ref knows of more than the newest.
    with suppress(OSError), open(os.path.join(common, b"logs/refs/stash"), "rb") as file:
        for number, entry in enumerate(reversed(file.read().splitlines())):
            found[f"stash@{{{number}}}"] = entry.split(b" ", 2)[1].decode()
    return found


def lost(git: UserGit, before: dict[str, str], after: dict[str, str]) -> list[str]:
    """Return the refs and stashes that are gone, or do not lead to what they led to before."""
    found = []
    stashes = {oid for name, oid in after.items() if name.startswith("stash@")}
    for name, old in before.items():
        new = after.get(name)
        if name.startswith("stash@"):
            if old not in stashes:
                found.append(name)
        elif name == _CURRENT or new == old:
            continue  # of which branch is out the file HEAD tells
        elif new is None or name == before.get(_CURRENT) or name.startswith(_SAID) or not _forward(git, name, old, new):
            found.append(name)
    return found + [name for name in after if name.startswith(_SAID) and name not in before]


def _forward(git: UserGit, name: str, old: str, new: str) -> bool:
    return name == "refs/stash" or git.finish("merge-base", "--is-ancestor", old, new).code == 0


def flag(before: dict[bytes, Stamp], after: dict[bytes, Stamp], lost: list[str]) -> Flag | None:
    """Return the flag for what differs between two looks, None for nothing."""
    made = tuple(path + b"/" for path, what in after.items() if what == _WORKTREE and path not in before)
    moved = sorted(
        path
        for path in before.keys() | after.keys()
        if before.get(path) != after.get(path) and not (path + b"/").startswith(made)
    )
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
