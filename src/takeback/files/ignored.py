"""Save what git ignores: .env, local databases, build outputs; and `.git` parts nobody else saves.

One stat per unchanged file: a directory's digest over its entries' stat data says whether any must be looked at.
Rebuildable trees have a budget; over it they are named with the command that rebuilds them.
Does not cover: files git would see (`scan`).
"""

from __future__ import annotations

import os
import sqlite3
import stat
import zlib
from collections.abc import Callable, Iterable
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

from takeback.errors import TooBig
from takeback.files import names
from takeback.files.listing import STAGE
from takeback.files.objects import Objects
from takeback.files.reader import Reader, Seen, Skip, Stamp, is_trusted, stamp_of
from takeback.files.rebuildable import rebuild_command
from takeback.files.settings import FilesSettings
from takeback.files.tree import TreeEditor
from takeback.model import Entry, NotCovered

_SCHEMA = """
CREATE TABLE IF NOT EXISTS folders (path BLOB PRIMARY KEY, digest INTEGER, stamps BLOB) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS base (tree TEXT);
CREATE TABLE IF NOT EXISTS over (path BLOB PRIMARY KEY, mtime_ns INTEGER, why TEXT, command TEXT) WITHOUT ROWID;
"""


@dataclass
class Walked:
    """The state tree now, what is not in it, and whether it differs from the last one."""

    tree: str | None
    changed: bool
    not_covered: list[NotCovered] = field(default_factory=list)


@dataclass
class _Budget:
    files: int
    bytes: int
    until_ns: int


class _OverBudget(Exception):
    pass


class StateWalker:
    """Walks the ignored parts of one worktree."""

    def __init__(
        self,
        cache: Path,
        root: bytes,
        objects: Objects,
        reader: Reader,
        settings: FilesSettings,
        now_ns: Callable[[], int],
    ) -> None:
        self._cache_path = cache
        self._root = root
        self._objects = objects
        self._reader = reader
        self._settings = settings
        self._now_ns = now_ns

    def walk(
        self,
        base: str | None,
        roots: Iterable[bytes],
        nested: Iterable[bytes],
        git_parts: Iterable[bytes],
        *,
        times: bool,
    ) -> Walked:
        """Bring the state tree `base` up to date.

        `roots`: ignored files and directories; `nested`: repositories inside, whose `.git` is state; `git_parts`: paths
        below the project's own `.git`. `times`: another time of a directory is a change by itself.
        """
        arguments = (base, list(roots), list(nested), list(git_parts), times)
        try:
            return self._walk(*arguments)
        except sqlite3.DatabaseError as error:
            if isinstance(error, sqlite3.OperationalError):
                raise
            self._cache_path.unlink(missing_ok=True)  # damaged inside: only a cache
            return self._walk(*arguments)

    def _walk(
        self, base: str | None, roots: list[bytes], nested: list[bytes], git_parts: list[bytes], times: bool
    ) -> Walked:
        db = self._open()
        with closing(db), db:
            known = db.execute("SELECT tree FROM base").fetchone()
            # Digests of another tree: a command died (or ran out of disk) before it saved the tree it had made.
            run = _Walk(self, db, base if known == (base,) else None, times)
            for path in git_parts:
                run.root(path, plain=True)
            for path in sorted(roots):
                run.root(path, plain=False)
            for path in sorted(nested):
                run.root(path + b"/.git", plain=True)
            walked = run.finish()
            if known != (walked.tree,):
                db.execute("DELETE FROM base")
                db.execute("INSERT INTO base VALUES (?)", (walked.tree,))
            return walked

    def _open(self) -> sqlite3.Connection:
        for attempt in (1, 2):
            db = sqlite3.connect(self._cache_path)
            try:
                db.execute("PRAGMA synchronous=OFF")  # a cache: losing it costs a re-read
                db.executescript(_SCHEMA)
                return db
            except sqlite3.DatabaseError:
                db.close()
                if attempt == 2:
                    raise
                self._cache_path.unlink(missing_ok=True)
        raise AssertionError


