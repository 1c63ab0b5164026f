"""The keeper itself: all sandboxes of one data directory, the engines they run on, and when it ends.

Does not cover: connections (`server`), operations (`sandboxes`, ...), the clock (`idle`).
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine, Iterable, Mapping
from typing import Any

from takeback.errors import NameTaken, SandboxNotFound, SandboxReplaced, TakebackError
from takeback.host import process
from takeback.machines.engine import Engine
from takeback.machines.keeper import batches, networks, programs, trials
from takeback.machines.keeper.machine import Life
from takeback.machines.keeper.meter import Meter
from takeback.machines.keeper.previews import Previews
from takeback.machines.keeper.registry import Registry
from takeback.machines.keeper.snapshots import Snapshots
from takeback.machines.layout import MachinesDir
from takeback.machines.model import SandboxRecord, SandboxState
from takeback.machines.network.outside import Upstream
from takeback.machines.network.rules import Rules

log = logging.getLogger("takeback.keeper")

IDLE_SECONDS = 30.0
_DELETED_KEPT = 1000

MakeEngine = Callable[[str, MachinesDir], Engine]


class Keeper:
    """Looks after every sandbox; lives in one event loop."""

    def __init__(
        self,
        directory: MachinesDir,
        make_engine: MakeEngine,
        *,
        idle_seconds: float = IDLE_SECONDS,
        upstream: Upstream | None = None,
    ) -> None:
        self.directory = directory
        self.registry = Registry(directory)
        self.snapshots = Snapshots(directory)
        self.meter = Meter(directory.root / "meter.json")
        self.previews = Previews()
        self.over = asyncio.Event()
        self.began = asyncio.Event()  # some sandbox runs, or does so again
        self.in_use: Callable[[], bool] = lambda: False
        self._make_engine = make_engine
        self._upstream = upstream
        self._engines: dict[str, Engine] = {}
        self._lives: dict[str, Life] = {}
        self._deleted: dict[str, dict[str, Any]] = {}
        self._names: set[str] = set()
        self._background: set[asyncio.Task[Any]] = set()
        self._idle_seconds = idle_seconds
        self._whole = True
        self._unswept = False
        self._used = self._called = time.monotonic()
        self.called = asyncio.Event()  # somebody asked something; cleared by whoever waits for it

    @staticmethod
    def now_ns() -> int:
        return time.time_ns()

    def engines(self) -> list[Engine]:
        """Return the engines that were used so far."""
        return list(self._engines.values())

    # -- sandboxes -------------------------------------------------------------------------------------------------

    def lives(self) -> list[Life]:
        return list(self._lives.values())

    def find(self, sandbox_id: object) -> Life:
        """Return a sandbox by its id. Raises SandboxNotFound."""
        life = self._lives.get(str(sandbox_id))
        if life is None or life.deleted:
            for heir in self.lives():
                if sandbox_id in heir.record.replaced:
                    raise SandboxReplaced(id=str(sandbox_id), heir=heir.record.name or heir.record.id)
            raise SandboxNotFound(id=str(sandbox_id))
        return life

    def named(self, name: str) -> Life | None:
        """Return the sandbox with that name that is alive: it runs, is paused, or its disk is kept."""
        for life in self._lives.values():
            if life.record.name == name and life.record.alive and not life.deleted:
                return life
        return None

    def take_name(self, name: str | None, *, besides: Life | None = None) -> None:
        """See that a name is free. Raises NameTaken."""
        holder = self.named(name) if name is not None else None
        if holder is not None and holder is not besides:
            raise NameTaken(name=name, sandboxId=holder.record.id)

    def engine(self, name: str) -> Engine:
        """Return an engine by its name. Raises Unsupported, EngineMissing, EngineTooOld."""
        if name not in self._engines:
            self._engines[name] = self._make_engine(name, self.directory)
        return self._engines[name]

    def new(self, record: SandboxRecord) -> Life:
        """Enter a sandbox that is to be started; its name is its own from now on. Raises NameTaken."""
        self.take_name(record.name)
        self.registry.add(record)
        life = self._life(record, networks.rules(record.network))
        self._lives[record.id] = life
        return life

    def _life(self, record: SandboxRecord, rules: Rules | None = None) -> Life:
        """Return a sandbox with its network: of new `rules`, or those it has."""
        folder = self.registry.folder(record.id)

        def step() -> str:
            found = self._lives.get(record.id)
            return programs.step_of(found.commands()) if found is not None else ""

        network = networks.of(record.id, folder, rules, self._upstream, step)
        life = Life(record, self.engine(record.engine), self.registry, self.now_ns, network)
        life.began = self.began
        return life

    async def discard(self, life: Life) -> dict[str, Any]:
        """Delete a sandbox and return what is said of it from now on; the slow part happens afterwards."""
        self.meter.read(life)
        noted = await life.delete()
        await self.previews.close(life)
        answer = {**life.record.info(), "status": "deleted", "deletedAt": life.record.info()["endedAt"]}
        self._deleted[life.record.id] = answer
        while len(self._deleted) > _DELETED_KEPT:
            del self._deleted[next(iter(self._deleted))]
        if noted:
            self.background(self._clean(life))
        else:  # what is deleted makes room, so a full disk must not keep it; only when it is gone it stays gone
            await self._clean(life)
        return answer

    def deleted(self, sandbox_id: object) -> dict[str, Any] | None:
        """Return what was said when a sandbox was deleted, so that doing it again is no error."""
        return self._deleted.get(str(sandbox_id))

    async def _clean(self, life: Life) -> None:
        try:
            await life.clean()
        finally:
            self._lives.pop(life.record.id, None)
            self.sweep_soon()

    async def recover(self) -> None:
        """Find again what an earlier keeper looked after, and finish what it was removing."""
        found: list[Life] = []
        whole = True
        self.snapshots.load()
        self.meter.load(self.now_ns())
        for one in self.registry.all():
            spoiled = self.registry.is_spoiled(one.id)
            if spoiled:
                log.error("sandbox %s: %s", one.id, one.lost)
            try:
                life = self._life(one)
            except TakebackError as error:
                log.error("sandbox %s: %s", one.id, error)
                whole = False
                continue
            self._lives[one.id] = life
            if not spoiled:  # nobody knows what it is, so it is left alone
                found.append(life)
        cut = await self._recover_forks(found)
        await asyncio.gather(*(self._recover(life) for life in found if life not in cut))
        await trials.recover(self)
        self._whole = self._whole and whole
        if self.directory.engine_state.is_dir():
            self._sweep()

    def sweep_soon(self) -> None:
        """Remove what nobody needs any more as soon as nothing is going on."""
        self._unswept = True

    def sweep_if_quiet(self) -> None:
        if self._unswept and not (self._background or self.in_use() or any(life.locked for life in self.lives())):
            self._unswept = False
            self._sweep()

    def _sweep(self) -> None:
        """Remove what a killed keeper left half done, and disk layers nobody needs any more.

        Only when every sandbox has its engine. In the event loop itself, so that nothing begins meanwhile that it would
        not know of.
        """
        if not self._whole:
            return
        needed = [life.needs() for life in self.lives()]
        machines = [one for machines, _ in needed for one in machines]
        saved = [one for _, kept in needed for one in kept] + self.snapshots.folders()
        try:
            removed = self.engine("gvisor").sweep(machines, saved)
        except (TakebackError, OSError) as error:
            log.warning("nothing could be swept: %s", error)
            return
        if removed:
            log.info("removed what was left behind: %s", ", ".join(removed))

    async def _recover_forks(self, found: list[Life]) -> list[Life]:
        """Remove the copies of forks that a killed keeper was making, before anything is swept; return them."""
        begun = batches.cut(self.directory)
        cut = [life for life in found if any(life.record.id in ids for ids in begun.values())]
        for life in cut:
            log.warning("sandbox %s is removed: the fork that made it was cut", life.record.id)
            life.change(stop_reason="deleted")
            life.deleted = True
        for path in begun:
            batches.end(path)
        for error in await asyncio.gather(*(self._clean(life) for life in cut), return_exceptions=True):
            if error is not None:
                log.error("what a fork left cannot be removed yet: %s", error)
        return cut

    async def _recover(self, life: Life) -> None:
        if life.record.stop_reason == "deleted":
            life.deleted = True
            self.background(self._clean(life))
            return
        try:
            await life.adopt()
            await self.previews.resume(life)
        except Exception:  # of this one only: the others can be used
            log.exception("sandbox %s cannot be looked after", life.record.id)
            self._whole = False

    # -- its own life ----------------------------------------------------------------------------------------------

    def alive(self) -> int:
        """How many sandboxes there are to keep: running, paused, or on the way to or from that."""
        return sum(life.record.state != SandboxState.STOPPED for life in self._lives.values())

    def was_used(self) -> None:
        self._used = self._called = time.monotonic()
        self.called.set()

    def quiet_for(self) -> float:
        """Return for how many seconds nobody has begun or ended a call and nothing else went on, 0.0 while it does."""
        if self._background or any(life.locked for life in self.lives()):
            return 0.0
        return time.monotonic() - self._called

    def background(self, work: Coroutine[Any, Any, Any]) -> None:
        """Do something that nobody waits for; the keeper does not end before it."""
        task = asyncio.get_running_loop().create_task(work)
        self._background.add(task)
        task.add_done_callback(self._finished)

    def _finished(self, task: asyncio.Task[Any]) -> None:
        self._background.discard(task)
        if not task.cancelled() and task.exception() is not None:
            log.error("in the background", exc_info=task.exception())

    def end_if_idle(self) -> None:
        """End when nothing has run and nobody has asked for a while."""
        if self.alive() or self._background or self.in_use():
            self._used = time.monotonic()
        elif time.monotonic() - self._used >= self._idle_seconds:
            self.end("idle")

    def end(self, why: str) -> None:
        """End soon, leaving what runs running."""
        log.info("ending: %s", why)
        self.over.set()

    async def settle(self) -> None:
        """Wait for what was begun, and let go of what runs."""
        if self._background:
            await asyncio.wait(self._background, timeout=10)
        for life in self.lives():  # what is deleted meanwhile leaves `_lives`
            await self.previews.close(life)
            await life.leave_running()
        for engine in self.engines():
            await asyncio.to_thread(engine.drop_ahead)
        self.sweep_if_quiet()
        self.meter.write(self)

    def reap(self) -> None:
        process.reap_orphans()


def select(
    lives: Iterable[Life], states: list[str], stopped: bool, labels: Mapping[str, str], name: str | None
) -> list[Life]:
    """Return the sandboxes that fit, newest first; with no states named, stopped ones only if their disk is kept."""
    found = []
    for life in lives:
        record = life.record
        if life.deleted or (name is not None and record.name != name):
            continue
        if states and record.state not in states and not (stopped and record.state == SandboxState.STOPPED):
            continue
        # One that is lost with its record is no news that may be missed.
        if not states and not stopped and not (record.alive or life.spoiled):
            continue
        if all(record.labels.get(key) == value for key, value in labels.items()):
            found.append(life)
    return sorted(found, key=lambda life: -life.record.created_ns)
