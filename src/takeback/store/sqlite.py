"""The timeline in one SQLite file: the default store, and a cache of what the project's git store holds.

Does not cover: rebuilding it from there (see `files`), or network filesystems, where SQLite's write-ahead log does not
work. The tables are described in docs/formats/timeline.md; making the file is in `create`.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar
from zlib import crc32

from takeback.errors import Busy, CannotRead, CannotWrite, Damaged, DiskFull, StoreReadOnly, TakebackError, UsageError
from takeback.model import Checkpoint, Event
from takeback.store.base import split_id
from takeback.store.create import APPLICATION_ID, FORMAT, create_if_missing
from takeback.timeline.codec import REBUILD, decode, decode_checkpoint, encode, encode_checkpoint

_PAGE = 1000
_USE_NUMBER = """
INSERT INTO numbers (prefix, last) VALUES (?, ?)
ON CONFLICT (prefix) DO UPDATE SET last = max(last, excluded.last)
"""
_T = TypeVar("_T", Event, Checkpoint)


class SqliteStore:
    """A `TimelineStore` in one SQLite file (mode 0600, write-ahead log); for one thread."""

    def __init__(self, path: Path, *, create: bool = True, wait: float = 5.0) -> None:
        """Open `path`, making it first when it is missing and `create`; `wait` is how long to wait for other writers.

        Raises Damaged when it is missing (without `create`) or is not a timeline, else as every call.
        """
        self.path = path
        self._depth = 0
        if create:
            with self._errors():
                create_if_missing(path)
        if not path.exists():
            raise self._damaged("the file is missing")
        self._db = self._connect(wait)
        try:
            try:
                self._format = self._look()
            except DiskFull:
                # No room for the file that readers share. Alone, SQLite keeps that index in memory.
                self._db.close()
                self._db = self._connect(wait)
                self._db.execute("PRAGMA locking_mode = EXCLUSIVE")
                self._format = self._look()
        except BaseException:
            self._db.close()
            raise

    def _connect(self, wait: float) -> sqlite3.Connection:
        with self._errors():
            # mode=rw: a file that goes away in between must not come back as an empty database.
            uri = self.path.absolute().as_uri() + "?mode=rw"
            return sqlite3.connect(uri, uri=True, timeout=wait, isolation_level=None, cached_statements=32)

    def _look(self) -> int:
        with self._errors():
            row = self._db.execute("SELECT * FROM pragma_application_id, pragma_user_version").fetchone()
            if row[0] != APPLICATION_ID or row[1] < 1:
                raise self._damaged("it is not a timeline")
            # NORMAL may lose the last events when the power fails, never the file; git's store still has them.
            self._db.execute("PRAGMA query_only = 1" if row[1] > FORMAT else "PRAGMA synchronous = NORMAL")
        return int(row[1])

    @property
    def read_only(self) -> bool:
        return self._format > FORMAT

    @property
    def last_seq(self) -> int:
        return int(self._all("SELECT coalesce(max(seq), 0) FROM events")[0][0])

    def append(self, event: Event) -> Event:
        with self.transaction():
            last = self.last_seq
            if event.seq and event.seq <= last:
                raise UsageError(detail=f"event {event.seq} cannot come after event {last}")
            event = replace(event, seq=event.seq or last + 1)
            body = encode(event)
            added = self._run(
                "INSERT INTO events (seq, kind, id, crc, body) VALUES (?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
                *(event.seq, event.kind.value, _blob(event.id), crc32(body), body),
            )
            if not added.rowcount:
                raise UsageError(detail=f"the {event.kind} {event.id} is in the timeline already")
            self._used(event.id)
        return event

    def events(self, after_seq: int = 0) -> Iterator[Event]:
        # In pages: a cursor left open would keep the log from being folded into the file, and break on a rollback.
        query = "SELECT seq, crc, body FROM events WHERE seq > ? ORDER BY seq LIMIT ?"
        while rows := self._all(query, after_seq, _PAGE):
            for seq, crc, body in rows:
                if seq <= after_seq:
                    # A damaged tree can lead in circles.
                    raise self._damaged(f"event {seq} comes after event {after_seq}")
                after_seq = seq
                event = self._checked(f"event {seq}", crc, body, _event(seq))
                if event is not None:
                    yield event

    def put_checkpoint(self, checkpoint: Checkpoint) -> None:
        body = encode_checkpoint(checkpoint)
        number = split_id(checkpoint.id)[1]
        with self.transaction():
            self._run(
                "INSERT OR REPLACE INTO checkpoints (id, number, worktree, crc, body) VALUES (?, ?, ?, ?, ?)",
                *(_blob(checkpoint.id), number, _blob(checkpoint.worktree), crc32(body), body),
            )
            self._used(checkpoint.id)

    def checkpoint(self, id: str) -> Checkpoint | None:
        for number, crc, body in self._all("SELECT number, crc, body FROM checkpoints WHERE id = ?", _blob(id)):
            return self._checked(f"checkpoint {id}", crc, body, _checkpoint(number))
        return None

    def checkpoints(self, worktree: str | None = None, *, newest_first: bool = True) -> Iterator[Checkpoint]:
        # All at once: forgetting some while walking them must not make the walk skip others.
        query = "SELECT number, crc, body FROM checkpoints"
        order = " ORDER BY number DESC" if newest_first else " ORDER BY number"
        if worktree is None:
            rows = self._all(query + order)
        else:
            rows = self._all(query + " WHERE worktree = ?" + order, _blob(worktree))
        for number, crc, body in rows:
            checkpoint = self._checked(f"checkpoint c{number}", crc, body, _checkpoint(number))
            if checkpoint is not None:
                yield checkpoint

    def forget_checkpoints(self, ids: Iterable[str]) -> int:
        with self.transaction():
            return sum(self._run("DELETE FROM checkpoints WHERE id = ?", _blob(id)).rowcount for id in ids)

    def next_number(self, prefix: str) -> int:
        if split_id(f"{prefix}1")[0] != prefix:
            raise UsageError(detail=f"{prefix!r} is not the letter of an id")
        with self.transaction():
            number = self._last_number(prefix) + 1
            self._run(_USE_NUMBER, prefix, number)
        return number

    def get_meta(self, key: str) -> str | None:
        rows = self._all("SELECT value FROM meta WHERE key = ?", _blob(key))
        return rows[0][0].decode("utf-8", "surrogatepass") if rows else None

    def set_meta(self, key: str, value: str) -> None:
        with self.transaction():
            self._run("INSERT OR REPLACE INTO meta (key, value) VALUES (?, ?)", _blob(key), _blob(value))

    @contextmanager
    def transaction(self) -> Iterator[None]:
        if self.read_only:
            raise StoreReadOnly(found=self._format, known=FORMAT)
        inner = self._depth > 0
        name = f"level{self._depth}"
        self._run(f"SAVEPOINT {name}" if inner else "BEGIN IMMEDIATE")
        self._depth += 1
        try:
            yield
            self._run(f"RELEASE {name}" if inner else "COMMIT")
        except BaseException:
            # A full disk can end SQLite's transaction by itself; then there is nothing left to roll back.
            if self._db.in_transaction:
                for undo in (f"ROLLBACK TO {name}", f"RELEASE {name}") if inner else ("ROLLBACK",):
                    self._run(undo)
            raise
        finally:
            self._depth -= 1

    def verify(self) -> tuple[str, ...]:
        problems: list[str] = []
        try:
            problems += [row[0] for row in self._all("PRAGMA quick_check") if row[0] != "ok"]
            for seq, crc, body in self._all("SELECT seq, crc, body FROM events ORDER BY seq"):
                problems += self._problem(f"event {seq}", crc, body, _event(seq))
            for number, crc, body in self._all("SELECT number, crc, body FROM checkpoints ORDER BY number"):
                problems += self._problem(f"checkpoint c{number}", crc, body, _checkpoint(number))
        except TakebackError as exc:
            problems.append(str(exc))
        return tuple(problems)

    def close(self) -> None:
        with self._errors():
            self._db.close()

    def __enter__(self) -> SqliteStore:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _used(self, id: str) -> None:
        try:
            prefix, number = split_id(id)
        except UsageError:
            return
        self._run(_USE_NUMBER, prefix, number)

    def _last_number(self, prefix: str) -> int:
        rows = self._all("SELECT last FROM numbers WHERE prefix = ?", prefix)
        return int(rows[0][0]) if rows else 0

    def _problem(self, what: str, crc: object, body: object, read: Callable[[bytes], _T]) -> list[str]:
        try:
            self._checked(what, crc, body, read)
        except TakebackError as exc:
            return [str(exc)]
        return []

    def _checked(self, what: str, crc: object, body: object, read: Callable[[bytes], _T]) -> _T | None:
        if not isinstance(body, bytes) or crc32(body) != crc:
            raise self._damaged(f"{what} is not what was written")
        try:
            return read(body)
        except StoreReadOnly:
            if self.read_only:
                return None
            raise
        except Damaged as exc:
            raise self._damaged(f"{what}: {exc.fields['detail']}") from exc

    def _run(self, query: str, *values: object) -> sqlite3.Cursor:
        if self._depth and not self._db.in_transaction:
            # SQLite gave the transaction up and the caller went on: what comes now must not be written by itself.
            raise DiskFull(path=str(self.path))
        with self._errors():
            return self._db.execute(query, values)

    def _all(self, query: str, *values: object) -> list[tuple[Any, ...]]:
        with self._errors():
            return self._run(query, *values).fetchall()

    def _damaged(self, detail: str) -> Damaged:
        return Damaged(what=f"the timeline {self.path}", detail=detail, next=REBUILD)

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except UnicodeDecodeError as exc:
            # SQLite quotes names of a damaged schema in its messages.
            raise self._damaged("it holds names that are not text") from exc
        except sqlite3.DatabaseError as exc:
            code = getattr(exc, "sqlite_errorcode", None)
            if code is None and not isinstance(exc, sqlite3.OperationalError):
                raise
            raise self._translated(str(exc), code) from exc

    def _translated(self, why: str, code: int | None) -> TakebackError:
        primary = None if code is None else code & 0xFF
        if code in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR_SHMSIZE):
            return DiskFull(path=str(self.path))
        if primary in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            return Busy(owner=f"another process writes {self.path}")
        if primary in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM):
            return CannotWrite(path=str(self.path), why=why, next="make it writable and repeat")
        if primary == sqlite3.SQLITE_CANTOPEN or (
            primary == sqlite3.SQLITE_IOERR and code != sqlite3.SQLITE_IOERR_SHORT_READ
        ):
            return CannotRead(path=str(self.path), why=why)
        return self._damaged(why)


def _blob(text: str) -> bytes:
    # SQLite's own text cannot hold what a file name or a tool call may: half a surrogate pair.
    return text.encode("utf-8", "surrogatepass")


def _event(seq: int) -> Callable[[bytes], Event]:
    def read(body: bytes) -> Event:
        event = decode(body)
        if event.seq != seq:
            raise Damaged(what="an event of the timeline", detail=f"it is event {event.seq}", next=REBUILD)
        return event

    return read


def _checkpoint(number: int) -> Callable[[bytes], Checkpoint]:
    def read(body: bytes) -> Checkpoint:
        checkpoint = decode_checkpoint(body)
        if split_id(checkpoint.id)[1] != number:
            raise Damaged(what="a checkpoint of the timeline", detail=f"it is {checkpoint.id}", next=REBUILD)
        return checkpoint

    return read
