"""The project as its users see it: one object that wires settings, store, timeline and the file operations.

Does not cover: drawing anything (cli), or the operations themselves (`files`).
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from takeback import config as configs
from takeback.errors import (
    AmbiguousId,
    Damaged,
    NoProject,
    NothingToDo,
    OutsideProject,
    TakebackError,
    UnknownId,
    UsageError,
)
from takeback.files import checkpoint as checkpoints
from takeback.files import operation, steps, views
from takeback.files import place as places
from takeback.files import restore as restores
from takeback.files import undo as undos
from takeback.files.layout import DataDir, ProjectDir
from takeback.files.place import Place
from takeback.files.plan import Snapshot
from takeback.files.record import Recorder
from takeback.files.scan import Progress
from takeback.files.workspace import Workspace
from takeback.host import command, locks
from takeback.model import (
    Change,
    Checkpoint,
    CheckpointResult,
    Event,
    EventKind,
    Finding,
    GcResult,
    RestoreResult,
    Status,
    StepResult,
    Usage,
)
from takeback.store.create import put_aside
from takeback.store.sqlite import SqliteStore
from takeback.timeline.fold import Scope, Timeline, fold

if TYPE_CHECKING:
    from takeback.machines.setup import Setup

_PAUSE = "paused_until_ns"


class Project:
    """A project folder under takeback: `with Project.open() as project: project.checkpoint()`."""

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
    def open(cls, path: str | bytes | None = None, *, progress: Progress | None = None) -> Project:
        """Open the project that holds `path` (the current directory when None).

        Raises NoProject, HomeDirectory, BadSetting, GitMissing, GitTooOld.
        """
        start = os.path.abspath(os.fsencode(path)) if path is not None else _here()
        config = configs.load(os.environ)
        data = DataDir(config.data)
        place = _find_place(data, start)
        places.refuse_home(place.root, config.home)
        if _below(os.path.realpath(os.fsencode(config.data)), place.root):
            raise UsageError(
                detail=f"the data directory {config.data} is inside the project: set TAKEBACK_HOME to another place"
            )
        config = configs.load(os.environ, place.root)
        return cls._of(place, data.open(place), config, progress)

    @classmethod
    def _of(cls, place: Place, project: ProjectDir, config: configs.Config, progress: Progress | None) -> Project:
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

    def __enter__(self) -> Project:
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
    def root(self) -> bytes:
        """The project's root folder."""
        return self._w.place.root

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
            return checkpoints.take(
                self._w, self._recorder, text=message, task=task, session=session, state=state, only=only
            )

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

        Raises NothingToDo, UnknownId, Conflict, and what `restore` raises.
        """
        options = undos.Options(partial, shared, dry_run, yes)
        with self._working("undo", remake=not dry_run):
            scope = Scope(self._w.dir.key, session, task)
            return undos.undo(self._w, self._recorder, self._timeline(), scope, step, prompt=prompt, options=options)

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
            return undos.redo(self._w, self._recorder, self._timeline(), scope, step, options=options)

    # -- steps -----------------------------------------------------------------------------------------------------

    @contextmanager
    def step(
        self,
        text: str,
        *,
        session: str | None = None,
        task: str | None = None,
        paths: Sequence[str | bytes] = (),
        state: bool = True,
    ) -> Iterator[str]:
        """Record the block as one step and give its id; `paths` name what it owns when others work at the same time."""
        named = self._inside(paths)
        if self._paused_until():
            yield ""
            return
        step = self._begin(text, session, task, named, state)
        data: dict[str, object] = {"exit": 0}
        try:
            yield step.id
        except BaseException as error:
            data = {"exit": 1, "error": type(error).__name__}
            raise
        finally:
            self._finish(step, state, data)

    def run(
        self,
        argv: Sequence[str],
        *,
        shell_source: str | None = None,
        session: str | None = None,
        task: str | None = None,
        message: str = "",
        timeout: float | None = None,
        state: bool = True,
        stdout_fd: int = 1,
    ) -> StepResult:
        """Run a command as one step, in the current directory, and record it.

        `timeout` in seconds; a command that cannot be started ends with 127 or 126, as in a shell.
        """
        started = time.monotonic()
        cwd = _here()
        text = message or (shell_source if shell_source is not None else " ".join(argv))
        named = steps.named_paths(argv, shell_source, os.path.realpath(cwd), self.root)
        step = self._begin(text, session, task, named, state)
        words = ["/bin/sh", "-c", shell_source] if shell_source is not None else list(argv)
        ran = command.Ran(1, b"", False)
        try:
            ran = command.run(words, cwd=cwd, timeout=timeout, stdout_fd=stdout_fd, keep=self._w.settings.output_tail)
        except (FileNotFoundError, PermissionError, NotADirectoryError) as error:
            code = 126 if isinstance(error, PermissionError) else 127
            line = f"{words[0]}: {error.strerror}\n".encode()
            os.write(2, line)
            ran = command.Ran(code, line, False)
        finally:
            tail = ran.tail.decode("utf-8", "replace")
            after, changed = self._finish(step, state, {"exit": ran.exit, "tail": tail, "timed_out": ran.timed_out})
        return StepResult(
            id=step.id,
            before=step.before,
            after=after,
            exit=ran.exit,
            timed_out=ran.timed_out,
            changed=changed,
            ms=(time.monotonic() - started) * 1000,
            undo_with=f"takeback undo {step.id}",
        )

    def mark_prompt(self, text: str = "", *, session: str | None = None, task: str | None = None) -> str:
        """Record that a person gave an agent a new prompt: what `undo(prompt=True)` goes back to."""
        with self._working("prompt"):
            event = self._recorder.event(
                EventKind.PROMPT,
                lambda id: Event(
                    seq=0,
                    id=id,
                    kind=EventKind.PROMPT,
                    at_ns=time.time_ns(),
                    worktree=self._w.dir.key,
                    session=session,
                    task=task,
                    text=text,
                ),
            )
            return event.id

    def _begin(
        self, text: str, session: str | None, task: str | None, named: Sequence[bytes], state: bool
    ) -> steps.Open:
        with self._working("step"):
            self._timeline()
            return steps.begin(
                self._w, self._recorder, text=text, session=session, task=task, named=named, state=state,
                owner=steps.me(),
            )  # fmt: skip

    def _finish(self, step: steps.Open, state: bool, data: dict[str, object]) -> tuple[str, int]:
        with self._working("step", remake=True):
            after = steps.finish(self._w, self._recorder, step, state=state, data=data)
        return after, views.count_changes(self._w, self._checkpoint(step.before), self._checkpoint(after))

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
            now, parts = checkpoints.peek(self._w, self._recorder, state=first.has_state)
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
        """Return whether the project is protected, its last steps, what undo would take back, and disk used."""
        self._sync()
        return views.status(self._w, self._store, fold(self._store.events()), self._paused_until())

    # -- housekeeping ----------------------------------------------------------------------------------------------

    def gc(
        self,
        *,
        keep: int | None = None,
        older_than_s: float | None = None,
        max_bytes: int | None = None,
        dry_run: bool = False,
    ) -> GcResult:
        """Remove old checkpoints and what only they held; the newest stay, and those a step can be undone with."""
        from takeback.files import gc

        with self._working("gc"):
            return gc.collect(
                self._w, self._recorder, fold(self._store.events()), keep=keep, older_than_s=older_than_s,
                max_bytes=max_bytes, dry_run=dry_run,
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
        return doctor.examine(self._w, self._recorder, rebuilt=rebuilt, fix=fix)

    def pause(self, seconds: float | None = None) -> None:
        """Stop taking checkpoints for a while, or until `resume`."""
        until = 2**63 - 1 if seconds is None else time.time_ns() + int(seconds * 1e9)
        self._store.set_meta(_PAUSE, str(until))

    def resume(self) -> None:
        """Take checkpoints again."""
        self._store.set_meta(_PAUSE, "0")

    # -- inside ----------------------------------------------------------------------------------------------------

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
            yield

    def _paused_until(self) -> int:
        until = int(self._store.get_meta(_PAUSE) or "0")
        return until if until > time.time_ns() else 0

    def _timeline(self) -> Timeline:
        """The timeline with dead steps closed; the lock is held."""
        self._recorder.sync()
        timeline = fold(self._store.events())
        if steps.close_dead(self._w, self._recorder, timeline):
            timeline = fold(self._store.events())
        return timeline

    def _sync(self) -> None:
        if not self._w.project.readable_only:
            self._recorder.sync()

    def _checkpoint(self, id: str) -> Checkpoint:
        """Return a checkpoint by its id, or the one after a step or restore."""
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
        here = _here()
        for path in paths:
            raw = os.fsencode(path)
            if not raw or b"\0" in raw:
                raise UsageError(detail="an empty path, or one with a NUL byte")
            base = here if _below(os.path.realpath(here), self.root) else self.root
            full = os.path.normpath(os.path.join(base, raw))
            if not (isinstance(path, bytes) and not os.path.isabs(raw)):
                above, name = os.path.split(full)
                full = os.path.join(os.path.realpath(above), name)
            else:
                full = os.path.normpath(os.path.join(self.root, raw))
            if not _below(full, self.root) and os.path.realpath(full) == self.root:
                full = self.root  # the root by another name, a link to it
            if not _below(full, self.root):
                raise OutsideProject(path=os.fsdecode(path), root=os.fsdecode(self.root))
            result.append(b"" if full == self.root else os.path.relpath(full, self.root))
        return tuple(result)


def _run(words: list[str], cwd: bytes, timeout: float | None, stdout_fd: int, keep: int) -> command.Ran:
    try:
        return command.run(words, cwd=cwd, timeout=timeout, stdout_fd=stdout_fd, keep=keep)
    except OSError as error:
        line = f"{words[0]}: {error.strerror}\n".encode("utf-8", "replace")
        os.write(2, line)
        return command.Ran(126 if isinstance(error, PermissionError) else 127, line, False)


def open_for_restore(id: str, project: str | None = None, *, progress: Progress | None = None) -> Project:
    """Open the project that has a checkpoint, also when its folder is gone.

    Raises NoProject, UnknownId, AmbiguousId.
    """
    try:
        return Project.open(project, progress=progress)
    except (NoProject, TakebackError) as error:
        if not isinstance(error, NoProject) and error.kind not in ("home-directory",):
            raise
        config = configs.load(os.environ)
        data = DataDir(config.data)
        if project is not None:
            held = data.holding(os.path.realpath(os.fsencode(project)))
            if held is None:
                raise
            return Project._of(Place(held[1]), held[0], config, progress)
        found = [known for known in data.all() if _has(known, id)]
        if not found:
            raise UnknownId(what="checkpoint", id=id, nearest="name its project with --project DIR") from error
        if len(found) > 1:
            roots = ", ".join(os.fsdecode(known.roots[0]) for known in found)
            raise AmbiguousId(id=id, places=roots) from error
        return Project._of(Place(found[0].roots[0]), found[0], config, progress)


def _has(project: ProjectDir, id: str) -> bool:
    if not project.timeline.exists():
        return False
    store = SqliteStore(project.timeline, create=False)
    try:
        return store.checkpoint(id) is not None
    finally:
        store.close()


def _find_place(data: DataDir, start: bytes) -> Place:
    start = os.path.realpath(start)
    if os.path.isdir(start):
        place = places.find(start)
        if place is not None:
            return place
    held = data.holding(start)
    if held is not None:
        return Place(held[1], object_format=held[0].object_format)
    if not os.path.isdir(start):
        raise NoProject(path=os.fsdecode(start))
    if os.path.basename(start) == b".git" or b"/.git/" in start + b"/":
        raise NoProject(path=os.fsdecode(start))
    return Place(start)


def _here() -> bytes:
    try:
        return os.getcwdb()
    except FileNotFoundError:
        # The folder was deleted under us: its name is still in PWD.
        return os.fsencode(os.environ.get("PWD", "/"))


def _below(path: bytes, root: bytes) -> bool:
    return path == root or path.startswith(root.rstrip(b"/") + b"/")


def machines_setup(*, mirror: str = "") -> Setup:
    """Return what looks at, and brings, the things that machines need. Raises BadSetting, CannotRead."""
    from takeback.machines.layout import MachinesDir
    from takeback.machines.setup import Setup

    data = configs.load(os.environ).data
    return Setup(MachinesDir(data / "machines"), os.environ.get("PATH", os.defpath), mirror)


def machines_findings() -> list[Finding]:
    """Return what `doctor` says about machines: one line that tells how to begin, until somebody has begun."""
    setup = machines_setup()
    if setup.in_use:
        return setup.findings()
    return [Finding("machines", True, "not set up; `takeback setup` or the first Sandbox.create() does it")]


def can_install_packages() -> bool:
    """Whether this process could install Debian packages into the system."""
    from takeback.host import apt, system

    return system.is_root() and apt.is_here()


def install_packages(packages: Sequence[str]) -> None:
    """Install Debian packages into the system, when a person said so. Raises FetchFailed."""
    from takeback.host import apt

    apt.install(packages)
