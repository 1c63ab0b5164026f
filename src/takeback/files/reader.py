"""Read one path of the project into the store, as one consistent pair of stat data and bytes.

Does not cover: which paths to read (`scan`, `ignored`).
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable
from typing import NamedTuple

from takeback.errors import CannotRead
from takeback.files import sqlite_copy
from takeback.files.databases import Copy, Databases
from takeback.files.objects import Objects
from takeback.model import Entry

_TRIES = 5
_NOT_THERE = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG)
_DATABASE_FROM = 512  # the smallest page; anything shorter is no database (sqlite.org/fileformat2.html)
_STREAM_FROM = 16 * 1024 * 1024
SLACK_NS = 30_000_000  # a kernel tick and more: two changes this close may share one timestamp
COARSE_SLACK_NS = 2_100_000_000  # filesystems that keep whole (or even) seconds


class Stamp(NamedTuple):
    """What must be the same for a path to be believed unread."""

    mode: int
    size: int
    mtime_ns: int
    ctime_ns: int
    ino: int
    uid: int
    gid: int


class Seen(NamedTuple):
    """A path as read: its entry, its stamp, and whether an equal stamp may be believed next time."""

    entry: Entry
    stamp: Stamp
    trusted: bool


class Skip(NamedTuple):
    """A path that was not read, and why; `hidden` when it cannot even be seen, so that it may well be as it was."""

    why: str
    hidden: bool = False


def stamp_of(found: os.stat_result) -> Stamp:
    """Return the stamp of a stat result."""
    return Stamp(
        found.st_mode, found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino, found.st_uid, found.st_gid
    )


def is_trusted(stamp: Stamp, read_at_ns: int) -> bool:
    """Whether a later change is certain to show in the stamp.

    By ctime, which no program can set back (racy-git documentation describes the same question for mtime).
    """
    slack = COARSE_SLACK_NS if stamp.ctime_ns % 1_000_000_000 == 0 else SLACK_NS
    return stamp.ctime_ns < read_at_ns - slack


class Reader:
    """Reads paths of one root into one store."""

    def __init__(
        self,
        full: Callable[[bytes], bytes],
        objects: Objects,
        databases: Databases,
        now_ns: Callable[[], int],
        max_file: int,
    ) -> None:
        self.full = full
        self.databases = databases
        self.written: dict[bytes, Entry] = {}  # what we ourselves put there, for files that may not be read back
        self._objects = objects
        self._now_ns = now_ns
        self._max_file = max_file

    def look(self, path: bytes) -> os.stat_result | None:
        """Return lstat of a path, None when there is nothing."""
        try:
            return os.lstat(self.full(path))
        except OSError as error:
            if error.errno in _NOT_THERE or isinstance(error, PermissionError):
                return None
            raise

    def hidden(self, path: bytes) -> bool:
        """Whether a folder above the path may not be entered, so that nobody can say what is there."""
        try:
            os.lstat(self.full(path))
        except PermissionError:
            return True
        except OSError:
            return False
        return False

    def is_plain(self, path: bytes, found: os.stat_result) -> bool:
        """Whether git can read the path in bulk: a link, or a readable regular file under the cap."""
        if stat.S_ISLNK(found.st_mode):
            return True
        if not stat.S_ISREG(found.st_mode) or found.st_size > self._max_file:
            return False
        return bool(found.st_mode & 0o444 == 0o444) or os.access(self.full(path), os.R_OK)

    def read(self, path: bytes, before: Seen | None = None, known: Entry | None = None) -> Seen | Skip | None:
        """Return what is at a path now, storing its bytes unless `before` shows they are stored.

        `known` is what was last saved there: a file that became unreadable but kept size and mtime keeps its bytes.
        None when there is nothing or a directory; Skip for what cannot or must not be read.
        """
        for _ in range(_TRIES):
            at = self._now_ns()
            found = self.look(path)
            if found is None and self.hidden(path):
                return Skip("its folder cannot be entered", hidden=True)
            if found is None or stat.S_ISDIR(found.st_mode):
                return None
            stamp = stamp_of(found)
            if before is not None and before.trusted and before.stamp == stamp:
                return before
            if stat.S_ISLNK(found.st_mode):
                try:
                    oid = self._objects.write("blob", os.readlink(self.full(path)))
                except OSError:
                    continue
                again = self.look(path)
                if again is None or stamp_of(again) != stamp:
                    continue
                return self._seen(stamp, oid, at)
            if not stat.S_ISREG(found.st_mode):
                return Skip(f"a {_kind(found.st_mode)}, which has no content to save")
            if found.st_size > self._max_file:
                return Skip(f"{found.st_size} bytes, over `max_file`")
            try:
                if (copied := self._of_database(path, found)) is not None:
                    return self._copied(path, stamp, copied)
                read = self._file(path)
            except CannotRead as error:
                return Skip(str(error))
            except PermissionError as error:
                known = self.written.get(path, known)
                if known is not None and known.mtime_ns == stamp.mtime_ns and not known.is_dir:
                    if self._objects.size(known.oid) == stamp.size:
                        return Seen(Entry(stamp.mode, stamp.uid, stamp.gid, stamp.mtime_ns, known.oid), stamp, False)
                return Skip(f"cannot be read: {error.strerror}")
            except OSError:
                continue
            if read is not None:
                return self._seen(read[0], read[1], at)
        # It changes faster than it can be read: keep the last reading, and look again next time.
        try:
            if self.databases.is_database(self.full(path)):
                found = self.look(path)
                return (
                    None
                    if found is None
                    else self._copied(path, stamp_of(found), self.databases.force(self.full(path)))
                )
            read = self._file(path, settle=False)
        except (OSError, CannotRead) as error:
            return Skip(f"cannot be read: {error}")
        return None if read is None else Seen(_entry(read[0], read[1]), read[0], False)

    def _of_database(self, path: bytes, found: os.stat_result) -> Copy | None:
        """Return the copy that stands for any file of a database in use; None to read the bytes as they are."""
        base = sqlite_copy.database_of(path)
        if base is not None and self.databases.is_database(self.full(base)):
            return self.databases.copy(self.full(base))
        if found.st_size >= _DATABASE_FROM and self.databases.is_database(self.full(path)):
            return self.databases.copy(self.full(path))
        return None

    def _copied(self, path: bytes, stamp: Stamp, copy: Copy) -> Seen | None:
        """Return the part of a database's copy that belongs to a path; None when it is not part of it."""
        base = sqlite_copy.database_of(path)
        is_companion = base is not None and self.databases.is_database(self.full(base))
        oid = copy.get(path[len(base or b"") :] if is_companion else b"")
        return None if oid is None else Seen(_entry(stamp, oid), stamp, False)

    def _seen(self, stamp: Stamp, oid: str, at: int) -> Seen:
        return Seen(_entry(stamp, oid), stamp, is_trusted(stamp, at))

    def _file(self, path: bytes, *, settle: bool = True) -> tuple[Stamp, str] | None:
        fd = os.open(self.full(path), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            first = os.fstat(fd)
            if not stat.S_ISREG(first.st_mode):
                return None
            if first.st_size >= _STREAM_FROM:
                oid = self._objects.write_stream(fd)
            else:
                oid = self._objects.write("blob", _read_all(fd, first.st_size))
            last = os.fstat(fd)
            if settle and stamp_of(first) != stamp_of(last):
                return None
            return stamp_of(last), oid
        finally:
            os.close(fd)


def _entry(stamp: Stamp, oid: str) -> Entry:
    return Entry(stamp.mode, stamp.uid, stamp.gid, stamp.mtime_ns, oid)


def _read_all(fd: int, size: int) -> bytes:
    parts = []
    while chunk := os.read(fd, max(size + 1, 65536)):
        parts.append(chunk)
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _kind(mode: int) -> str:
    if stat.S_ISFIFO(mode):
        return "FIFO"
    if stat.S_ISSOCK(mode):
        return "socket"
    return "device"
