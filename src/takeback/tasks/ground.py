"""The tree a task is done in: a worktree of git's below takeback's data, with state files and dependencies.

Does not cover: what happens in it (`run`), or saving it (the caller's checkpoints).
"""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass

from takeback.errors import CannotRead, GitFailed
from takeback.files import sqlite_copy
from takeback.host import trash as discards
from takeback.host.usergit import UserGit
from takeback.tasks.flags import matches
from takeback.tasks.settings import TaskSettings

_LOOK_INSIDE = 5000  # entries of ignored directories that are looked at for state files
_BIGGEST = 512 << 20
# Made by tools; state files in them are not the project's.
_TOOLS = frozenset(
    b"node_modules .venv venv env __pycache__ .tox .nox .mypy_cache .pytest_cache .ruff_cache .cache target dist build "
    b"out .next .nuxt .svelte-kit .gradle .idea .terraform vendor bower_components .direnv Pods DerivedData".split()
)


def add(git: UserGit, path: bytes, commit: str, trash: bytes, *, checkout: bool = True) -> None:
    """Make a worktree at a commit, detached. What a killed call left at the path is replaced. Raises GitFailed."""
    remove(git, path, trash)
    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    without = () if checkout else ("--no-checkout",)
    git.run("worktree", "add", "-q", "--force", "--detach", *without, os.fsdecode(path), commit)


def remove(git: UserGit, path: bytes, trash: bytes) -> None:
    """Take a worktree away, with all that is in it; nothing there is no error. Its files go to `trash`."""
    there = os.path.lexists(path)
    if there and not discards.discard(path, trash):
        _open_folders(path)
        shutil.rmtree(path, ignore_errors=True)
    if there or any(where == path for where, _ in worktrees(git)):
        # Of this one alone: `git worktree prune` would forget one of the user's whose disk is not there now.
        git.finish("worktree", "remove", "--force", "--force", os.fsdecode(path))
    with suppress(OSError):
        os.rmdir(os.path.dirname(path))


def _open_folders(path: bytes) -> None:
    """Make what may not be entered removable; dependencies are at times installed read-only."""
    for folder, _, _ in os.walk(path):
        with suppress(OSError):
            os.chmod(folder, 0o700)


def worktrees(git: UserGit) -> list[tuple[bytes, str]]:
    """Return every worktree of the repository with the branch it has out (`refs/heads/x`, or empty)."""
    found: list[tuple[bytes, str]] = []
    out = git.run("worktree", "list", "--porcelain", "-z")
    for block in out.split(b"\0\0"):
        where, branch = b"", ""
        for line in block.split(b"\0"):
            if line.startswith(b"worktree "):
                where = line[9:]
            elif line.startswith(b"branch "):
                branch = line[7:].decode("utf-8", "surrogateescape")
        if where:
            found.append((where, branch))
    return found


def holder(git: UserGit, branch: str) -> bytes | None:
    """Return the worktree that has a branch (without refs/heads/) out, or is in the middle of rebasing it, or None."""
    return next((where for where, has in worktrees(git) if has == f"refs/heads/{branch}"), None)


@dataclass(frozen=True)
class State:
    """Where state files of a new tree come from: the user's tree, and what the last task on the branch left."""

    user: bytes
    earlier: bytes | None = None  # a folder with the state files the last landed task ended with
    began_with: dict[str, str] | None = None  # digests of the user's files when that task began

    def fill(self, git: UserGit, target: bytes, settings: TaskSettings) -> tuple[dict[str, str], list[str]]:
        """Copy state files into a tree; return the digests of the user's own, and notes about what could not be."""
        digests: dict[str, str] = {}
        notes: list[str] = []
        for path in sorted(state_files(git, settings)):
            source = os.path.join(self.user, path)
            try:
                digests[os.fsdecode(path)] = _copy(source, os.path.join(target, path), target)
            except (OSError, CannotRead) as error:
                notes.append(f"{os.fsdecode(path)} was not copied: {error}")
        if self.earlier is not None and os.path.isdir(self.earlier):
            for path in _below(self.earlier):
                name = os.fsdecode(path)
                if digests.get(name, "") == (self.began_with or {}).get(name, ""):
                    _copy(os.path.join(self.earlier, path), os.path.join(target, path), target)
        return digests, notes


