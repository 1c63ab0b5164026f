"""Everything the file operations of one worktree share: places, store, reader, cursor, timeline.

Does not cover: what is done with it (`checkpoint`, `restore`, `steps`, `undo`).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from takeback.errors import TooBig
from takeback.files import cursor as cursors
from takeback.files import names
from takeback.files import place as places
from takeback.files.cursor import Cursor
from takeback.files.databases import Databases
from takeback.files.gitstate import GitState
from takeback.files.ignored import StateWalker
from takeback.files.layout import ProjectDir, WorktreeDir
from takeback.files.names import human
from takeback.files.objects import Objects
from takeback.files.place import Place
from takeback.files.reader import Reader
from takeback.files.scan import UNSAVED, Progress, Scanner
from takeback.files.settings import FilesSettings
from takeback.host import git as hosted_git
from takeback.host import locks
from takeback.host.git import Git


@dataclass(frozen=True)
class UserIgnores:
    """What of the user's git configuration decides what is seen: excludes file, case, composition of names."""

    excludes: bytes | None = None
    ignore_case: bool = False
    precompose: bool = False


def read_ignores(place: Place) -> UserIgnores:
    """Ask the user's git for the settings that decide what it sees in a worktree."""
    asked = hosted_git.of_user(
        place.root, "config", "-z", "--type=path", "--get-regexp",
        r"^core\.(excludesfile|ignorecase|precomposeunicode)$",
    )  # fmt: skip
    values: dict[bytes, bytes] = {}
    for record in asked.out.split(b"\0"):
        key, _, value = record.partition(b"\n")
        values[key.lower()] = value
    return UserIgnores(
        values.get(b"core.excludesfile"),
        values.get(b"core.ignorecase", b"").lower() in (b"true", b"1", b"yes", b"on"),
        values.get(b"core.precomposeunicode", b"").lower() in (b"true", b"1", b"yes", b"on"),
    )


