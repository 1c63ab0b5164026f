"""One sandbox's life: starting, running, paused, stopped, and how it gets from one to another.

    starting -> running <-> paused           pausing and resuming are on the way
       any -> stopping -> stopped -> running (restart, from the kept disk)

One lock per sandbox: changes of state wait for each other. Calls into a running sandbox take no lock; they count as
`busy`, and only an idle one is paused by the clock.

Does not cover: what is asked of what runs inside (`processes`, `files`), when the clock asks for a change (`idle`).
"""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
import signal
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from takeback.errors import (
    CannotSave,
    EngineFailed,
    MachineGone,
    MachineRefused,
    MachineSilent,
    NotPaused,
    SandboxHeld,
    SandboxPaused,
    SandboxStopped,
    StartFailed,
    TakebackError,
    TimedOut,
    Unsupported,
)
from takeback.host import atomic
from takeback.machines.channel.link import LIMIT, Link
from takeback.machines.engine import Answers, DiskKind, Engine, Machine, MachineSpec, Saved, State, Stdio, Usage
from takeback.machines.keeper import shared
from takeback.machines.keeper.registry import Registry
from takeback.machines.model import SandboxRecord, SandboxState
from takeback.machines.network.state import SandboxNetwork

log = logging.getLogger("takeback.keeper")
T = TypeVar("T")
_SECOND = 1_000_000_000
_BOOT_SECONDS = 30.0
_PROOF_SECONDS = 5.0
_SEED = 32
_KEPT = "kept-"  # how the folders with the disk of a stopped one begin
_LIVES = (SandboxState.RUNNING, SandboxState.PAUSED)
# One restore in hundreds dies in the engine, or comes up dead; nothing is left of it, so it can be repeated.
_FLEETING = (EngineFailed, MachineSilent, TimedOut)


