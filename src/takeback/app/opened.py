"""A project whose folder, settings and store are open: what every operation on it begins with.

Does not cover: the operations (`project`, `stepping`).
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Self

from takeback import config as configs
from takeback.app import raised
from takeback.app.finding import below, here, place_of
from takeback.errors import Damaged, NoProject, OutsideProject, TakebackError, UnknownId, UsageError
from takeback.files import checkpoint as checkpoints
from takeback.files import escapes, operation, reserve, steps, views
from takeback.files import place as places
from takeback.files.layout import DataDir, ProjectDir
from takeback.files.place import Place
from takeback.files.record import Recorder
from takeback.files.scan import Progress
from takeback.files.workspace import Workspace
from takeback.host import locks
from takeback.model import Checkpoint, Event
from takeback.store.create import put_aside
from takeback.store.sqlite import SqliteStore
from takeback.tasks.record import Tasks
from takeback.timeline.fold import Timeline, fold

PAUSE = "paused_until_ns"


class Opened:
    """Opens and closes a project, locks its worktree, and finds its checkpoints and paths."""

    def __init__(self, workspace: Workspace, config: configs.Config) -> None:
        self._w = workspace
        self._config = config
        self._closed = False
        try:
            self._open_store()
        except Damaged:
            # The database is only a cache of the store: it is set aside and made again.
            self._set_store_aside()

    @classmethod
    def open(cls, path: str | bytes | None = None, *, progress: Progress | None = None, strict: bool = True) -> Self:
        """Open the project that holds `path` (the current directory when None).

        Without `strict` a mistake in the project's own settings is `problem`, and they do not count.
        Raises NoProject, HomeDirectory, BadSetting, GitMissing, GitTooOld.
        """
        start = os.path.abspath(os.fsencode(path)) if path is not None else here()
        config = configs.load(os.environ)
        data = DataDir(config.data)
        place = place_of(data, start)
        places.refuse_home(place.root, config.home)
        if below(os.path.realpath(os.fsencode(config.data)), place.root):
            raise UsageError(
                detail=f"the data directory {config.data} is inside the project: set TAKEBACK_HOME to another place"
            )
        config = configs.load(os.environ, place.root, strict=strict)
        return cls._of(place, data.open(place), config, progress)

    @classmethod
    def _of(cls, place: Place, project: ProjectDir, config: configs.Config, progress: Progress | None) -> Self:
        workspace = Workspace(
            place,
            project,
            config.files,
            time.time_ns,
            home=config.home,
            settings_file=os.fspath(config.settings_file),
            progress=progress,
        )
        return cls(workspace, config)

    def _open_store(self) -> None:
        self._store = SqliteStore(self._w.project.timeline)
        self._recorder = Recorder(self._w, self._store)

    def _set_store_aside(self) -> int:
        self._w.project.writable()
        with locks.held(self._w.project.lock, what="rebuild", wait=self._w.settings.lock_wait):
            put_aside(self._w.project.timeline)
            self._open_store()
        return self._recorder.rebuild()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Give back processes and files; closing twice is allowed."""
        if not self._closed:
            self._closed = True
            self._w.close()
            self._store.close()

    @property
    def problem(self) -> TakebackError | None:
        """Why the project's own settings do not count."""
        return self._config.problem

    @property
    def root(self) -> bytes:
        """The project's root folder."""
        return self._w.place.root

    @contextmanager
    def _working(self, what: str, *, remake: bool = False) -> Iterator[None]:
        """Hold the worktree, with whatever a killed process left finished first.

        `remake`: a root that is gone is made again, empty, for what puts things back.
        """
        if not os.path.isdir(self.root):
            if not remake:
                raise NoProject(path=os.fsdecode(self.root))
            os.makedirs(self.root)
            self._w.refresh()
        with self._w.locked(what):
            operation.recover(self._w, self._recorder)
            if what != "gc":
                reserve.keep(self._w.project.path.parents[1])
            yield

    def _paused_until(self) -> int:
        until = int(self._store.get_meta(PAUSE) or "0")
        return until if until > time.time_ns() else 0

    def _timeline(self) -> Timeline:
        """The timeline with dead steps closed; the lock is held."""
        self._recorder.sync()
        timeline = fold(self._store.events())
        if steps.close_dead(self._w, self._recorder, timeline):
            timeline = fold(self._store.events())
        return timeline

    def _watched(self) -> Timeline:
        """The timeline with dead steps closed, and what light steps changed beside recorded; the lock is held."""
        timeline = self._timeline()
        if not escapes.suspects(timeline, self._recorder, self._w.dir.key):
            return timeline
        now, parts = checkpoints.peek(self._w, self._recorder, state=True)
        if not escapes.find(self._w, self._recorder, timeline, now, parts):
            return timeline
        made = checkpoints.take(self._w, self._recorder, text="a look at what was changed beside", own=True)
        self._found_escapes(timeline, made.id)
        return fold(self._store.events())

    def _found_escapes(self, timeline: Timeline, checkpoint: str) -> tuple[Event, ...]:
        """Record what the checkpoint just taken shows of steps that changed more than their class said."""
        now = self._store.checkpoint(checkpoint)
        found = [] if now is None else escapes.find(self._w, self._recorder, timeline, now)
        if found:
            raised.note(self._store, found)
        return tuple(escapes.record(self._w, self._recorder, escape) for escape in found)

    def _sync(self) -> None:
        if not self._w.project.readable_only:
            self._recorder.sync()

    def _checkpoint(self, id: str) -> Checkpoint:
        """Return a checkpoint by its id, the one after a step or restore, or of an attempt of a task (`t:name/2`)."""
        if id.startswith("t:"):
            id = Tasks(self._w.project.tasks).checkpoint_of(id)
        found = self._store.checkpoint(id)
        if found is None:
            self._sync()
            done = fold(self._store.events()).done(id) if id[:1] in "sr" else None
            found = self._store.checkpoint(done.after) if done is not None and done.after else None
            found = found or self._store.checkpoint(id)
        if found is None:
            raise UnknownId(what="checkpoint", id=id, nearest=views.nearest(self._store, id))
        return found

    def _inside(self, paths: Sequence[str | bytes]) -> tuple[bytes, ...]:
        """Return paths relative to the root; links in the folders above are followed, the last name is not."""
        result = []
        start = here()
        for path in paths:
            raw = os.fsencode(path)
            if not raw or b"\0" in raw:
                raise UsageError(detail="an empty path, or one with a NUL byte")
            base = start if below(os.path.realpath(start), self.root) else self.root
            full = os.path.normpath(os.path.join(base, raw))
            if not (isinstance(path, bytes) and not os.path.isabs(raw)):
                above, name = os.path.split(full)
                full = os.path.join(os.path.realpath(above), name)
            else:
                full = os.path.normpath(os.path.join(self.root, raw))
            if not below(full, self.root) and os.path.realpath(full) == self.root:
                full = self.root  # the root by another name, a link to it
            if not below(full, self.root):
                raise OutsideProject(path=os.fsdecode(path), root=os.fsdecode(self.root))
            result.append(b"" if full == self.root else os.path.relpath(full, self.root))
        return tuple(result)
