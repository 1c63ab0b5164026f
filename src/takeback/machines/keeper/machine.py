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
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from takeback.errors import NotPaused, SandboxPaused, SandboxStopped, StartFailed, TakebackError, Unsupported
from takeback.machines.channel.link import LIMIT, Link
from takeback.machines.engine import DiskKind, Engine, Machine, MachineSpec, State, Stdio, Usage
from takeback.machines.keeper.registry import Registry
from takeback.machines.model import SandboxRecord, SandboxState

log = logging.getLogger("takeback.keeper")
T = TypeVar("T")
_SECOND = 1_000_000_000
_BOOT_SECONDS = 30.0
KEPT = "kept"  # folder of a stopped sandbox's disk


class Life:
    """A sandbox that the keeper looks after."""

    def __init__(self, record: SandboxRecord, engine: Engine, registry: Registry, now_ns: Callable[[], int]) -> None:
        self.record = record
        self.engine = engine
        self.machine = _machine(record, registry.folder(record.id))
        self.busy = 0
        self.active_ns = record.active_ns or now_ns()
        self.deleted = False
        self.shell = "bash"  # what commands given as a text run in; found out by trying
        self._registry = registry
        self._now_ns = now_ns
        self._lock = asyncio.Lock()
        self._link: Link | None = None
        self._waiting: set[asyncio.Future[None]] = set()
        self._watched = -1  # a descriptor that becomes readable when its processes end
        self._checking: asyncio.Task[None] | None = None

    # -- use -------------------------------------------------------------------------------------------------------

    @property
    def locked(self) -> bool:
        """Whether its state is being changed."""
        return self._lock.locked()

    @property
    def runs(self) -> bool:
        return self.record.state == SandboxState.RUNNING and not self.deleted

    def enter(self) -> None:
        """Count a call in; until `leave` the clock does not pause it."""
        self.busy += 1

    def leave(self) -> None:
        self.busy -= 1
        self.active_ns = self._now_ns()

    async def awake(self) -> None:
        """Return when it runs, waking it if it may wake by itself. Raises SandboxPaused, SandboxStopped."""
        if self.runs:
            return
        async with self._lock:
            if self.record.state == SandboxState.PAUSED:
                if not self.record.auto_wake:
                    raise SandboxPaused(id=self.record.id)
                await self._resume()
            if not self.runs:
                raise self.stopped()

    def stopped(self) -> SandboxStopped:
        """Return the error of a call into a sandbox that does not run."""
        why = self.record.lost or self.record.stop_reason
        return SandboxStopped(id=self.record.id, state=self.record.state.value, why=f": {why}" if why else "")

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
        return await _threaded(self.engine.usage, self.machine)

    # -- changes ---------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Boot it for the first time. Raises StartFailed with nothing left but its record."""
        async with self._lock:
            await self._boot(self.engine.start, self.machine)

    async def pause(self) -> None:
        """Stop its processors. Raises SandboxStopped."""
        async with self._lock:
            if self.record.state == SandboxState.PAUSED:
                return
            if self.record.state != SandboxState.RUNNING:
                raise self.stopped()
            self._set(SandboxState.PAUSING)
            try:
                await _threaded(self.engine.pause, self.machine)
            except BaseException:
                self._set(SandboxState.RUNNING)
                raise
            self._set(SandboxState.PAUSED, paused_ns=self._now_ns(), active_ns=self.active_ns)

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
            before = self.record.state
            self._set(SandboxState.STOPPING)
            kept = self.machine.folder / KEPT
            try:
                if before == SandboxState.PAUSED:
                    await _threaded(self.engine.resume, self.machine)
                link = await self._attach()
                await link.quiesce()
                shutil.rmtree(kept, ignore_errors=True)
                kept.mkdir(mode=0o700)
                await _threaded(self.engine.save, self.machine, kept, memory=False)
            except BaseException:
                if self._link is not None:
                    self._link.go()
                self._set(SandboxState.RUNNING)
                raise
            self._detach("stopped")
            await _threaded(self.engine.remove, self.machine)
            self._set(SandboxState.STOPPED, stop_reason=reason, ended_ns=self._now_ns(), disk_kept=True)

    async def restart(self) -> None:
        """Boot it from its kept disk. Raises SandboxStopped when there is none."""
        async with self._lock:
            if self.record.state == SandboxState.RUNNING:
                return
            if self.record.state != SandboxState.STOPPED or not self.record.disk_kept:
                raise self.stopped()
            saved = await _threaded(self.engine.saved, self.machine.folder / KEPT)
            await self._boot(self.engine.restore, self.machine, saved)

    async def delete(self) -> None:
        """Give up its name and let callers go; `clean` does the slow rest."""
        self.deleted = True
        async with self._lock:
            if self.record.state != SandboxState.STOPPED:
                self._set(SandboxState.STOPPING, stop_reason="deleted", ended_ns=self._now_ns())
            else:
                self._set(SandboxState.STOPPED, stop_reason="deleted")
            self._detach("deleted")

    async def clean(self) -> None:
        """Remove all of a deleted sandbox."""
        async with self._lock:
            await _threaded(self.engine.remove, self.machine)
            await _threaded(self._registry.remove, self.record.id)
            self.record = self.record.with_state(SandboxState.STOPPED)

    def change(self, **fields: Any) -> None:
        """Change settings and write them down."""
        self.record = replace(self.record, **fields)
        self._registry.save(self.record)

    # -- finding again ---------------------------------------------------------------------------------------------

    async def adopt(self) -> None:
        """See what is left of a sandbox whose keeper was killed: it goes on, or is lost and the reason is kept."""
        async with self._lock:
            if self.record.state == SandboxState.STOPPED:
                return
            try:
                state = await _threaded(self.engine.state, self.machine)
                if state == State.RUNNING:
                    self._set(SandboxState.RUNNING)
                    await self._attach()
                elif state == State.PAUSED:
                    self._set(SandboxState.PAUSED)
                elif self.record.state == SandboxState.STARTING:
                    self._lose("it had not yet started when its keeper was killed")
                else:
                    self._lose(f"it had ended when a keeper looked for it again ({state.value})")
            except TakebackError as error:
                self._lose(str(error))
            if self.record.lost is not None:
                await _threaded(self.engine.remove, self.machine)

    async def check(self) -> None:
        """Notice when it has died: of too little memory, or killed from outside."""
        async with self._lock:
            if self.deleted or self.record.state not in (SandboxState.RUNNING, SandboxState.PAUSED):
                return
            state = await _threaded(self.engine.state, self.machine)
            if state in (State.STOPPED, State.LOST):
                log.warning("sandbox %s died: the engine says %s", self.record.id, state.value)
                self._set(SandboxState.STOPPED, stop_reason=f"it died ({state.value})", ended_ns=self._now_ns())
                self._detach("died")
                await _threaded(self.engine.remove, self.machine)

    def leave_running(self) -> None:
        """Let go of it without ending anything."""
        self._detach("the keeper ends")

    # -- inside ----------------------------------------------------------------------------------------------------

    async def _boot(self, how: Callable[..., None], *arguments: Any) -> None:
        self._set(SandboxState.STARTING, lost=None, stop_reason=None, ended_ns=0)
        try:
            for fifo in (self.machine.stdio.to_guest, self.machine.stdio.from_guest):
                fifo.unlink(missing_ok=True)
                os.mkfifo(fifo, 0o600)
            await _threaded(how, *arguments)
            link = await self._attach(_BOOT_SECONDS)
            await link.identity(
                self.record.generation, machine_id=self.machine.id, hostname=self.record.hostname, seed=os.urandom(32)
            )
        except BaseException as error:
            self._detach("did not start")
            await _threaded(self.engine.remove, self.machine)
            self._set(SandboxState.STOPPED, stop_reason="did not start", ended_ns=self._now_ns())
            if isinstance(error, OSError):
                raise StartFailed(why=str(error)) from error
            raise
        now = self._now_ns()
        lease = now + self.record.timeout_seconds * _SECOND if self.record.timeout_seconds else 0
        self.active_ns = now
        self._set(SandboxState.RUNNING, ready_ns=now, active_ns=now, lease_ns=lease, disk_kept=False)

    async def _resume(self, timeout_seconds: int | None = None) -> None:
        self._set(SandboxState.RESUMING)
        try:
            await _threaded(self.engine.resume, self.machine)
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
        self._set(SandboxState.RUNNING, active_ns=now, paused_ns=0, lease_ns=lease, timeout_seconds=seconds)

    async def _attach(self, limit: float = LIMIT) -> Link:
        if self._link is not None and not self._link.closed:
            return self._link
        link = Link(self.machine.stdio.to_guest, self.machine.stdio.from_guest)
        try:
            await link.attach(limit)
        except BaseException:
            link.close()
            raise
        self._link = link
        self._watch()
        return link

    def _watch(self) -> None:
        self._unwatch()
        descriptor = self.engine.watch(self.machine)
        if descriptor is not None:
            self._watched = descriptor
            asyncio.get_running_loop().add_reader(descriptor, self._ended)

    def _unwatch(self) -> None:
        if self._watched >= 0:
            asyncio.get_running_loop().remove_reader(self._watched)
            os.close(self._watched)
            self._watched = -1

    def _ended(self) -> None:
        self._unwatch()
        self._checking = asyncio.get_running_loop().create_task(self.check())

    def _detach(self, why: str) -> None:
        self._unwatch()
        if self._link is not None:
            self._link.close(why)
            self._link = None

    def _lose(self, why: str) -> None:
        log.warning("sandbox %s is lost: %s", self.record.id, why)
        self._set(SandboxState.STOPPED, lost=why, stop_reason="lost", ended_ns=self._now_ns())
        self._detach("lost")

    def _set(self, state: SandboxState, **changes: Any) -> None:
        self.record = self.record.with_state(state, **changes)
        self._registry.save(self.record)
        for future in self._waiting:
            if not future.done():
                future.set_result(None)


def _machine(record: SandboxRecord, folder: Path) -> Machine:
    spec = MachineSpec(
        base=Path(record.base.root),
        disk=DiskKind(record.disk),
        supervisor=Path(record.supervisor),
        vcpu=record.vcpu,
        memory_mib=record.memory_mib,
        disk_mib=record.disk_mib,
        hostname=record.hostname,
        masked=record.base.masked,
    )
    # The engine wants ids of one length, unique on this host: a UUID without its dashes.
    return Machine(record.id.replace("-", ""), folder, spec, Stdio(folder / "in", folder / "out"))


async def _threaded(function: Callable[..., T], *arguments: Any, **more: Any) -> T:
    """Run what blocks in a worker thread; once begun it is waited for, whoever gives up."""
    task = asyncio.ensure_future(asyncio.to_thread(function, *arguments, **more))
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task])
        raise
