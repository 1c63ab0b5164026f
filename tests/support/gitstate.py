"""Fingerprints of a repository: what real git says of it, and the raw bytes of `.git`.

Does not cover: the working tree's files (see `tree`). The two are not to be mixed: nothing that runs git may stand
between two `raw` fingerprints, although every command here is told to take no optional lock.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Mapping
from typing import NamedTuple

State = dict[str, bytes]

# Each is asked of real git; what it prints, errors included, is the state.
_QUESTIONS: dict[str, tuple[str, ...]] = {
    "HEAD": ("rev-parse", "--verify", "-q", "HEAD"),
    "branch": ("symbolic-ref", "-q", "HEAD"),
    "refs": ("for-each-ref", "--format=%(refname) %(objectname) %(symref)"),
    "stash": ("stash", "list", "--format=%gd %H %gs"),
    "index": ("ls-files", "-z", "-s"),
    "index flags": ("ls-files", "-z", "-v"),
    "index tags": ("ls-files", "-z", "-t", "-c", "-d", "-m", "-u", "-k"),
    "index fsmonitor": ("ls-files", "-z", "-f"),
    "status": ("status", "-z", "--porcelain=v2", "--branch", "--untracked-files=all", "--ignored=traditional"),
    "diff": ("diff", "--no-ext-diff", "--binary"),
    "diff --cached": ("diff", "--cached", "--no-ext-diff", "--binary"),
    "config": ("config", "--local", "--list", "-z"),
}

# ORIG_HEAD, FETCH_HEAD and COMMIT_EDITMSG are left out: git's scratch, which every command overwrites.
_UNFINISHED = (
    "MERGE_HEAD",
    "MERGE_MSG",
    "MERGE_MODE",
    "SQUASH_MSG",
    "CHERRY_PICK_HEAD",
    "REVERT_HEAD",
    "REBASE_HEAD",
    "BISECT_LOG",
    "BISECT_START",
    "BISECT_TERMS",
    "rebase-merge",
    "rebase-apply",
    "sequencer",
)

# Bookkeeping: an entry has, or once had, flags beyond the first 16 bits; it differs from the shared part of the index.
_BOOKKEEPING = 0x4000 | 0x8000000


class Raw(NamedTuple):
    """One path inside a git directory, by bytes: mode, mtime in ns and sha256 or link target."""

    mode: int
    mtime_ns: int
    content: str


def git_directories(repository: str | os.PathLike[str]) -> list[str]:
    """Return the git directory of a worktree and, for a linked one, the common directory, without running git."""
    dot_git = os.path.join(os.fspath(repository), ".git")
    if os.path.isdir(dot_git):
        return [dot_git]
    with open(dot_git, encoding="utf-8") as file:
        target = file.read().removeprefix("gitdir:").strip()
    private = os.path.normpath(os.path.join(os.fspath(repository), target))
    common_file = os.path.join(private, "commondir")
    if not os.path.exists(common_file):
        return [private]
    with open(common_file, encoding="utf-8") as file:
        return [private, os.path.normpath(os.path.join(private, file.read().strip()))]


def state(repository: str | os.PathLike[str], env: Mapping[str, str]) -> State:
    """Return what git says about HEAD, refs, stash, index, status and unfinished operations.

    `env` is the child's whole environment. Optional locks are off, so that asking changes nothing.
    """
    found: State = {}
    with tempfile.TemporaryDirectory() as scratch:
        quiet = {**env, "GIT_OPTIONAL_LOCKS": "0"}
        index = os.path.join(git_directories(repository)[0], "index")
        if os.path.exists(index):
            # `git diff` rewrites the index it is given whatever the locks, so it is given a copy.
            quiet["GIT_INDEX_FILE"] = shutil.copy2(index, scratch)
        for name, arguments in _QUESTIONS.items():
            done = subprocess.run(
                ["git", "-c", "core.fsmonitor=false", *arguments],
                cwd=repository,
                env=quiet,
                capture_output=True,
                timeout=120,
            )
            found[name] = done.stdout + (b"" if done.returncode == 0 else f" (exit {done.returncode})".encode())
        debug = subprocess.run(["git", "ls-files", "--debug"], cwd=repository, env=quiet, capture_output=True)
        # Of the cached stat data only the flags are state: intent-to-add shows nowhere else so plainly.
        flags = [int(word, 16) & ~_BOOKKEEPING for word in re.findall(rb"flags: (\w+)", debug.stdout)]
        found["index debug flags"] = b" ".join(b"%x" % one for one in flags)
    private, common = git_directories(repository)[0], git_directories(repository)[-1]
    for name in _UNFINISHED:
        for path, raw in _walk(os.path.join(private, name)).items():
            found[f"unfinished {os.path.join(name, path) if path else name}"] = raw.content.encode()
    for name in ("hooks", "info"):
        for path, raw in _walk(os.path.join(common, name)).items():
            if raw.content:
                found[f"{name}/{path}"] = f"{raw.mode:o} {raw.content}".encode()
    return found


def difference(before: Mapping[str, bytes], after: Mapping[str, bytes]) -> list[str]:
    """Return one readable entry for each answer of git that is not the same."""
    lines = []
    for name in sorted(before.keys() | after.keys()):
        old, new = before.get(name), after.get(name)
        if old == new:
            continue
        gone = sorted(set(_records(old)) - set(_records(new)))
        come = sorted(set(_records(new)) - set(_records(old)))
        lines.append(f"{name}: gone {gone[:12]!r}, new {come[:12]!r}")
    return lines


def raw(repository: str | os.PathLike[str]) -> dict[str, Raw]:
    """Return bytes, mode and mtime of every file and directory of the repository's git directories.

    ctime and link count are left out: packs may be hard-linked into a store.
    """
    found: dict[str, Raw] = {}
    for directory in git_directories(repository):
        for path, one in _walk(directory).items():
            found[os.path.join(directory, path) if path else directory] = one
    return found


def raw_difference(before: Mapping[str, Raw], after: Mapping[str, Raw]) -> list[str]:
    """Return one readable line for each path in a git directory that is not the same."""
    lines = []
    for path in sorted(before.keys() | after.keys()):
        old, new = before.get(path), after.get(path)
        if old != new:
            lines.append(f"{path}: {old} -> {new}")
    return lines


def _walk(top: str) -> dict[str, Raw]:
    found: dict[str, Raw] = {}
    if not os.path.lexists(top):
        return found
    waiting = [""]
    while waiting:
        relative = waiting.pop()
        path = os.path.join(top, relative) if relative else top
        seen = os.lstat(path)
        content = ""
        if stat.S_ISDIR(seen.st_mode):
            waiting += [os.path.join(relative, name) if relative else name for name in os.listdir(path)]
        elif stat.S_ISLNK(seen.st_mode):
            content = os.readlink(path)
        elif stat.S_ISREG(seen.st_mode):
            with open(path, "rb") as file:
                content = hashlib.file_digest(file, "sha256").hexdigest()
        found[relative] = Raw(seen.st_mode, seen.st_mtime_ns, content)
    return found


def _records(text: bytes | None) -> list[bytes]:
    return [one for one in re.split(rb"[\0\n]", text or b"") if one]
