"""Where takeback keeps a project's data, and which projects there are.

```
DATA/README  DATA/VERSION  DATA/lock
DATA/git                         which git was found new enough
DATA/projects/KEY/project.json   identity and places of the project
                  lock           taken for ids, refs and the timeline
                  store.git      the private bare repository
                  timeline.sqlite
                  holds/         what waits for a person (`takeback.holds`)
                  worktrees/KEY/ lock, cursor, files.index, state.sqlite, journal.json
                  tasks/ID/      record.jsonl, lock, diffs and output of a task, its worktree while it runs
                  trash/         worktrees of tasks, while they are deleted
```

Does not cover: what is in the store (see `checkpoint`).
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from takeback.errors import CannotWrite, Damaged, DiskFull, GitFailed, StoreReadOnly
from takeback.files.place import Place
from takeback.host import atomic, git, locks

FORMAT = 1
_LOCK_WAIT = 30.0
_ROOM = 64 * 1024
_README = """This folder is takeback's: the checkpoints of your projects, and the log of what was taken back.
Each projects/*/store.git is an ordinary bare git repository. See docs/formats in takeback's documentation for the
layout and for getting a checkpoint back with plain git. `takeback gc` and `takeback du` are the way to make it smaller.
"""


def key_of(path: bytes) -> str:
    """Return the folder name for a path."""
    return hashlib.sha256(path).hexdigest()[:20]


@dataclass(frozen=True)
class WorktreeDir:
    """The private data of one worktree."""

    path: Path
    key: str

    @property
    def lock(self) -> Path:
        return self.path / "lock"

    @property
    def cursor(self) -> Path:
        return self.path / "cursor.json"

    @property
    def index(self) -> bytes:
        return os.fsencode(self.path / "files.index")

    @property
    def state(self) -> Path:
        return self.path / "state.sqlite"

    @property
    def journal(self) -> Path:
        return self.path / "journal.json"


@dataclass(frozen=True)
class ProjectDir:
    """The private data of one project, shared by its linked worktrees."""

    path: Path
    key: str
    object_format: str
    identity: bytes
    roots: tuple[bytes, ...]
    is_git: bool
    readable_only: bool = False
    found_format: int = FORMAT

    @property
    def lock(self) -> Path:
        return self.path / "lock"

    @property
    def store(self) -> bytes:
        return os.fsencode(self.path / "store.git")

    @property
    def timeline(self) -> Path:
        return self.path / "timeline.sqlite"

    @property
    def tasks(self) -> Path:
        return self.path / "tasks"

    @property
    def trash(self) -> bytes:
        return os.fsencode(self.path / "trash")

    def worktree(self, root: bytes) -> WorktreeDir:
        """Return the folder of one worktree, made when missing."""
        key = key_of(root)
        path = self.path / "worktrees" / key
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        return WorktreeDir(path, key)

    def writable(self) -> None:
        """Raise StoreReadOnly when a newer takeback wrote this store."""
        if self.readable_only:
            raise StoreReadOnly(found=self.found_format, known=FORMAT)


def _clean(folder: Path) -> None:
    """Remove temporary files of a dead command; the folder is locked."""
    for left in folder.glob(".tmp-*"):
        left.unlink(missing_ok=True)


class DataDir:
    """The data directory of one user."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def _make(self) -> None:
        self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not (self.path / "VERSION").exists():
            os.chmod(self.path, 0o700)
            with locks.held(self.path / "lock", what="making the data directory", wait=_LOCK_WAIT):
                _clean(self.path)
                atomic.write_bytes(self.path / "README", _README.encode())
                atomic.write_bytes(self.path / "VERSION", f"{FORMAT}\n".encode())

    def open(self, place: Place) -> ProjectDir:
        """Return the project's data, made when missing.

        Raises DiskFull or CannotWrite when it cannot be made, Damaged, GitMissing, GitTooOld.
        """
        git.require(self.path / "git")
        try:
            return self._open(place)
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                raise DiskFull(path=os.fspath(self.path)) from error
            why = error.strerror or str(error)
            raise CannotWrite(
                path=os.fspath(self.path), why=why, next="make it writable, or set TAKEBACK_HOME to another folder"
            ) from error
        except GitFailed as error:
            disk = os.statvfs(self.path)
            if "No space left" in str(error) or disk.f_bavail * disk.f_frsize < _ROOM:  # git does not always say so
                raise DiskFull(path=os.fspath(self.path)) from error
            raise

    def _open(self, place: Place) -> ProjectDir:
        key = key_of(place.identity)
        known = self._known(key)
        if known is not None and (place.root in known.roots or known.readable_only):
            return known
        self._make()
        path = self.path / "projects" / key
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        # Two first commands at once: without the lock `git init` fails, and one worktree's root is lost.
        with locks.held(path / "lock", what="making the store", wait=_LOCK_WAIT) as died:
            if died:
                _clean(path)
                _clean(path / "store.git" / "info")
            known = self._known(key)
            if known is None:
                made = ProjectDir(path, key, place.object_format, place.identity, (), place.git_dir is not None)
                # project.json is written last: without it the store may be half made, and without its attributes
                # git would save other bytes than those on disk.
                made = replace(made, object_format=git.init_store(made.store, place.object_format))
            else:
                made = known
            if place.root in made.roots:
                return made
            return self._save(replace(made, roots=(*made.roots, place.root)))

    def _known(self, key: str) -> ProjectDir | None:
        """Return a project; an unreadable description is set aside, since the project and its store say the same."""
        try:
            return self.load(key)
        except Damaged:
            path = self.path / "projects" / key / "project.json"
            number = 1
            while (aside := path.with_name(f"{path.name}.damaged-{number}")).exists():
                number += 1
            os.rename(path, aside)
            return None

    def load(self, key: str) -> ProjectDir | None:
        """Return a project by its key, or None.

        Raises Damaged when its description cannot be read.
        """
        path = self.path / "projects" / key
        try:
            raw = (path / "project.json").read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            return None
        try:
            data: dict[str, Any] = json.loads(raw)
            found = int(data["format"])
            return ProjectDir(
                path,
                key,
                str(data["object_format"]),
                data["identity"].encode("latin-1"),
                tuple(root.encode("latin-1") for root in data["roots"]),
                bool(data["git"]),
                readable_only=found > FORMAT,
                found_format=found,
            )
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise Damaged(
                what=os.fspath(path / "project.json"),
                detail=str(error),
                next="move the file away; the next checkpoint in the project writes it again",
            ) from None

    def all(self) -> list[ProjectDir]:
        """Return every project that can be read."""
        found = []
        folder = self.path / "projects"
        for name in sorted(os.listdir(folder)) if folder.is_dir() else []:
            try:
                project = self.load(name)
            except Damaged:
                continue
            if project is not None:
                found.append(project)
        return found

    def holding(self, path: bytes) -> tuple[ProjectDir, bytes] | None:
        """Return the known project, and its root, that `path` is or was in, the innermost first.

        It is asked when git finds nothing: for plain folders, and for projects whose `.git` is gone.
        """
        best: tuple[ProjectDir, bytes] | None = None
        for project in self.all():
            for root in project.roots:
                inside = path == root or path.startswith(root.rstrip(b"/") + b"/")
                if inside and (best is None or len(root) > len(best[1])):
                    best = (project, root)
        return best

    def forget(self, project: ProjectDir, root: bytes) -> None:
        """Take a worktree that is gone, one of takeback's own, off the list; its checkpoints stay in the store."""
        shutil.rmtree(project.path / "worktrees" / key_of(root), ignore_errors=True)
        with locks.held(project.lock, what="forgetting a worktree", wait=_LOCK_WAIT):
            known = self._known(project.key)
            if known is not None and root in known.roots:
                self._save(replace(known, roots=tuple(one for one in known.roots if one != root)))

    def _save(self, project: ProjectDir) -> ProjectDir:
        # latin-1 maps every byte to one character and back, so that any path fits into JSON.
        data = {
            "format": FORMAT,
            "object_format": project.object_format,
            "identity": project.identity.decode("latin-1"),
            "roots": [root.decode("latin-1") for root in project.roots],
            "git": project.is_git,
        }
        atomic.write_bytes(project.path / "project.json", json.dumps(data, indent=1).encode())
        return project