class Life:
    """A sandbox that the keeper looks after."""

    def __init__(
        self,
        record: SandboxRecord,
        engine: Engine,
        registry: Registry,
        now_ns: Callable[[], int],
        network: SandboxNetwork,
    ) -> None:
        self.record = record
        self.engine = engine
        self.network = network
        self.machine = machine_of(record, registry.folder(record.id))
        self.busy = 0
        self.disk_allowed = 0  # bytes of changed files it may have although its disk is smaller
        self.active_ns = record.active_ns or now_ns()
        self.deleted = False
        self.over = asyncio.Event()  # it was deleted
        self.began = asyncio.Event()  # it runs, or does so again; whoever waits for that clears it
        self.unwritten = False  # its record could not be written as it is now; that is tried again
        self.shell = "bash"  # what commands given as a text run in; found out by trying
        self._registry = registry
        self._now_ns = now_ns
        self._lock = asyncio.Lock()
        self._link: Link | None = None
        self._waiting: set[asyncio.Future[None]] = set()
        self._quieting: Link | None = None  # its answer is waited for before a save
        self._over_because = ""  # it has ended, and that is being written down
        self._watched = -1  # a descriptor that becomes readable when its processes end
        self._checking: asyncio.Task[None] | None = None

    # -- use -------------------------------------------------------------------------------------------------------

    @property
    def locked(self) -> bool:
        """Whether its state is being changed."""
        return self._lock.locked()

    @property
    def spoiled(self) -> bool:
        """Whether its record cannot be read."""
        return self._registry.is_spoiled(self.record.id)

    @property
    def runs(self) -> bool:
        return self.record.state == SandboxState.RUNNING and not self.deleted and not self._over_because

    def needs(self) -> tuple[list[Machine], list[Path]]:
        """Return every machine of it and every kept disk, for which nothing may be swept away."""
        folder = self._registry.folder(self.record.id)
        kept = folder.glob(f"{_KEPT}*") if self.spoiled else [self.kept]
        return [self.machine, *self._stale()], [one for one in kept if one is not None]

    @property
    def kept(self) -> Path | None:
        """The folder with its disk, when it was stopped."""
        return self._registry.folder(self.record.id) / self.record.kept if self.record.kept else None

    def enter(self) -> None:
        """Count a call in; until `leave` the clock does not pause it."""
        self.busy += 1

    def leave(self) -> None:
        self.busy -= 1
        self.active_ns = self._now_ns()

    def commands(self) -> list[Sequence[str | bytes]]:
        """Return what runs inside because somebody asked for it, oldest first."""
        return self._link.commands if self._link is not None else []

    async def awake(self) -> None:
        """Return when it runs, waking it if it may wake by itself. Raises SandboxPaused, SandboxStopped."""
        if self.runs:
            return
        async with self._lock:
            if self.record.state == SandboxState.PAUSED:
                if self.record.held:
                    raise self.stopped()
                if not self.record.auto_wake:
                    raise SandboxPaused(id=self.record.id)
                await self._resume()
            if not self.runs:
                raise self.stopped()

    def stopped(self) -> SandboxHeld | SandboxStopped:
        """Return the error of a call into a sandbox that does not run."""
        if self.record.held and self.record.state == SandboxState.PAUSED:
            return SandboxHeld(id=self.record.id, why=self.record.held)
        state = SandboxState.STOPPED if self._over_because else self.record.state
        why = self._over_because or self.record.lost or self.record.stop_reason
        return SandboxStopped(id=self.record.id, state=state.value, why=f": {why}" if why else "")

    async def link(self) -> Link:
        """Return the channel to what runs inside; the sandbox is awake."""
        if self._link is None or self._link.closed:
            async with self._lock:
                return await self._attach()
        return self._link

    async def wait_for(self, state: str, seconds: float) -> None:
        """Return when it is in `state`, can no longer come to it, or the time is over."""
        loop = asyncio.get_running_loop()
        until = loop.time() + seconds
        while self.record.state != state and self.record.state != SandboxState.STOPPED:
            future = loop.create_future()
            self._waiting.add(future)
            try:
                await asyncio.wait_for(future, max(0.0, until - loop.time()))
            except TimeoutError:
                return
            finally:
                self._waiting.discard(future)

    def shown(self) -> dict[str, Any]:
        """Return its record as callers see it, with when it was used last."""
        return replace(self.record, active_ns=max(self.active_ns, self.record.active_ns)).info()

    async def usage(self) -> Usage:
        """Return what it used so far."""
        return await threaded(self.engine.usage, self.machine)

    @asynccontextmanager
    async def changing(self) -> AsyncIterator[None]:
        """Hold it for the block, in which nobody else changes its state."""
        async with self._lock:
            yield

    async def undisturbed(self, function: Callable[..., T], *arguments: Any) -> T:
        """Call what blocks while nothing changes its state."""
        async with self._lock:
            return await threaded(function, *arguments)

    # -- changes ---------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Boot it for the first time. Raises StartFailed with nothing left but its record."""
        async with self._lock:
            await self._boot(self.engine.start, self.machine)

    async def pause(self, held: str = "") -> None:
        """Stop its processors; with `held`, until somebody wakes it by name. Raises SandboxStopped."""
        async with self._lock:
            await self._pause(held)

    async def hold(self, why: str, allowed: int, of: Machine) -> None:
        """Pause it until somebody wakes it by name, when it may have `allowed` bytes of changed files.

        Not when another machine has taken the place of the one meant.
        """
        async with self._lock:
            if self.machine is not of:
                return
            log.warning("sandbox %s is paused: %s", self.record.id, why)
            self.disk_allowed = allowed
            await self._pause(why)

    async def end(self, why: str, of: Machine) -> None:
        """End it as if it had died, and write down why; not when another machine has taken the place of `of`."""
        async with self._lock:
            if self.machine is of and not self.deleted and self.record.state == SandboxState.RUNNING:
                await self._over(why)

    async def wake(self, timeout_seconds: int | None = None) -> None:
        """Let it go on. Raises NotPaused, SandboxStopped."""
        async with self._lock:
            if self.record.state == SandboxState.RUNNING:
                raise NotPaused(id=self.record.id, state=self.record.state.value)
            if self.record.state != SandboxState.PAUSED:
                raise self.stopped()
            await self._resume(timeout_seconds)

    async def stop(self, reason: str = "requested") -> None:
        """End what runs and keep the disk. Raises Unsupported where the engine cannot keep one, and it runs on."""
        async with self._lock:
            if self.record.state == SandboxState.STOPPED:
                return
            unable = self.engine.capabilities().disk_snapshot
            if unable:
                raise Unsupported(what=f"keeping the disk of a stopped sandbox ({unable})", next="pause or delete it")
            name, kept = self._new_kept()
            try:
                if self.machine.spec.disk is DiskKind.MEMORY:
                    # A disk in memory is saved only with it: what ran is then ended by `restart`.
                    await self._save(kept, memory=True)
                elif await threaded(self.engine.keep, self.machine, kept) is None:
                    raise EngineFailed(what="keep its disk", why="its files are not where they were")
            except BaseException as error:
                shutil.rmtree(kept, ignore_errors=True)
                if isinstance(error, OSError):
                    raise CannotSave(why=f"{kept}: {error.strerror}", next="free some room and repeat") from error
                raise
            # Written down before the machine goes: a keeper killed here leaves one that can be started again.
            try:
                self._set(SandboxState.STOPPING, must=True, kept=name)
            except BaseException:
                shutil.rmtree(kept, ignore_errors=True)
                raise
            await self._detach("stopped")
            await threaded(self.engine.remove, self.machine)
            self._set(SandboxState.STOPPED, stop_reason=reason, ended_ns=self._now_ns())

    async def save(self, into: Path, *, memory: bool) -> Saved:
        """Write a snapshot into a new folder; it goes on, or stays paused. Raises CannotSave, SandboxStopped."""
        async with self._lock:
            return await self._save(into, memory=memory)

    async def copy_kept(self, into: Path) -> Saved | None:
        """Let a snapshot's folder hold the kept disk too; None when there is none. Raises OSError."""
        async with self._lock:
            kept = await self._kept()
            if kept is None:
                return None
            # Nobody writes to those files any more: a link is as good as a copy.
            await threaded(shutil.copytree, kept, into, symlinks=True, copy_function=os.link, dirs_exist_ok=True)
            return await threaded(self.engine.saved, into)

    def begin(self) -> None:
        """Be about to come up on new FIFOs. Raises OSError."""
        self._set(SandboxState.STARTING, must=True, lost=None, stop_reason=None, ended_ns=0)
        _make_fifos(self.machine.stdio)

    async def arrive(self, saved: Saved) -> None:
        """Run as the copy that a fork just made, by whoever holds it (`changing`). Raises as `start_from`."""
        try:
            async with self._failing():
                await self._greet()
        except _FLEETING as error:
            log.warning("sandbox %s: %s; once more", self.record.id, error)
            await self._boot(self.engine.restore, self.machine, saved)

    async def start_from(self, saved: Saved) -> None:
        """Bring it up from a snapshot for the first time. Raises what the engine raises, with nothing left."""
        async with self._lock:
            await self._boot_from(saved)

    async def replace(self, saved: Saved, snapshot_id: str) -> Machine:
        """Put it to a snapshot; return the machine it was, still to be removed."""
        return await self._succeed(
            lambda fresh: self.engine.restore(fresh, saved), last_snapshot=snapshot_id, born_of=snapshot_id
        )

    async def reboot(self, fill: Callable[[Link, Link], Awaitable[None]], **changes: Any) -> Machine:
        """Boot it anew with changes of its record, filled from what it was; return that, still to be removed."""
        return await self._succeed(self.engine.start, fill, **changes)

    async def _succeed(
        self,
        how: Callable[[Machine], None],
        fill: Callable[[Link, Link], Awaitable[None]] | None = None,
        **changes: Any,
    ) -> Machine:
        """Let another machine take its place, and return the one it was.

        The replacement answers before the old one is given up; when it does not, the old one goes on as it is. One that
        had ended runs again; its kept disk is given up.
        """
        async with self._lock:
            if self.deleted or self.record.state not in (*_LIVES, SandboxState.STOPPED):
                raise self.stopped()
            record = replace(
                self.record, incarnation=uuid.uuid4().hex, generation=self.record.generation + 1, **changes
            )
            fresh = machine_of(record, self._registry.folder(record.id))
            try:
                link = await self._bring_up(fresh, record, how, fill)
            except _FLEETING as error:
                log.warning("sandbox %s: %s; once more", self.record.id, error)
                link = await self._bring_up(fresh, record, how, fill)
            old, kept, now = self.machine, self.kept, self._now_ns()
            again: dict[str, Any] = {"active_ns": now, "paused_ns": 0, "held": ""}
            if kept is not None or record.ended_ns:
                again |= {"kept": "", "lost": None, "stop_reason": None, "ended_ns": 0, "lease_ns": self._lease(now)}
            try:
                # From this write on it is the machine; without it the old one is, also for the next keeper.
                self._note(record.with_state(SandboxState.RUNNING, **again))
            except BaseException:
                link.close("it was not taken")
                await self._undo(fresh)
                raise
            await self._detach("it was put to a snapshot")
            self.machine, self._link = fresh, link
            self.disk_allowed = 0  # that was for the files of the old one
            self._watch()
            self.active_ns = now
            self._tell()
            await self._join(link)
            if kept is not None:
                await threaded(shutil.rmtree, kept, ignore_errors=True)
            return old

    async def _bring_up(
        self,
        fresh: Machine,
        record: SandboxRecord,
        how: Callable[[Machine], None],
        fill: Callable[[Link, Link], Awaitable[None]] | None,
    ) -> Link:
        """Bring up a replacement beside the machine that runs; of one that fails nothing is left."""
        link = None
        try:
            fresh.folder.mkdir(mode=0o700)
            _make_fifos(fresh.stdio)
            await threaded(how, fresh)
            link = await self._first_answer(fresh, record)
            if fill is not None:
                await self._fill(fresh, link, fill)
            return link
        except BaseException:
            if link is not None:
                link.close("it was not taken")
            await self._undo(fresh)
            raise

    async def _undo(self, fresh: Machine) -> None:
        await threaded(self.engine.remove, fresh)
        shutil.rmtree(fresh.folder, ignore_errors=True)

    async def _fill(self, fresh: Machine, link: Link, fill: Callable[[Link, Link], Awaitable[None]]) -> None:
        """Fill a replacement. When either of the two dies meanwhile nobody waits for its answer."""
        loop = asyncio.get_running_loop()
        old = await self._attach()
        watched = await threaded(self.engine.watch, fresh)
        if watched is None:
            raise MachineSilent(why="its process ended")

        def ended() -> None:
            loop.remove_reader(watched)
            link.close("its process ended")

        loop.add_reader(watched, ended)
        self._quieting = old  # `check` waits for the lock, so it cannot tell
        try:
            if self._watched < 0:
                raise MachineGone(id=self.record.id, why="its process ended")
            await fill(old, link)
        except MachineSilent as error:
            if self._watched < 0:  # not to be repeated, as with a replacement that died
                raise MachineGone(id=self.record.id, why="its process ended") from error
            raise
        finally:
            self._quieting = None
            loop.remove_reader(watched)
            os.close(watched)

    async def drop(self, old: Machine) -> None:
        """Remove a machine that was replaced."""
        await threaded(self.engine.remove, old)
        if old.folder != self._registry.folder(self.record.id):
            shutil.rmtree(old.folder, ignore_errors=True)
        else:
            for fifo in (old.stdio.to_guest, old.stdio.from_guest):
                fifo.unlink(missing_ok=True)

    async def restart(self) -> None:
        """Boot it from its kept disk. Raises SandboxStopped when there is none."""
        async with self._lock:
            if self.deleted:
                raise self.stopped()
            if self.record.state == SandboxState.RUNNING:
                return
            kept = await self._kept()
            if self.record.state != SandboxState.STOPPED or kept is None:
                raise self.stopped()
            saved = await threaded(self.engine.saved, kept)
            await self._boot_from(saved)
            if saved.memory:
                await self._end_all()
            shutil.rmtree(kept, ignore_errors=True)

    async def delete(self) -> bool:
        """Give up its name and let callers go; `clean` does the slow rest.

        False when that could not be written down: the next keeper would find it again until `clean` has ended.
        """
        self.deleted = True
        async with self._lock:
            if self.record.state != SandboxState.STOPPED:
                self._set(SandboxState.STOPPING, stop_reason="deleted", ended_ns=self._now_ns())
            else:
                self._set(SandboxState.STOPPED, stop_reason="deleted")
            noted = not self.unwritten
            await self._detach("deleted")
            await self.network.close()
        self.over.set()
        return noted

    async def clean(self) -> None:
        """Remove all of a deleted sandbox."""
        async with self._lock:
            for machine in (self.machine, *self._stale()):
                await threaded(self.engine.remove, machine)
            await threaded(self._registry.remove, self.record.id)
            self.record = self.record.with_state(SandboxState.STOPPED)

    def reshape(self, **fields: Any) -> None:
        """Change what its machine is to be when it boots next; it is stopped."""
        self.change(**fields)
        self.machine = machine_of(self.record, self._registry.folder(self.record.id))

    def change(self, **fields: Any) -> None:
        """Change settings and write them down."""
        self._note(replace(self.record, **fields))

    def _note(self, record: SandboxRecord) -> None:
        # What says that a disk is kept, or no more, is all that leads to it.
        durable = bool(self.record.kept or record.kept)
        self._registry.save(record, durable=durable)
        self.record, self.unwritten = record, False

    def write_again(self) -> None:
        """Write down what could not be written when it happened, if that can be done now."""
        if self.unwritten and not self.deleted:
            with suppress(OSError):
                self._note(self.record)
                log.info("sandbox %s: its record is written again", self.record.id)

    # -- finding again ---------------------------------------------------------------------------------------------

    async def adopt(self) -> None:
        """See what is left of a sandbox whose keeper was killed: it goes on, or is lost and the reason is kept."""
        async with self._lock:
            for stale in self._stale():
                await threaded(self.engine.remove, stale)
                if stale.folder != self._registry.folder(self.record.id):
                    shutil.rmtree(stale.folder, ignore_errors=True)
            folder = self._registry.folder(self.record.id)
            for kept in folder.glob(f"{_KEPT}*"):
                if kept.name != self.record.kept:
                    shutil.rmtree(kept, ignore_errors=True)
            atomic.clear(folder)
            if self.record.state == SandboxState.STOPPED:
                return
            if self.record.kept:
                # Its keeper was killed between saving the disk and the end.
                await threaded(self.engine.remove, self.machine)
                self._set(SandboxState.STOPPED, stop_reason="requested", ended_ns=self._now_ns())
                return
            try:
                state = await threaded(self.engine.state, self.machine)
                if state == State.RUNNING:
                    # Its keeper may have been killed while it let a paused one go on.
                    self._set(SandboxState.RUNNING, held="", paused_ns=0)
                    await self._attach()
                elif state == State.PAUSED:
                    self._set(SandboxState.PAUSED)
                elif self.record.state == SandboxState.STARTING:
                    await self._lose("it had not yet started when its keeper was killed")
                elif state == State.LOST:
                    await self._lose("its processes ended with the boot, or the namespaces, that they were started in")
                else:
                    await self._lose(f"it had ended when a keeper looked for it again ({state.value})")
            except (TakebackError, OSError) as error:  # one whose files are damaged must not keep all others away
                await self._lose(str(error))

    async def check(self) -> None:
        """Notice when it has died: of too little memory, or killed from outside."""
        async with self._lock:
            if self.deleted or self.record.state not in (SandboxState.RUNNING, SandboxState.PAUSED):
                return
            state = await threaded(self.engine.state, self.machine)
            if state in (State.STOPPED, State.LOST):
                because = await threaded(self.engine.ended_because, self.machine)
                await self._over(because or f"it died ({state.value})")

    async def leave_running(self) -> None:
        """Let go of it without ending anything."""
        await self._detach("the keeper ends")

    # -- inside ----------------------------------------------------------------------------------------------------

    async def _end_all(self) -> None:
        link = await self._attach()
        for one in await link.list():
            if one.ended is None:
                try:
                    await link.signal(one.id, signal.SIGKILL, everything=True)
                except MachineRefused:
                    continue  # it has ended meanwhile

    def _stale(self) -> list[Machine]:
        """Return the machines of it that a killed keeper left: replacements not yet in place, or what was replaced."""
        top = self._registry.folder(self.record.id)
        if not top.is_dir():
            return []
        names = [path.name for path in top.iterdir() if path.is_dir() and len(path.name) == 32]
        found = [machine_of(replace(self.record, incarnation=name), top) for name in names]
        if self.record.incarnation:
            found.append(machine_of(replace(self.record, incarnation=""), top))
        return [one for one in found if one.id != self.machine.id]

    async def _boot_from(self, saved: Saved) -> None:
        try:
            await self._boot(self.engine.restore, self.machine, saved)
        except _FLEETING as error:
            log.warning("sandbox %s: %s; once more", self.record.id, error)
            await self._boot(self.engine.restore, self.machine, saved)

    async def _boot(self, how: Callable[..., None], *arguments: Any) -> None:
        async with self._failing():
            self.begin()
            await threaded(how, *arguments)
            await self._greet()

    async def _greet(self) -> None:
        """Run from now on: PID 1 answers, is told who it is, and reaches what it may."""
        self._link = await self._first_answer(self.machine, self.record)
        self._watch()
        await self._join(self._link)
        now = self._now_ns()
        self.active_ns = now
        lease = self._lease(now)
        # A kept disk is given up after this, so it must not be named any more.
        self._set(SandboxState.RUNNING, must=True, ready_ns=now, active_ns=now, lease_ns=lease, kept="", held="")

    def _lease(self, now: int) -> int:
        return now + self.record.timeout_seconds * _SECOND if self.record.timeout_seconds else 0

    async def _first_answer(self, machine: Machine, record: SandboxRecord) -> Link:
        """Return the channel to a machine that came up just now. Raises MachineSilent, at once when it has ended."""
        watched = await threaded(self.engine.watch, machine)
        if watched is None:
            raise MachineSilent(why="its process ended at once")
        try:
            return await _open(machine, record, _BOOT_SECONDS, watched)
        finally:
            os.close(watched)

    @asynccontextmanager
    async def _failing(self) -> AsyncIterator[None]:
        """Leave nothing but the record of one that does not start in the block."""
        try:
            yield
        except BaseException as error:
            await self._detach("did not start")
            await threaded(self.engine.remove, self.machine)
            self._set(SandboxState.STOPPED, stop_reason="did not start", ended_ns=self._now_ns())
            if isinstance(error, OSError):
                raise StartFailed(why=str(error)) from error
            raise

    async def _save(self, into: Path, *, memory: bool) -> Saved:
        save = self.engine.save
        return await self.at_rest(lambda answers: threaded(save, self.machine, into, memory=memory, answers=answers))

    async def at_rest(self, work: Callable[[Answers], Awaitable[T]]) -> T:
        """Bring the channel to rest, save, and go on; a paused one runs for the moment that takes.

        By whoever holds it (`changing`). Raises SandboxStopped, and what `work` raises.
        """
        paused = self.record.state == SandboxState.PAUSED
        if not paused and self.record.state != SandboxState.RUNNING:
            raise self.stopped()
        if paused:
            await threaded(self.engine.resume, self.machine)
        try:
            link = await self._attach()
            if self._watched < 0:
                raise MachineGone(id=self.record.id, why="its process ended")
            self._quieting = link
            try:
                await link.quiesce()
            finally:
                self._quieting = None
            try:
                if paused:
                    await threaded(self.engine.pause, self.machine)
                return await work(self._answers(link))
            finally:
                self._watch()  # an engine may have had to replace it, also when a copy failed afterwards
                link.go()
        except BaseException:
            if paused:
                await threaded(self.engine.pause, self.machine)
            raise

    async def _pause(self, held: str) -> None:
        if self.record.state == SandboxState.PAUSED:
            return
        if self.record.state != SandboxState.RUNNING:
            raise self.stopped()
        self._set(SandboxState.PAUSING, must=True)
        try:
            await threaded(self.engine.pause, self.machine)
        except BaseException:
            self._set(SandboxState.RUNNING)
            raise
        self._set(SandboxState.PAUSED, paused_ns=self._now_ns(), active_ns=self.active_ns, held=held)
        if held:  # whoever waits for something inside is told, as those are who come now
            if self._link is not None:
                self._link.close(held)
                self._link = None
            await self.network.detach(held)

    async def _resume(self, timeout_seconds: int | None = None) -> None:
        self._set(SandboxState.RESUMING, must=True)
        try:
            await threaded(self.engine.resume, self.machine)
            await self._attach()
        except BaseException:
            self._set(SandboxState.PAUSED)
            raise
        now = self._now_ns()
        seconds = self.record.timeout_seconds if timeout_seconds is None else timeout_seconds
        lease = self.record.lease_ns
        if timeout_seconds is not None or (lease and lease <= now):
            lease = now + seconds * _SECOND if seconds else 0
        self.active_ns = now
        self._set(SandboxState.RUNNING, active_ns=now, paused_ns=0, lease_ns=lease, timeout_seconds=seconds, held="")

    async def _attach(self) -> Link:
        if self._link is None or self._link.closed:
            self._link = await _open(self.machine, None, LIMIT)
            self._watch()
            await self._join(self._link)
        return self._link

    def _answers(self, link: Link) -> Answers:
        """Return what an engine asks from its thread: does PID 1 answer, in a machine just put in its place?"""
        loop = asyncio.get_running_loop()

        def answers() -> bool:
            try:
                asyncio.run_coroutine_threadsafe(link.ping(_PROOF_SECONDS), loop).result(_PROOF_SECONDS + 1)
            except (TakebackError, TimeoutError):
                return False
            return True

        return answers

    def _watch(self) -> None:
        descriptor = self.engine.watch(self.machine)
        if descriptor is not None:  # else one that was watched before tells, if it has ended
            self._unwatch()
            self._watched = descriptor
            asyncio.get_running_loop().add_reader(descriptor, self._ended)

    def _unwatch(self) -> None:
        if self._watched >= 0:
            asyncio.get_running_loop().remove_reader(self._watched)
            os.close(self._watched)
            self._watched = -1

    def _ended(self) -> None:
        self._unwatch()
        if self._quieting is not None:  # `check` has to wait for whoever waits for its answer
            self._quieting.close("its process ended")
        self._checking = asyncio.get_running_loop().create_task(self.check())

    async def _detach(self, why: str) -> None:
        self._unwatch()
        if self._link is not None:
            self._link.close(why)
            self._link = None
        await self.network.detach(why)

    async def _join(self, link: Link) -> None:
        """Let what runs inside reach what its rules allow; when that fails it reaches nothing, and runs."""
        try:
            await self.network.attach(link)
        except (TakebackError, OSError) as error:
            log.warning("sandbox %s has no network: %s", self.record.id, error)

    async def _lose(self, why: str) -> None:
        await self._over("lost", lost=why)

    async def _over(self, why: str, **more: Any) -> None:
        """Write down that it has ended, and keep its files where they lie."""
        self._over_because = more.get("lost", why)
        log.warning("sandbox %s has ended: %s", self.record.id, self._over_because)
        try:
            await self._detach(why)
            kept, left = "", False
            try:
                # One that never ran has nothing that anybody could miss.
                kept = await self._keep() if self.record.ready_ns else ""
            except (TakebackError, OSError) as error:
                log.error("sandbox %s: its files are not kept yet: %s", self.record.id, error)
                left = True
            self._set(SandboxState.STOPPED, kept=kept, stop_reason=why, ended_ns=self._now_ns(), **more)
        finally:
            self._over_because = ""
        if not left and not self.unwritten:  # else the next keeper is to find its files by what the engine has
            await threaded(self.engine.remove, self.machine)

    async def _keep(self) -> str:
        """Keep the files of one that has ended, and return the folder that says so; an empty text without any."""
        name, kept = self._new_kept()
        try:
            if await threaded(self.engine.keep, self.machine, kept) is not None:
                return name
        except BaseException:
            shutil.rmtree(kept, ignore_errors=True)
            raise
        shutil.rmtree(kept, ignore_errors=True)
        return ""

    async def _kept(self) -> Path | None:
        """Return the folder with its disk; what could not be kept when it ended is tried once more."""
        if self.record.state == SandboxState.STOPPED and not self.record.kept and not self.spoiled:
            self.change(kept=await self._keep())
        return self.kept

    def _new_kept(self) -> tuple[str, Path]:
        # No two saves ever have a folder of one name, wherever they lie: the engine goes by it.
        name = f"{_KEPT}{uuid.uuid4().hex}"
        folder = self._registry.folder(self.record.id) / name
        folder.mkdir(mode=0o700)
        return name, folder

    def _set(self, state: SandboxState, *, must: bool = False, **changes: Any) -> None:
        """Be in a state. What is only about to be, or what else is given up for, `must` be written: raises OSError.

        What has happened has happened, also when it cannot be written; that is done later (`write_again`).
        """
        record = self.record.with_state(state, **changes)
        try:
            self._note(record)
        except OSError as error:
            if must:
                raise
            log.warning("sandbox %s is %s, which cannot be written yet: %s", record.id, state.value, error)
            self.record, self.unwritten = record, True
        self._tell()

    def _tell(self) -> None:
        if self.record.state == SandboxState.RUNNING:
            self.began.set()
        for future in self._waiting:
            if not future.done():
                future.set_result(None)