class _Walk:
    """One walk: what was met, and the edits it leads to."""

    def __init__(self, owner: StateWalker, db: sqlite3.Connection, base: str | None, times: bool) -> None:
        self._o = owner
        self._db = db
        self._base = base
        self._times = times
        self._timed: list[bytes] = []
        self._editor = TreeEditor(owner._objects, base)
        self._digests: dict[bytes, int] = {} if base is None else dict(db.execute("SELECT path, digest FROM folders"))
        if base is None:
            db.execute("DELETE FROM folders")
        self._met: set[bytes] = set()
        self._skipped: list[NotCovered] = []
        self._changed = False
        self._copied = 0
        self._at = owner._now_ns()

    def root(self, path: bytes, *, plain: bool) -> None:
        """Walk one ignored file or directory; `plain` ones are never taken for rebuildable."""
        full = self._o._reader.full(path)
        try:
            found = os.lstat(full)
        except OSError:
            return
        if not stat.S_ISDIR(found.st_mode):
            self._loose_file(path, found)
            return
        command = None if plain else _rebuild(full, path)
        if command is None:
            self._folder(path, found, None)
            return
        known = self._db.execute("SELECT mtime_ns, why, command FROM over WHERE path = ?", (path,)).fetchone()
        if known is not None and known[0] == found.st_mtime_ns:
            self._skipped.append(NotCovered(path, known[1], known[2]))
            return
        limits = self._o._settings
        budget = _Budget(limits.tree_files, limits.tree_bytes, self._o._now_ns() + int(limits.tree_seconds * 1e9))
        try:
            if path not in self._digests:
                _measure(full, budget)
            self._folder(path, found, budget)
        except _OverBudget as over:
            self._drop(path)
            self._skipped.append(NotCovered(path, str(over), command))
            self._db.execute("REPLACE INTO over VALUES (?, ?, ?, ?)", (path, found.st_mtime_ns, str(over), command))

    def _drop(self, path: bytes) -> None:
        """Forget a whole tree: half of it would be worse than none."""
        self._changed = self._changed or path in self._digests
        self._editor.drop(path)
        below = path + b"/"
        for known in [name for name in self._digests if name == path or name.startswith(below)]:
            del self._digests[known]
        self._met = {name for name in self._met if name != path and not name.startswith(below)}
        self._db.execute("DELETE FROM folders WHERE path = ? OR (path > ? AND path < ?)", (path, below, path + b"0"))

    def _loose_file(self, path: bytes, found: os.stat_result) -> None:
        """An ignored file by itself is kept under its own path in the digest table."""
        self._met.add(path)
        stamp = stamp_of(found)
        digest = hash((*stamp,)) & 0x7FFFFFFFFFFFFFFF
        if self._digests.get(path) == digest:
            return
        self._read_into(path, found)
        trusted = is_trusted(stamp, self._at)
        self._db.execute("REPLACE INTO folders VALUES (?, ?, ?)", (path, digest if trusted else -1, b""))

    def _folder(self, path: bytes, found: os.stat_result, budget: _Budget | None) -> None:
        pending = [(path, found)]
        while pending:
            at, own = pending.pop()
            self._met.add(at)
            listed: list[tuple[bytes, os.stat_result]] = []
            try:
                with os.scandir(self._o._reader.full(at)) as entries:
                    for entry in entries:
                        if entry.name.startswith(STAGE):
                            continue
                        try:
                            seen = entry.stat(follow_symlinks=False)
                        except OSError:
                            continue
                        if stat.S_ISDIR(seen.st_mode):
                            pending.append((at + b"/" + entry.name, seen))
                        else:
                            listed.append((entry.name, seen))
            except OSError as error:
                self._skipped.append(NotCovered(at, f"cannot be read: {error.strerror}"))
                # What was saved of it stays; nobody can say that it is gone.
                self._met |= {known for known in self._digests if known.startswith(at + b"/")}
                self._set(at, Entry(own.st_mode, own.st_uid, own.st_gid, own.st_mtime_ns, ""))
                continue
            if budget is not None and self._o._now_ns() > budget.until_ns:
                raise _OverBudget(f"over the time budget of {self._o._settings.tree_seconds:g} s")
            listed.sort()
            digest = _digest(own, listed)
            if self._digests.get(at) == digest:
                continue
            self._changed_folder(at, own, listed, digest)

    def _changed_folder(
        self, at: bytes, own: os.stat_result, listed: list[tuple[bytes, os.stat_result]], digest: int
    ) -> None:
        row = self._db.execute("SELECT stamps FROM folders WHERE path = ?", (at,)).fetchone()
        old_stamps = _unpack(row[0]) if row else {}
        self._set(at, Entry(own.st_mode, own.st_uid, own.st_gid, own.st_mtime_ns, ""))
        stamps: dict[bytes, Stamp] = {}
        all_trusted = own.st_ctime_ns < self._at
        for name, seen in listed:
            path = at + b"/" + name
            stamp = stamp_of(seen)
            if old_stamps.get(name) == stamp and self._editor.get(path) is not None:
                stamps[name] = stamp
                continue
            read = self._read_into(path, seen)
            if read is not None and read.trusted:
                stamps[name] = read.stamp
            else:
                all_trusted = False
        present = {name for name, _ in listed}
        for path in self._editor.files_in(at):
            if path.rpartition(b"/")[2] not in present:
                self._remove(path)
        self._db.execute("REPLACE INTO folders VALUES (?, ?, ?)", (at, digest if all_trusted else -1, _pack(stamps)))

    def _read_into(self, path: bytes, found: os.stat_result) -> Seen | None:
        if stat.S_ISREG(found.st_mode):
            self._copied += found.st_size
            if self._copied > self._o._settings.max_size:
                cap = f"{self._o._settings.max_size >> 30} GiB"
                raise TooBig(
                    path=names.show(self._o._root),
                    size=f"over {cap} of ignored files",
                    count="many",
                    cap=cap,
                    biggest=names.show(path),
                    settings="the settings file",
                )
        old = self._editor.get(path)
        seen = self._o._reader.read(path, None, old if old and not old.is_dir else None)
        if isinstance(seen, Skip):
            self._skipped.append(NotCovered(path, seen.why))
            self._remove(path)
            return None
        if seen is None:
            self._remove(path)
            return None
        self._set(path, seen.entry)
        return seen

    def _set(self, path: bytes, entry: Entry) -> None:
        old = self._editor.get(path)
        if old != entry:
            # Times of a directory alone make no new checkpoint; they come along with a real change.
            only_time = entry.is_dir and entry.same_value(old)
            self._changed = self._changed or self._times or not only_time
            if only_time:
                self._timed.append(path)
            self._editor.set(path, entry)

    def _remove(self, path: bytes) -> None:
        if self._editor.get(path) is not None:
            self._editor.remove(path)
            self._changed = True

    def _is_folder(self, path: bytes) -> bool:
        known = self._editor.get(path)
        return known is not None and known.is_dir

    def finish(self) -> Walked:
        """Drop what was not met and write the tree."""
        for path in sorted(self._digests.keys() - self._met, reverse=True):
            if self._o._reader.hidden(path):
                continue
            for child in self._editor.files_in(path):
                if child not in self._met:
                    self._remove(child)
            if path.rpartition(b"/")[0] not in self._met or self._is_folder(path):
                self._remove(path)  # a file in a folder that was met is the folder's, whose digest says it is there
            self._db.execute("DELETE FROM folders WHERE path = ?", (path,))
        if not self._changed:
            # Not in any tree yet, so the next walk must see them again.
            self._db.executemany("UPDATE folders SET digest = -1 WHERE path = ?", [(path,) for path in self._timed])
            return Walked(self._base, False, self._skipped)
        tree = self._editor.write()
        self._o._objects.flush()
        return Walked(tree, True, self._skipped)


