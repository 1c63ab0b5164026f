"""The second stage: what the classifier is told of a real project, asked for only when a path needs it.

A stat or two for a path, one short git for what is ignored, text of scripts up to a size: 15 ms at most. What cannot
be asked is answered as in a project that is not there. Does not cover: any decision.
"""

from __future__ import annotations

import os
import stat
from functools import cache

from takeback.errors import GitMissing
from takeback.guard.context import Context, usually_ignored
from takeback.host import git

_MOST_ASKED = 3  # git processes for one step
_LONGEST = 60_000
_HOOKS = frozenset(
    "pre-commit prepare-commit-msg commit-msg post-commit pre-merge-commit post-merge pre-rebase post-rewrite "
    "post-checkout pre-applypatch "
    "applypatch-msg post-applypatch reference-transaction post-index-change pre-auto-gc".split()
)


def context(cwd: str, *, home: str, data: str, virtual_env: str = "") -> Context:
    """Return the context of a step in the folder `cwd` (absolute); `virtual_env` is the active environment's folder."""
    cwd = os.path.realpath(cwd)
    root = _root(cwd)
    asked = _Asked(root)
    inside = virtual_env and os.path.realpath(virtual_env).startswith(root + "/")
    venv = True if inside else os.path.isdir(os.path.join(root, ".venv")) or os.path.isdir(os.path.join(root, "venv"))
    return Context(
        root=root,
        cwd=cwd,
        home=os.path.realpath(home),
        data=os.path.realpath(data),
        ignored=cache(asked.ignored),
        read=cache(asked.read),
        resolve=cache(_resolve),
        nested=cache(asked.nested),
        holds_ignored=cache(asked.holds_ignored),
        hooks=_hooks(root),
        venv=venv,
        aliases=cache(asked.alias),
    )


def _root(cwd: str) -> str:
    """Return the folder around `cwd` that has a `.git`, else `cwd` itself."""
    folder = cwd
    while not os.path.lexists(os.path.join(folder, ".git")):
        above = os.path.dirname(folder)
        if above == folder:
            return cwd
        folder = above
    return folder


def branch(root: str) -> str | None:
    """Return the branch that is checked out: "" when none is, None when that cannot be read."""
    place = os.path.join(root, ".git")
    try:
        if os.path.isfile(place):
            with open(place, encoding="utf-8") as file:
                place = os.path.join(root, file.read(_LONGEST).removeprefix("gitdir:").strip())
        with open(os.path.join(place, "HEAD"), encoding="utf-8") as file:
            head = file.read(_LONGEST).strip()
    except (OSError, ValueError):
        return None
    if not head.startswith("ref:"):
        return ""
    name = head.removeprefix("ref:").strip().removeprefix("refs/heads/")
    return None if name == ".invalid" else name  # so written where refs are in a table


def _resolve(path: str) -> str:
    """Follow the symlinks of the folders above; that of the path itself too, for what is written goes through it."""
    try:
        return os.path.realpath(path)
    except (OSError, ValueError):
        return path


def _hooks(root: str) -> bool:
    try:
        with os.scandir(os.path.join(root, ".git", "hooks")) as found:
            return any(entry.name in _HOOKS and entry.stat().st_mode & stat.S_IXUSR for entry in found)
    except (OSError, ValueError):
        return False


class _Asked:
    """Answers about one project."""

    def __init__(self, root: str) -> None:
        self._root = root
        self._count = 0
        self._git = os.path.lexists(os.path.join(root, ".git"))

    def ignored(self, path: str) -> bool:
        """Whether git ignores a path; for a pattern, or when enough was asked, whether it usually does."""
        if not self._git or self._count >= _MOST_ASKED or "*" in path or "?" in path:
            return usually_ignored(path)
        self._count += 1
        try:
            # -c: no program of the repository's configuration may run.
            done = git.of_user(os.fsencode(self._root), "-c", "core.fsmonitor=false", "check-ignore", "-q", "--", path)
        except GitMissing:
            return usually_ignored(path)
        return usually_ignored(path) if done.code not in (0, 1) else done.code == 0

    def holds_ignored(self, path: str) -> bool:
        """Whether git ignores something below a folder; for a pattern, or when enough was asked, it may be so."""
        if "*" in path or "?" in path:
            path = path[: min(path.find(mark) for mark in "*?" if mark in path)].rpartition("/")[0] or "."
        if not os.path.isdir(os.path.join(self._root, path)):
            return False
        if not self._git or self._count >= _MOST_ASKED:
            return self._git
        self._count += 1
        words = ("ls-files", "--others", "--ignored", "--exclude-standard", "--directory", "-z", "--", path)
        try:
            done = git.of_user(os.fsencode(self._root), "-c", "core.fsmonitor=false", *words)
        except GitMissing:
            return True
        return done.code != 0 or bool(done.out)

    def nested(self, path: str) -> bool:
        """Whether a path is in another repository inside this one."""
        folder = os.path.dirname(path)
        while folder:
            if os.path.lexists(os.path.join(self._root, folder, ".git")):
                return True
            folder = os.path.dirname(folder)
        return os.path.lexists(os.path.join(self._root, path, ".git")) if path else False

    def read(self, path: str) -> str | None:
        """Return the text of a regular file of the project, None when it is none, or too long."""
        full = os.path.join(self._root, path)
        try:
            found = os.stat(full)
            if not stat.S_ISREG(found.st_mode) or found.st_size > _LONGEST:
                return None
            with open(full, encoding="utf-8", errors="replace") as file:
                return file.read(_LONGEST)
        except (OSError, ValueError):
            return None

    def alias(self, name: str) -> str | None:
        """Return what `git NAME` is an alias for."""
        if self._count >= _MOST_ASKED:
            return None
        self._count += 1
        try:
            done = git.of_user(os.fsencode(self._root), "config", "--get", f"alias.{name}")
        except (GitMissing, ValueError):
            return None
        return done.out.decode("utf-8", "replace").rstrip("\n") if done.code == 0 else None
