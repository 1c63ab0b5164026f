"""Decide how each file of an SQLite database enters the store, for the reader.

Does not cover: making the copy (`sqlite_copy`), or restoring (`apply` refuses while somebody holds one open).
"""

from __future__ import annotations

import os
import shutil
import tempfile

from takeback.files import sqlite_copy
from takeback.files.objects import Objects
from takeback.files.sqlite_copy import Signature
from takeback.host import proc

Copy = dict[bytes, str]  # suffix ("" for the database itself) -> blob


class Databases:
    """Copies of databases that somebody holds open, remembered by the signature they were made at."""

    def __init__(self, objects: Objects, scratch: bytes) -> None:
        self._objects = objects
        self._scratch = scratch
        self._answers: dict[bytes, Copy | None] = {}
        self.known: dict[bytes, tuple[Signature, Copy]] = {}
        self.mine: frozenset[tuple[int, int]] = frozenset()

    def begin(self, known: dict[bytes, tuple[Signature, Copy]]) -> None:
        """Start a new checkpoint: who holds what is asked again."""
        self._answers = {}
        self.known = known
        self.mine = proc.open_here()

    def is_mine(self, found: os.stat_result) -> bool:
        """Whether this very process has the file open, so that it must not be opened and closed here."""
        return (found.st_dev, found.st_ino) in self.mine

    def is_database(self, full: bytes) -> bool:
        """Whether there is an SQLite database at this place."""
        try:
            found = os.lstat(full)
            if self.is_mine(found):
                return sqlite_copy.looks_like_database(proc.head_of_open(found, 16))
            fd = os.open(full, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:
            return False
        try:
            return sqlite_copy.looks_like_database(os.read(fd, 16))
        except OSError:
            return False
        finally:
            os.close(fd)

    def copy(self, full: bytes) -> Copy | None:
        """Return the stored copy of a database that somebody holds open, None when nobody does.

        Raises CannotRead when no consistent copy can be had.
        """
        if full not in self._answers:
            self._answers[full] = self._make(full) if sqlite_copy.in_use_by([full]) else None
            if self._answers[full] is None:
                self.known.pop(full, None)
        return self._answers[full]

    def force(self, full: bytes) -> Copy:
        """Return a consistent copy of a database that is written too fast to be read, whoever it is that writes."""
        copy = self._answers.get(full)
        if copy is None:
            copy = self._answers[full] = self._make(full)
        return copy

    def _make(self, full: bytes) -> Copy:
        before = sqlite_copy.signature(full)
        if full in self.known and self.known[full][0] == before:
            return self.known[full][1]
        folder = tempfile.mkdtemp(prefix=b"db-", dir=self._scratch)
        try:
            taken = sqlite_copy.backup(full, os.path.join(folder, b"copy"))
            made: Copy = {}
            for original, private in taken.sources.items():
                fd = os.open(private, os.O_RDONLY | os.O_CLOEXEC)
                try:
                    made[original[len(full) :]] = self._objects.write_stream(fd)
                finally:
                    os.close(fd)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        if sqlite_copy.signature(full) == before:
            self.known[full] = (before, made)
        else:
            self.known.pop(full, None)
        return made


def suspects(paths: set[bytes]) -> set[bytes]:
    """Return the paths that may be databases in use, by name: beside a companion, or with a usual ending."""
    result = set()
    for path in paths:
        base = sqlite_copy.database_of(path)
        if base is not None and base in paths:
            result |= {base, path}
        elif path.lower().endswith((b".db", b".sqlite", b".sqlite3", b".db3", b".s3db", b".sl3")):
            result.add(path)
    return result


def with_databases(paths: set[bytes]) -> set[bytes]:
    """Return `paths` with the database each -wal or -journal belongs to: it changed too."""
    return paths | {base for path in paths if (base := sqlite_copy.database_of(path))}