def _digest(own: os.stat_result, listed: list[tuple[bytes, os.stat_result]]) -> int:
    """64 bits over everything a change must show in; hash() of integers does not depend on the process."""
    numbers: list[int] = [own.st_mode, own.st_mtime_ns, own.st_uid, own.st_gid]
    for _, seen in listed:
        numbers += (seen.st_ino, seen.st_ctime_ns, seen.st_mtime_ns, seen.st_size, seen.st_mode)
    joined = b"\0".join(name for name, _ in listed)
    return hash((zlib.crc32(joined), len(joined), *numbers)) & 0x7FFFFFFFFFFFFFFF


def _pack(stamps: dict[bytes, Stamp]) -> bytes:
    return b"".join(b"%d %d %d %d %d %d %d %b\0" % (*stamp, name) for name, stamp in stamps.items())


def _unpack(data: bytes) -> dict[bytes, Stamp]:
    result = {}
    for record in data.split(b"\0")[:-1]:
        *numbers, name = record.split(b" ", 7)
        result[name] = Stamp(*(int(number) for number in numbers))
    return result


def _measure(full: bytes, budget: _Budget) -> None:
    """Raise _OverBudget when a tree has more files or bytes than its budget."""
    files = size = 0
    pending = [full]
    while pending:
        try:
            with os.scandir(pending.pop()) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        pending.append(entry.path)
                        continue
                    files += 1
                    if files > budget.files:
                        raise _OverBudget(f"more than {budget.files} files")
                    size += entry.stat(follow_symlinks=False).st_size
                    if size > budget.bytes:
                        raise _OverBudget(f"more than {budget.bytes >> 20} MiB")
        except OSError:
            continue


def _rebuild(full: bytes, path: bytes) -> str | None:
    above = os.path.dirname(full)
    try:
        siblings, inside = os.listdir(above), os.listdir(full)
    except OSError:
        return None
    return rebuild_command(path, siblings, inside)
