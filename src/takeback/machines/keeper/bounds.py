"""Hold sandboxes to the bounds that nothing else holds them to: memory without control groups, and the host's disk.

    over its memory          it ends, alone, and its record says so: as the kernel would have it
    over its disk            paused, nothing lost; calls are refused until somebody wakes it, to remove some files
    the host's disk is full  whoever goes on to write much is paused, before the last of it is gone

A watch, not a wall: between two looks a sandbox may pass its bound by what it can write meanwhile. So the time to the
next look is what the nearest bound is away at the rate that a fast machine can write at, a second at most.

Does not cover: bounds that the kernel holds (`engines.gvisor.limits`).
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

from takeback.errors import TakebackError
from takeback.machines.engine import Strain
from takeback.machines.keeper.machine import Life, threaded

if TYPE_CHECKING:
    from takeback.machines.keeper.keeper import Keeper

log = logging.getLogger("takeback.keeper")

_CALM, _CLOSE = 1.0, 0.02
_MEMORY_CLOSE = 0.1  # passing a bound of memory by more harms nobody
_IDLE = 0.1  # at least, for one that writes nothing
_RATE = 4 << 30  # bytes a second; 1.6 GB/s were measured
_FLOOR, _FLOOR_SHARE = 512 << 20, 10  # of the host's disk stays free: so much, or a tenth of a small one
_LITTLE = 8  # and a sandbox may write an eighth of that, should others have taken the rest
_MIB = 1 << 20
_MORE = 8  # one that was woken over its bound may grow by an eighth of it, to be put in order


async def watch(keeper: Keeper) -> None:
    """Look at all running sandboxes, for ever."""
    spent: dict[str, Spent] = {}
    while True:
        pause = _CALM
        keeper.began.clear()
        for life in keeper.lives():
            if life.runs and not life.locked:
                try:
                    pause = min(pause, await _look(life, spent.setdefault(life.record.id, Spent())))
                except TakebackError as error:
                    log.warning("sandbox %s: %s", life.record.id, error)
                except Exception:  # the others are looked at all the same
                    log.exception("sandbox %s cannot be watched", life.record.id)
        try:
            await asyncio.wait_for(keeper.began.wait(), pause)
        except TimeoutError:
            pass


@dataclass
class Spent:
    """What a sandbox wrote since the last look, and while the host's disk was nearly full, in bytes."""

    since: int = 0
    in_need: int = 0
    _written: int | None = None

    def add(self, strain: Strain) -> None:
        """Take what it had written by now."""
        before = strain.written if self._written is None else self._written
        self.since, self._written = max(strain.written - before, 0), strain.written
        self.in_need = self.in_need + self.since if strain.room < floor(strain) else 0


async def _look(life: Life, spent: Spent) -> float:
    """Do what a sandbox's strain asks for, and return the seconds until the next look."""
    machine = life.machine
    strain = await threaded(life.engine.strain, machine)
    if life.machine is not machine or not life.runs:
        return _CLOSE  # it was replaced meanwhile
    why = over_memory(strain)
    if why:
        await life.end(why, machine)
        return _CALM
    spent.add(strain)
    why = over_disk(strain, life.disk_allowed) or over_room(strain, spent.in_need)
    if why:
        spent.in_need = 0
        allowed = strain.disk + strain.disk_bound // _MORE
        await life.hold(why, allowed, machine)
        return _CALM
    return until_next(strain) if spent.since else max(until_next(strain), _IDLE)


def over_memory(strain: Strain) -> str:
    """Return why a sandbox must end, or an empty text."""
    if strain.memory_bound and strain.memory > strain.memory_bound:
        return f"it needed more than its {strain.memory_bound // _MIB} MiB of memory"
    return ""


def over_disk(strain: Strain, allowed: int) -> str:
    """Return why a sandbox must stop writing, or an empty text; `allowed` is what it may have for now if more."""
    if strain.disk_bound and strain.disk > max(strain.disk_bound, allowed):
        return f"its changed files are {strain.disk // _MIB} MiB, its disk is {strain.disk_bound // _MIB} MiB"
    return ""


def over_room(strain: Strain, spent: int) -> str:
    """Return why a sandbox that wrote so many bytes while there was little room must stop, or an empty text."""
    if strain.disk_bound and strain.room < floor(strain) and spent > floor(strain) // _LITTLE:
        return f"it writes, and the disk of the host has {strain.room // _MIB} MiB left"
    return ""


def until_next(strain: Strain) -> float:
    """Return the seconds in which no bound can be passed by more than a little."""
    seconds = [_CALM]
    if strain.memory_bound:
        seconds.append(max((strain.memory_bound - strain.memory) / _RATE, _MEMORY_CLOSE))
    if strain.disk_bound:
        left = min(strain.disk_bound - strain.disk, strain.room - floor(strain))
        seconds.append(max(left / _RATE, _CLOSE))
    return min(seconds)


def floor(strain: Strain) -> int:
    """Return the bytes of the host's disk that no sandbox may take."""
    return min(_FLOOR, strain.whole // _FLOOR_SHARE)
