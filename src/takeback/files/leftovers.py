"""What killed commands and full disks leave in a project's private data: found, and removed when nobody can use it.

Does not cover: stage folders in the project (`journal`), and locks, which the kernel frees.
"""

from __future__ import annotations

import errno
import os
import shutil
import sqlite3
import time
from contextlib import ExitStack

from takeback.errors import Busy, DiskFull, GitFailed
from takeback.files.workspace import Workspace
from takeback.host import locks, proc

# Names that only live as long as one command: `atomic`, `databases`, `plan`, `undo`, `gitstate`, `gitrestore`, git.
_SCRATCH = (b".tmp-", b"tmp", b"db-", b"merge-", b"ignore-", b"index.copy", b"index.new")
_TEMPORARY = (b"tmp_", b".tmp-")
_ROOM = 64 * 1024
_PATIENCE = 10.0


def clean_scratch(workspace: Workspace) -> None:
    """Remove a dead command's temporary files of one worktree; its lock is held."""
    folder = os.fsencode(workspace.dir.path)
    for name in os.listdir(folder):
        path = os.path.join(folder, name)
        if name.endswith(b".lock"):
            _let_go(path)
        elif not name.startswith(_SCRATCH):
            continue
        if os.path.isdir(path) and not os.path.islink(path):
            shutil.rmtree(path, ignore_errors=True)
        else:
            _remove(path)


def _let_go(lock: bytes) -> None:
    """Wait for a git that outlived the command it worked for."""
    until = time.monotonic() + _PATIENCE
    while proc.holders([lock]) and time.monotonic() < until:
        time.sleep(0.02)


def in_store(workspace: Workspace) -> list[bytes]:
    """Return temporary files among the store's objects; those of a running command are among them."""
    top = os.path.join(workspace.project.store, b"objects")
    found = []
    for name in os.listdir(top):
        folder = os.path.join(top, name)
        if name.startswith(_TEMPORARY):
            found.append(folder)
        elif name != b"info" and os.path.isdir(folder):
            found += [os.path.join(folder, one) for one in os.listdir(folder) if one.startswith(_TEMPORARY)]
    return found


def clean_store(workspace: Workspace) -> None:
    """Remove the store's temporary files unless another worktree's command may be writing one; ours is locked."""
    with ExitStack() as others:
        folder = workspace.project.path / "worktrees"
        for name in os.listdir(folder):
            if name != workspace.dir.key:
                try:
                    others.enter_context(locks.held(folder / name / "lock", what="cleaning", wait=0))
                except (Busy, OSError):
                    return
        for path in in_store(workspace):
            if os.path.isdir(path):
                shutil.rmtree(path, ignore_errors=True)
            else:
                _remove(path)


def drop_damaged_index(workspace: Workspace) -> bool:
    """Remove a private index that git cannot read, only a cache, and say whether it was so; its lock is held."""
    if not os.path.exists(workspace.dir.index) or workspace.git.code("ls-files") == 0:
        return False
    _remove(workspace.dir.index)
    workspace.dir.cursor.unlink(missing_ok=True)
    workspace.drop_cursor()
    return True


def disk_is_full(error: BaseException, path: bytes) -> bool:
    """Whether an error came from a full disk; git does not always say so, then the room at `path` does."""
    if isinstance(error, OSError):
        return error.errno in (errno.ENOSPC, errno.EDQUOT)
    if isinstance(error, sqlite3.Error):
        return getattr(error, "sqlite_errorcode", None) in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR_SHMSIZE)
    if isinstance(error, DiskFull) or "No space left" in str(error) or "Disk quota" in str(error):
        return True
    if not isinstance(error, GitFailed):
        return False
    disk = os.statvfs(path)
    return disk.f_bavail * disk.f_frsize < _ROOM


def _remove(path: bytes) -> None:
    try:
        os.unlink(path)
    except OSError:
        pass
