"""Copies of SQLite databases: byte for byte while nobody has one open, by SQLite's own backup while somebody has.

Does not cover: encrypted databases (no readable header, so ordinary files), transactions over several databases at
once (each copy is consistent by itself), and who stores the copies (`ignored`).

What a read-only connection does to the original was tried for every journal mode, with living and killed writers: no
byte and no mtime of database, -wal or -journal changed. But it makes a missing -wal or -shm, moves read marks in the
-shm (not with `readonly_shm`), and as root it sets the owner of -wal and -journal again, which moves their ctime. It
fails with a hot journal, which only a writer may roll back, and under a lock that is never let go.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import sqlite3
import stat
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from typing import BinaryIO

from takeback.errors import CannotRead, DatabaseInUse
from takeback.files import names
from takeback.host import proc, process
from takeback.host.proc import Holder

MAGIC = b"SQLite format 3\0"  # sqlite.org/fileformat2.html, "The Database Header"
SUFFIXES = (b"-wal", b"-journal", b"-shm")
_CONTENT = (b"", b"-wal", b"-journal")  # the -shm holds nothing that is not in the -wal
# sqlite.org/fileformat2.html: byte 19 is the read version, 2 for WAL.
_READ_VERSION, _WAL = 19, 2
# SQLite's os.h and wal.c: PENDING, RESERVED and 510 SHARED bytes of the database; 8 locks and the dead man's switch
# of the -shm.
_LOCKS = {b"": (0x40000000, 512), b"-shm": (120, 9)}
# Seconds to wait for a lock, one try each. The first is short: under an exclusive lock the bytes stand still.
_WAITS = (0.1, 0.3, 1.0, 2.0, 4.0)
_CHUNK = 1024 * 1024

Signature = tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class Bytes:
    """Nobody has it open: store `files` (those of the group that exist) as they are.

    Somebody may open it meanwhile: when `signature(path)` is no longer `before` afterwards, plan again.
    """

    path: bytes
    files: tuple[bytes, ...]
    before: Signature


@dataclass(frozen=True)
class Backup:
    """These processes have it open: store what `backup` makes, unless an equal signature was stored before."""

    path: bytes
    holders: tuple[Holder, ...]
    before: Signature


@dataclass(frozen=True)
class Taken:
    """What `backup` made: original path -> private copy. What is not named is not part of the copy.

    `by_bytes`: SQLite could not read it without touching it, so the bytes were copied while they stood still; then
    a -wal or -journal may be part of the copy.
    """

    sources: Mapping[bytes, bytes]
    by_bytes: bool


def looks_like_database(head: bytes) -> bool:
    """Whether a file that starts with these (at least 16) bytes is an SQLite database."""
    return head.startswith(MAGIC)


def companions(path: bytes) -> tuple[bytes, ...]:
    """Return the -wal, -journal and -shm paths of a database, whether they exist or not."""
    return tuple(path + suffix for suffix in SUFFIXES)


def database_of(path: bytes) -> bytes | None:
    """Return the database that a -wal, -journal or -shm path would belong to; None for any other name.

    The files of one database are only ever stored, restored and deleted together.
    """
    for suffix in SUFFIXES:
        if path.endswith(suffix):
            return path[: -len(suffix)]
    return None


def signature(path: bytes) -> Signature:
    """Return stat data of database, -wal and -journal; equal ones, both older than a clock tick, mean equal content.

    ctime counts for the database only: a backup by root moves it in the others.
    """
    parts: list[tuple[int, ...]] = []
    for suffix in _CONTENT:
        try:
            found = os.lstat(path + suffix)
        except OSError:
            parts.append(())
            continue
        parts.append((found.st_ino, found.st_size, found.st_mtime_ns, 0 if suffix else found.st_ctime_ns))
    return tuple(parts)


def in_use_by(paths: Iterable[bytes]) -> dict[bytes, list[Holder]]:
    """Return which databases are open or locked (or their companions are), with the processes; one scan for all.

    Open files are seen of all processes as root and of one's own otherwise; of other users' processes the locks are
    seen: any connection to a WAL database has one, to another database only while it reads or writes.
    """
    groups = {path: (path, *companions(path)) for path in paths}
    open_in = proc.holders([name for group in groups.values() for name in group], include_self=True)
    mine = proc.open_here() if groups else frozenset()
    result: dict[bytes, list[Holder]] = {}
    for path, group in groups.items():
        pids = {pid for name in group for pid in open_in.get(name, ())}
        if not _any_of(group, mine):
            pids |= {pid for suffix, place in _LOCKS.items() for pid in _locker(path + suffix, *place)}
        if pids:
            result[path] = [Holder(pid, proc.command_of(pid)) for pid in sorted(pids)]
    return result


def refuse_if_in_use(paths: Iterable[bytes]) -> None:
    """Raise DatabaseInUse, naming the process, when one of these databases must not be replaced now."""
    for path, found in in_use_by(paths).items():
        raise DatabaseInUse(path=names.show(path), pid=found[0].pid, command=found[0].command)


def plan_copy(path: bytes, holders: Sequence[Holder]) -> Bytes | Backup:
    """Return how to copy a database of which `in_use_by` said this."""
    before = signature(path)
    if holders:
        return Backup(path, tuple(holders), before)
    return Bytes(path, tuple(name for name in (path, *companions(path)) if os.path.lexists(name)), before)


def backup(path: bytes, into: bytes) -> Taken:
    """Copy a database that somebody has open to `into` (and beside it), as it was at one moment.

    Database, -wal and -journal keep bytes and mtime.
    Raises CannotRead when it changes faster than it can be copied or is not readable, leaving nothing; OSError when
    the copy cannot be written (FileExistsError: `into` or a companion of it is there).
    """
    if _any_of((path, *companions(path)), proc.open_here()):
        return _in_child(path, into)
    return _take(path, into)


def _any_of(group: Iterable[bytes], files: frozenset[tuple[int, int]]) -> bool:
    for name in group:
        try:
            found = os.stat(name)
        except OSError:
            continue
        if (found.st_dev, found.st_ino) in files:
            return True
    return False


def _locker(name: bytes, start: int, length: int) -> list[int]:
    try:
        fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return []
    try:
        pid = proc.lock_holder(fd, start, length)
    finally:
        os.close(fd)
    return [] if pid is None else [pid]


def _take(path: bytes, into: bytes) -> Taken:
    for name in (into, *companions(into)):
        if os.path.lexists(name):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), name)
    why: Exception | str = ""
    try:
        for wait in _WAITS:
            if _can_be_asked(path):
                try:
                    _by_sqlite(path, into, wait)
                    return Taken({path: into}, by_bytes=False)
                except sqlite3.Error as error:
                    why = error
                    _discard(into)
            copied = _by_bytes(path, into)
            if copied is not None:
                return Taken(copied, by_bytes=True)
            _discard(into)
            time.sleep(wait / 4)
    except BaseException:
        _discard(into)
        raise
    raise CannotRead(path=names.show(path), why=f"it is written faster than it can be copied ({why})")


def _can_be_asked(path: bytes) -> bool:
    """Whether a connection would find every file it needs as it wants it, and so change nothing in the project."""
    try:
        with _open(path) as file:
            head = file.read(_READ_VERSION + 1)
            owner = _owner(os.fstat(file.fileno()))
    except FileNotFoundError:
        return False
    if not looks_like_database(head) or len(head) <= _READ_VERSION:
        return False
    there = {}
    for suffix in SUFFIXES:
        try:
            there[suffix] = os.lstat(path + suffix)
        except FileNotFoundError:
            pass
    if head[_READ_VERSION] == _WAL and not there.keys() >= {b"-wal", b"-shm"}:
        return False
    # SQLite of root gives companions to the owner of the database.
    return os.geteuid() != 0 or all(_owner(found) == owner for found in there.values())


def _owner(found: os.stat_result) -> tuple[int, int]:
    return found.st_uid, found.st_gid


def _by_sqlite(path: bytes, into: bytes, wait: float) -> None:
    os.close(_create(into))
    # sqlite.org/uri.html: %XX stands for any byte, so a name may be anything.
    name = "".join(f"%{byte:02X}" for byte in os.path.abspath(path)[1:])
    uri = f"file:///{name}?mode=ro&readonly_shm=1"
    with (
        closing(sqlite3.connect(uri, uri=True, timeout=wait, isolation_level=None)) as source,
        closing(sqlite3.connect(into, isolation_level=None)) as target,
    ):
        target.execute("PRAGMA journal_mode=OFF")
        target.execute("PRAGMA synchronous=OFF")
        # The read lock first: without it the backup waits for ever on a locked database, and starts again each time
        # somebody writes.
        source.execute("BEGIN")
        source.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchall()
        source.backup(target, progress=_never_wait)


def _never_wait(status: int, remaining: int, _total: int) -> None:
    if status not in (0, 101):  # SQLITE_OK, SQLITE_DONE
        raise sqlite3.OperationalError(f"backup stopped with code {status}, {remaining} pages left")


def _by_bytes(path: bytes, into: bytes) -> dict[bytes, bytes] | None:
    """Copy database, -wal and -journal; None when a second reading is not the same as the first.

    Equal readings mean a moment between them at which all files were like this. -shm is left out: SQLite builds it
    again from the -wal.
    """
    before = signature(path)
    if not before[0]:
        raise CannotRead(path=names.show(path), why="it was deleted meanwhile")
    copies = {path + suffix: into + suffix for suffix, part in zip(_CONTENT, before, strict=True) if part}
    try:
        first = [_read(name, copy) for name, copy in copies.items()]
        second = [_read(name) for name in copies]
    except FileNotFoundError:
        return None
    return copies if first == second and signature(path) == before else None


def _read(path: bytes, copy: bytes | None = None) -> bytes:
    """Return a digest of a file, writing its bytes to `copy` if there is one."""
    digest = hashlib.blake2b()
    with ExitStack() as stack:
        source = stack.enter_context(_open(path))
        target = None if copy is None else stack.enter_context(open(_create(copy), "wb"))
        while chunk := source.read(_CHUNK):
            digest.update(chunk)
            if target is not None:
                target.write(chunk)
    return digest.digest()


def _open(path: bytes) -> BinaryIO:
    try:
        file = open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC), "rb")
    except FileNotFoundError:
        raise
    except OSError as error:
        raise CannotRead(path=names.show(path), why=error.strerror) from error
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise CannotRead(path=names.show(path), why="not a regular file")
    return file


def _create(path: bytes) -> int:
    return os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600)


def _discard(into: bytes) -> None:
    for name in (into, *companions(into)):
        try:
            os.unlink(name)
        except FileNotFoundError:
            pass


def _in_child(path: bytes, into: bytes) -> Taken:
    """Take the copy in another process: see `proc.open_here` for what closing the file here would do."""
    package = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    code = f"import sys; sys.path.insert(0, {package!r}); from takeback.files import sqlite_copy as c; c.child()"
    try:
        argv: list[str | bytes] = [sys.executable, "-I", "-c", code, path, into]
        done = process.start(argv, env=process.clean_environment()).finish()
        why = done.err.decode("utf-8", "replace").strip().rpartition("\n")[2] if done.code else ""
    except OSError as error:
        done, why = None, str(error)
    if done is None or done.code != 0:
        _discard(into)
        raise CannotRead(path=names.show(path), why=why or "the process that copies it failed")
    answer = json.loads(done.out)
    return Taken({path + s: into + s for s in map(os.fsencode, answer["suffixes"])}, answer["by_bytes"])


def child() -> None:
    """Run `backup` for the process that started this one; sys.argv holds path and copy, stdout takes the answer."""
    path, into = map(os.fsencode, sys.argv[1:])
    taken = _take(path, into)
    suffixes = [os.fsdecode(name[len(path) :]) for name in taken.sources]
    os.write(1, json.dumps({"suffixes": suffixes, "by_bytes": taken.by_bytes}).encode())
