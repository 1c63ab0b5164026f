"""The project as its users see it: one object that wires settings, store, timeline and the file operations.

Does not cover: drawing anything (cli), or the operations themselves (`files`).
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import replace

from takeback import config as configs
from takeback.app.finding import with_checkpoint
from takeback.app.guarding import Guarding
from takeback.app.opened import PAUSE
from takeback.app.person import require_no_agent
from takeback.errors import HomeDirectory, NoProject, NothingToDo, UsageError
from takeback.files import checkpoint as checkpoints
from takeback.files import reserve, views
from takeback.files import restore as restores
from takeback.files import undo as undos
from takeback.files.plan import Snapshot
from takeback.files.scan import Progress
from takeback.model import Change, Checkpoint, CheckpointResult, Event, Finding, GcResult, RestoreResult, Status, Usage
from takeback.tasks.record import Tasks
from takeback.timeline.fold import Scope, fold


class Project(Guarding):
    """A project folder under takeback: `with Project.open() as project: project.checkpoint()`."""

    # -- saving and putting back -----------------------------------------------------------------------------------

    def checkpoint(
        self,
        message: str = "",
        *,
        task: str | None = None,
        session: str | None = None,
        state: bool = True,
        paths: Sequence[str | bytes] | None = None,
    ) -> CheckpointResult:
        """Save the project now; with `paths` only those are looked at, as before a step that can touch no other.

        Raises TooBig, DiskFull, Busy, StoreReadOnly, Damaged.
        """
        only = None if paths is None else self._inside(paths)
        with self._working("checkpoint"):
            timeline = self._timeline()
            made = checkpoints.take(
                self._w, self._recorder, text=message, task=task, session=session, state=state, only=only
            )
            if made.new and only is None:
                self._found_escapes(timeline, made.id)
            return made

    def restore(
        self,
        id: str,
        paths: Sequence[str | bytes] = (),
        *,
        refs: bool = False,
        to: str | bytes | None = None,
        dry_run: bool = False,
        yes: bool = False,
        partial: bool = False,
    ) -> RestoreResult:
        """Put the whole tree, or `paths`, exactly to a checkpoint; with `to` into a new folder instead.

        Raises UnknownId, and before the first write TooManyDeletes, DatabaseInUse, IndexLocked, OpenFileInUse,
        DiskFull, CannotWrite.
        """
        chosen = self._inside(paths)
        checkpoint = self._checkpoint(id)
        if to is not None:
            target = os.path.abspath(os.fsencode(to))
            return restores.restore_to(self._w, checkpoint, target, chosen, dry_run=dry_run)
        with self._working(f"restore {id}", remake=True):
            if not dry_run:
                self._watched()
            return restores.restore(
                self._w, self._recorder, checkpoint, chosen, refs=refs, dry_run=dry_run, yes=yes, partial=partial
            )

    def undo(
        self,
        step: str | None = None,
        *,
        session: str | None = None,
        task: str | None = None,
        prompt: bool = False,
        partial: bool = False,
        shared: bool = False,
        dry_run: bool = False,
        yes: bool = False,
    ) -> RestoreResult:
        """Take back what one step changed: the named one, or the newest of the scope that is not yet taken back.

        Raises NothingToDo, UnknownId, Conflict, TaskLanded, and what `restore` raises.
        """
        if task is not None and step is None:
            task = task.removeprefix("t:")
            Tasks(self._w.project.tasks).refuse_landed(task)
        options = undos.Options(partial, shared, dry_run, yes)
        with self._working("undo", remake=not dry_run):
            scope = Scope(self._w.dir.key, session, task)
            return undos.undo(self._w, self._recorder, self._watched(), scope, step, prompt=prompt, options=options)

    def redo(
        self,
        step: str | None = None,
        *,
        session: str | None = None,
        task: str | None = None,
        partial: bool = False,
        shared: bool = False,
        dry_run: bool = False,
        yes: bool = False,
    ) -> RestoreResult:
        """Apply again what was last taken back, or the named step; raises as `undo` does."""
        options = undos.Options(partial, shared, dry_run, yes)
        with self._working("redo", remake=not dry_run):
            scope = Scope(self._w.dir.key, session, task)
            return undos.redo(self._w, self._recorder, self._watched(), scope, step, options=options)

    # -- looking ---------------------------------------------------------------------------------------------------

    def log(self, *, limit: int | None = None, session: str | None = None, task: str | None = None) -> list[Event]:
        """Return the events of this worktree, newest first; a step's end is folded into the step."""
        self._sync()
        return views.log(self._store, self._w.dir.key, limit=limit, session=session, task=task)

    def show(self, id: str) -> tuple[Event, Checkpoint | None, list[Change]]:
        """Return an event, its checkpoint if it is one, and what it changed.

        Raises UnknownId.
        """
        self._sync()
        return views.show(self._w, self._store, id, self._checkpoint)

    def diff(
        self, a: str | None = None, b: str | None = None, paths: Sequence[str | bytes] = (), *, text: bool = False
    ) -> tuple[list[Change], bytes]:
        """Return what differs between two checkpoints (or steps' afters); `b` None is now, `a` None the last one.

        The bytes are a unified diff when `text`. Raises UnknownId.
        """
        chosen = self._inside(paths)
        self._sync()
        base = a or self._newest_asked()
        if base is None:
            raise NothingToDo(sentence="nothing to compare with: no checkpoint yet", next="takeback checkpoint")
        first = Snapshot(self._w, self._checkpoint(base))
        if b is not None:
            second = Snapshot(self._w, self._checkpoint(b))
            self._must_exist(chosen, first, second)
            return views.diff(self._w, first, second, chosen, text=text)
        with self._working("diff"):
            state = first.has_state or bool(first.checkpoint.only)  # it may hold ignored paths that it was told of
            now, parts = checkpoints.peek(self._w, self._recorder, state=state)
            second = Snapshot(self._w, now, parts)
            self._must_exist(chosen, first, second)
            return views.diff(self._w, first, second, chosen, text=text)

    def _must_exist(self, paths: Sequence[bytes], *snapshots: Snapshot) -> None:
        for path in paths:
            if path and not any(one.get(path) for one in snapshots) and not os.path.lexists(self._w.real(path)):
                raise UsageError(detail=f"{os.fsdecode(path)} is neither an id nor a path of this project")

    def _newest_asked(self) -> str | None:
        """Return the newest checkpoint somebody asked for, else the newest of all."""
        asked = fold(self._store.events()).last_checkpoint(self._w.dir.key)
        if asked is not None and self._store.checkpoint(asked) is not None:
            return asked
        newest = next(iter(self._store.checkpoints(self._w.dir.key)), None)
        return newest.id if newest else None

    def status(self) -> Status:
        """Return whether the project is protected, its last steps, what undo would take back, holds, hooks, disk."""
        from takeback.app import holding
        from takeback.app.agents import installed

        self._sync()
        status = views.status(self._w, self._store, fold(self._store.events()), self._paused_until())
        hooks = installed.hooked(self._w.project.path.parents[1], os.fsdecode(self.root))
        return replace(status, holds=tuple(one.id for one in holding.list(self)), hooks=hooks)

    # -- housekeeping ----------------------------------------------------------------------------------------------

    def gc(
        self,
        *,
        keep: int | None = None,
        older_than_s: float | None = None,
        max_bytes: int | None = None,
        dry_run: bool = False,
    ) -> GcResult:
        """Remove old checkpoints and what only they held; the newest stay, and those a step can be undone with.

        Raises NotAPerson in a step of an agent.
        """
        from takeback.files import gc

        if not dry_run:
            require_no_agent()

        data = self._w.project.path.parents[1]
        if not dry_run and reserve.needed(data):
            reserve.give_up(data)  # forgetting a checkpoint is a write too; the next command sets it aside anew
        with self._working("gc"):
            return gc.collect(
                self._w, self._recorder, fold(self._store.events()), keep=keep, older_than_s=older_than_s,
                max_bytes=max_bytes, dry_run=dry_run, named=Tasks(self._w.project.tasks).checkpoints(),
            )  # fmt: skip

    def du(self) -> Usage:
        """Return the disk used by this project's private data."""
        from takeback.files import gc

        return gc.usage(self._w, self._store)

    def doctor(self, *, rebuild: bool = False, fix: bool = False) -> list[Finding]:
        """Look for what is wrong, and with `fix` or `rebuild` mend it."""
        from takeback.files import doctor

        rebuilt = None
        if rebuild:
            self._store.close()
            rebuilt = self._set_store_aside()
        found = doctor.examine(self._w, self._recorder, rebuilt=rebuilt, fix=fix)
        if self.problem is not None:
            found.append(Finding("settings", False, str(self.problem), self.problem.hint_text))
        return found

    def pause(self, seconds: float | None = None) -> None:
        """Stop taking checkpoints for a while, or until `resume`. Raises NotAPerson in a step of an agent."""
        require_no_agent()
        until = 2**63 - 1 if seconds is None else time.time_ns() + int(seconds * 1e9)
        self._store.set_meta(PAUSE, str(until))

    def resume(self) -> None:
        """Take checkpoints again."""
        self._store.set_meta(PAUSE, "0")


def open_for_restore(id: str, project: str | None = None, *, progress: Progress | None = None) -> Project:
    """Open the project that has a checkpoint, also when its folder is gone.

    Raises NoProject, UnknownId, AmbiguousId.
    """
    try:
        return Project.open(project, progress=progress, strict=False)
    except (NoProject, HomeDirectory):
        config = configs.load(os.environ)
        found = with_checkpoint(config, id, project)
        if found is None:
            raise
        return Project._of(*found, config, progress)