class Workspace:
    """One worktree of one project, with its private data."""

    def __init__(
        self,
        place: Place,
        project: ProjectDir,
        settings: FilesSettings,
        now_ns: Callable[[], int],
        *,
        home: bytes | None = None,
        settings_file: str = "the settings file",
        progress: Progress | None = None,
        worktree_dir: WorktreeDir | None = None,
    ) -> None:
        self.place = place
        self.project = project
        self.settings = settings
        self.now_ns = now_ns
        self.progress = progress
        self.after_death = False  # whether the last command in this worktree was killed
        self.dir: WorktreeDir = worktree_dir or project.worktree(place.root)
        self._home = home or b""
        self._settings_file = settings_file
        self.ignores = read_ignores(place)
        options = {
            "core.ignoreCase": str(self.ignores.ignore_case).lower(),
            "core.precomposeUnicode": str(self.ignores.precompose).lower(),
        }
        if self.ignores.excludes:
            options["core.excludesFile"] = os.fsdecode(self.ignores.excludes)
        self.store = Git(project.store, store=True, settings=options)
        self.git = self.store.view(work_tree=place.root, index=self.dir.index)
        self.objects = Objects(self.store, project.object_format)
        self.databases = Databases(self.objects, os.fsencode(self.dir.path))
        self.reader = Reader(self.real, self.objects, self.databases, now_ns, settings.max_file)
        self.scanner = Scanner(
            self.git,
            place.root,
            self.objects,
            self.reader,
            now_ns,
            tracked=self._tracked,
            check_size=self._check_size,
            progress=progress,
        )
        self.walker = StateWalker(self.dir.state, place.root, self.objects, self.reader, settings, now_ns)
        self._cursor: Cursor | None = None
        self._cursor_stamp: tuple[int, int] | None = None

    def at(self, place: Place) -> Workspace:
        """Return a workspace that writes from the same store to another place, for restores into a new folder."""
        return Workspace(place, self.project, self.settings, self.now_ns, home=self._home, worktree_dir=self.dir)

    def close(self) -> None:
        """End helper processes."""
        self.objects.close()

    @property
    def has_git(self) -> bool:
        """Whether the project is a git repository that is there now."""
        return self.place.git_dir is not None

    def found_git(self) -> None:
        """Look again for the repository where `.git` came or went since."""
        found = places.find(self.place.root)
        if found is not None and found.root == self.place.root:
            self.place = found
        else:
            self.place = Place(self.place.root, known_as=self.place.identity)

    def refresh(self) -> None:
        """Notice cheaply that `.git` came or went."""
        dot_git = self.place.root + b"/.git"
        there = os.path.isfile(dot_git) or os.path.exists(dot_git + b"/HEAD")
        # Of a linked worktree `.git` may be there, and what it points at gone.
        if there != self.has_git or (self.place.git_dir is not None and not os.path.isdir(self.place.git_dir)):
            self.found_git()  # asked again each time while a `.git` is there that git does not understand

    def gitstate(self) -> GitState:
        """Return the saver of the repository's own state."""
        return GitState(self.place, self.store, self.objects, os.fsencode(self.dir.path), self.now_ns)

    def real(self, path: bytes) -> bytes:
        """Return where a path is on disk; `.git/...` of the project means its git directory, wherever that is."""
        if path.startswith(b".git/") and self.place.common_dir and self.place.git_dir:
            rest = path[5:]
            base = self.place.git_dir if rest == b"config.worktree" else self.place.common_dir
            return base + b"/" + rest
        return self.place.root + b"/" + path if path else self.place.root

    def git_parts(self) -> list[bytes]:
        """Return the paths of the project's own `.git` that are saved as state."""
        if not self.has_git:
            return []
        parts = [b".git/config", b".git/config.worktree", b".git/hooks", b".git/info", b".git/modules"]
        if os.path.isfile(self.place.root + b"/.git"):
            parts.append(b".git")
        return parts

    @contextmanager
    def locked(self, what: str) -> Iterator[None]:
        """Hold the worktree for the block.

        Raises Busy when another takeback holds it longer than the setting allows, StoreReadOnly for a newer store.
        """
        self.project.writable()
        with locks.held(self.dir.lock, what=what, wait=self.settings.lock_wait) as died:
            self.after_death = died
            yield

    @property
    def cursor(self) -> Cursor:
        """What the last scan knew; read again when another process wrote it."""
        stamp = self._stamp()
        if self._cursor is None or stamp != self._cursor_stamp:
            self._cursor = cursors.load(self.dir.cursor)
            # An index that a killed command wrote after the cursor would hide what changed between, and git reads a
            # damaged one without a word: all is read anew.
            if os.path.exists(self.dir.index + UNSAVED) or self._cursor.index != self._index_stamp():
                self._cursor = Cursor()
            self._cursor_stamp = stamp
        return self._cursor

    def save_cursor(self) -> None:
        """Write the cursor for the next process."""
        assert self._cursor is not None
        self._cursor.index = self._index_stamp()
        self._cursor.save(self.dir.cursor)
        self._cursor_stamp = self._stamp()
        with suppress(FileNotFoundError):
            os.unlink(self.dir.index + UNSAVED)

    def drop_cursor(self) -> None:
        """Forget what was learned since the cursor was last saved."""
        self._cursor = None
        self.objects.discard()

    def rules(self) -> str:
        """Bring the store's info/exclude up to date and return what tells one set of ignore rules from another."""
        source = os.path.join(self.place.common_dir, b"info", b"exclude") if self.place.common_dir else b""
        target = os.path.join(self.project.store, b"info", b"exclude")
        data = _read(source) if source else b""
        if _read(target) != data:
            with open(target, "wb") as file:
                file.write(data)
        default = os.path.join(self._home, b".config/git/ignore")
        parts = []
        for path in (source, self.ignores.excludes or default):
            try:
                found = os.stat(path)
                parts.append(f"{found.st_mtime_ns}:{found.st_size}:{found.st_ino}")
            except (OSError, ValueError):
                parts.append("-")
        return ",".join(parts)

    def excludes(self) -> bytes:
        """Return the lines of the excludes files outside the worktree, the strongest last."""
        default = os.path.join(self._home, b".config/git/ignore")
        common = self.place.common_dir
        own = _read(os.path.join(common, b"info", b"exclude")) if common else b""
        return _read(self.ignores.excludes or default) + b"\n" + own

    def _stamp(self) -> tuple[int, int] | None:
        try:
            found = os.stat(self.dir.cursor)
        except FileNotFoundError:
            return None
        return (found.st_mtime_ns, found.st_ino)

    def _index_stamp(self) -> list[int] | None:
        try:
            found = os.stat(self.dir.index)
        except FileNotFoundError:
            return None
        return [found.st_size, found.st_mtime_ns]

    def _tracked(self) -> list[bytes]:
        return self.gitstate().tracked() if self.has_git else []

    def _check_size(self, sizes: dict[bytes, int]) -> None:
        total = sum(sizes.values())
        free = os.statvfs(self.project.path)
        cap = min(self.settings.max_size, max(0, free.f_bavail * free.f_frsize - 64 * 1024 * 1024))
        if total <= cap or total < 1024 * 1024:
            return
        by_top: dict[bytes, int] = {}
        for path, size in sizes.items():
            top = b"/".join(path.split(b"/")[:2])
            by_top[top] = by_top.get(top, 0) + size
        biggest = sorted(by_top.items(), key=lambda item: -item[1])[:3]
        raise TooBig(
            path=names.show(self.place.root),
            size=human(total),
            count=len(sizes),
            cap=human(cap) + (" (free space)" if cap < self.settings.max_size else ""),
            biggest=", ".join(f"{names.show(path)} {human(size)}" for path, size in biggest),
            settings=self._settings_file,
        )


def _read(path: bytes) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:
        return b""