def keep_state(git: UserGit, target: bytes, settings: TaskSettings) -> None:
    """Copy the state files of a tree into a folder, in place of what was there."""
    shutil.rmtree(target, ignore_errors=True)
    os.makedirs(target, mode=0o700)
    for path in state_files(git, settings):
        with suppress(OSError, CannotRead):
            _copy(os.path.join(git.cwd, path), os.path.join(target, path), target)


def state_files(git: UserGit, settings: TaskSettings) -> list[bytes]:
    """Return the ignored files of a tree that are state by the settings; big trees made by tools are not entered."""
    out = git.run("ls-files", "-o", "-i", "--exclude-standard", "--directory", "--no-empty-directory", "-z")
    apart = (*settings.share, *settings.clone)
    found = []
    budget = _LOOK_INSIDE
    for path in out.split(b"\0"):
        if not path or any(_inside(path, os.fsencode(one)) for one in apart):
            continue
        inside: Iterable[bytes] = _below_in(git.cwd, path[:-1], budget) if path.endswith(b"/") else (path,)
        for one in inside:
            budget -= 1
            if matches(one.decode("utf-8", "surrogateescape"), settings.copy) and _fits(os.path.join(git.cwd, one)):
                found.append(one)
    return found


def _inside(path: bytes, folder: bytes) -> bool:
    path, folder = path.rstrip(b"/"), folder.strip(b"/")
    return path == folder or path.startswith(folder + b"/")


def _fits(path: bytes) -> bool:
    try:
        found = os.lstat(path)
    except OSError:
        return False
    return stat.S_ISREG(found.st_mode) and found.st_size <= _BIGGEST


def _below_in(root: bytes, folder: bytes, budget: int) -> Iterator[bytes]:
    if os.path.basename(folder) in _TOOLS:
        return
    for place, folders, files in os.walk(os.path.join(root, folder)):
        folders[:] = sorted(name for name in folders if name not in _TOOLS and name != b".git")
        for name in sorted(files):
            budget -= 1
            if budget < 0:
                return
            yield os.path.relpath(os.path.join(place, name), root)


def _below(folder: bytes) -> Iterator[bytes]:
    for place, _, files in os.walk(folder):
        for name in files:
            yield os.path.relpath(os.path.join(place, name), folder)


def _copy(source: bytes, target: bytes, root: bytes) -> str:
    """Copy one state file with mode and time, a database somebody holds open whole; return its digest."""
    real = os.path.realpath(os.path.dirname(target))
    if not (real + b"/").startswith(os.path.realpath(root) + b"/"):
        raise OSError(None, "a link leads out of the tree")
    os.makedirs(os.path.dirname(target), exist_ok=True)
    with suppress(FileNotFoundError):
        os.unlink(target)
    found = os.stat(source)
    with open(source, "rb") as file:
        is_database = sqlite_copy.looks_like_database(file.read(16))
    if is_database and sqlite_copy.in_use_by([source]):
        sqlite_copy.backup(source, target)
    else:
        shutil.copyfile(source, target)
    os.chmod(target, stat.S_IMODE(found.st_mode))
    os.utime(target, ns=(found.st_atime_ns, found.st_mtime_ns))
    with open(target, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def dependencies(
    user: bytes, target: bytes, settings: TaskSettings, clone: Callable[[bytes, bytes], None]
) -> list[str]:
    """Bring shared and cloned directories into a tree; return the paths of links, which no commit may hold."""
    links = []
    for name in settings.share:
        source, place = _pair(user, target, name)
        if os.path.isdir(source) and not os.path.lexists(place):
            os.makedirs(os.path.dirname(place), exist_ok=True)
            os.symlink(source, place)
        if os.path.islink(place):
            links.append(name.strip("/"))
    for name in settings.clone:
        source, place = _pair(user, target, name)
        if os.path.isdir(source) and not os.path.lexists(place):
            os.makedirs(os.path.dirname(place), exist_ok=True)
            clone(source, place)
    return links


def _pair(user: bytes, target: bytes, name: str) -> tuple[bytes, bytes]:
    path = os.fsencode(name.strip("/"))
    return os.path.join(user, path), os.path.join(target, path)


def good_branch(git: UserGit, branch: str) -> bool:
    """Whether git takes this for a branch's name."""
    try:
        return git.finish("check-ref-format", "--branch", branch).code == 0 and not branch.startswith("-")
    except GitFailed:
        return False


def links_of(settings: TaskSettings, target: bytes) -> Sequence[str]:
    """Return those shared directories that are links in a tree."""
    return [name.strip("/") for name in settings.share if os.path.islink(_pair(b"", target, name)[1])]
