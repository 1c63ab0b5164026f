"""Make the SQLite file of a timeline, or put a damaged one aside.

Does not cover: filling it again (see `files`). Only needs a local filesystem: no other process sees a half-made file.
"""

from __future__ import annotations

import errno
import fcntl
import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from takeback.errors import CannotWrite, DiskFull

FORMAT: Final = 1
APPLICATION_ID: Final = 0x746B6264

# Version 1. Never edit: a change is a new version with a step from this one.
_SCHEMA: Final = f"""
CREATE TABLE events (
    seq INTEGER PRIMARY KEY,
    kind TEXT NOT NULL,
    id BLOB NOT NULL,
    crc INTEGER NOT NULL,
    body BLOB NOT NULL
);
CREATE UNIQUE INDEX events_by_id ON events (kind, id) WHERE id <> x'';
CREATE TABLE checkpoints (
    id BLOB PRIMARY KEY,
    number INTEGER NOT NULL,
    worktree BLOB NOT NULL,
    crc INTEGER NOT NULL,
    body BLOB NOT NULL
);
CREATE INDEX checkpoints_by_number ON checkpoints (number);
CREATE INDEX checkpoints_by_worktree ON checkpoints (worktree, number);
CREATE TABLE numbers (prefix TEXT PRIMARY KEY, last INTEGER NOT NULL);
CREATE TABLE meta (key BLOB PRIMARY KEY, value BLOB NOT NULL);
PRAGMA application_id = {APPLICATION_ID};
PRAGMA user_version = {FORMAT};
"""


def create_if_missing(path: Path) -> None:
    """Make an empty timeline at `path` (mode 0600) unless something is there; its directory must exist.

    Made beside it, fsynced and renamed, under a lock on the directory. Raises DiskFull or CannotWrite, sqlite3.Error.
    """
    if path.exists():
        return
    try:
        with _locked(path.parent):
            if not path.exists():
                _create(path)
    except OSError as exc:
        raise _translated(path, exc) from exc


def put_aside(path: Path) -> Path | None:
    """Move a damaged timeline away so that a new one can be made; returns where to, None when there was none.

    No other process may have it open: hold the project's lock. Raises DiskFull or CannotWrite.
    """
    try:
        with _locked(path.parent):
            if not path.exists():
                return None
            number = 1
            while (aside := path.with_name(f"{path.name}.damaged-{number}")).exists():
                number += 1
            # The log first: left behind, SQLite would play it into the new file.
            for end in ("-wal", "-shm", ""):
                try:
                    os.rename(f"{path}{end}", f"{aside}{end}")
                except FileNotFoundError:
                    pass
            return aside
    except OSError as exc:
        raise _translated(path, exc) from exc


def _create(path: Path) -> None:
    new = path.with_name(path.name + ".new")
    # Under the lock anything of these names is what a dead process left.
    for leftover in (f"{path}-wal", f"{path}-shm", f"{new}", f"{new}-wal", f"{new}-shm", f"{new}-journal"):
        try:
            os.unlink(leftover)
        except FileNotFoundError:
            pass
    os.close(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    try:
        db = sqlite3.connect(new, isolation_level=None)
        try:
            db.execute("PRAGMA journal_mode = WAL")
            db.execute("PRAGMA synchronous = OFF")
            db.executescript(f"BEGIN;{_SCHEMA}COMMIT;")
        finally:
            db.close()
        _sync(new, os.O_RDONLY)
        os.rename(new, path)
        _sync(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    except BaseException:
        for left in (f"{new}", f"{new}-wal", f"{new}-shm"):
            try:
                os.unlink(left)
            except OSError:
                pass
        raise


def _sync(path: Path, flags: int) -> None:
    fd = os.open(path, flags | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


@contextmanager
def _locked(directory: Path) -> Iterator[None]:
    # The directory itself is the lock, so nothing is left behind and the kernel frees it when its holder dies.
    fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)


def _translated(path: Path, exc: OSError) -> DiskFull | CannotWrite:
    if exc.errno in (errno.ENOSPC, errno.EDQUOT):
        return DiskFull(path=str(path))
    return CannotWrite(path=str(path), why=exc.strerror or str(exc), next="make its directory writable and repeat")