async def _open(machine: Machine, record: SandboxRecord | None, limit: float, watched: int = -1) -> Link:
    """Return the channel to a machine, which has answered; with a record it is told who it is.

    `watched` becomes readable when its process ends: nobody waits for an answer of that one.
    """
    loop = asyncio.get_running_loop()
    link = Link(machine.stdio.to_guest, machine.stdio.from_guest)

    def ended() -> None:
        loop.remove_reader(watched)
        link.close("its process ended before it answered")

    try:
        if watched >= 0:
            loop.add_reader(watched, ended)
        link.go()  # a copy begins, and an orphan may be left, standing still for the save it comes from
        await link.attach(limit)
        if record is not None:
            await link.identity(
                record.generation, machine_id=machine.id, hostname=record.hostname, seed=os.urandom(_SEED)
            )
    except BaseException:
        link.close()
        raise
    finally:
        if watched >= 0:
            loop.remove_reader(watched)
    return link


def _make_fifos(stdio: Stdio) -> None:
    for fifo in (stdio.to_guest, stdio.from_guest):
        fifo.unlink(missing_ok=True)
        os.mkfifo(fifo, 0o600)


def machine_of(record: SandboxRecord, folder: Path) -> Machine:
    """Return the machine a record is about, whose folder is the sandbox's or lies in it."""
    spec = MachineSpec(
        base=Path(record.base.root),
        disk=DiskKind(record.disk),
        supervisor=shared.protected(Path(record.supervisor)),
        vcpu=record.vcpu,
        memory_mib=record.memory_mib,
        disk_mib=record.disk_mib,
        hostname=record.hostname,
        tmpfs=(*MachineSpec.tmpfs, *record.base.scratch),
        masked=record.base.masked,
        seen=record.base.seen,
        shown=record.base.shown,
        live=record.base.live,
    )
    # The engine wants ids of one length, unique on this host: a UUID without its dashes.
    id = record.incarnation or record.id.replace("-", "")
    place = folder / record.incarnation if record.incarnation else folder
    return Machine(id, place, spec, Stdio(place / "in", place / "out"))


async def threaded(function: Callable[..., T], *arguments: Any, **more: Any) -> T:
    """Run what blocks in a worker thread; once begun it is waited for, whoever gives up."""
    task = asyncio.ensure_future(asyncio.to_thread(function, *arguments, **more))
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task])
        raise
