"""What every sandbox uses: CPU seconds, memory reserved while it runs, and its snapshots' bytes x time.

    DATA/machines/meter.json      written once a minute and at the end, so that a killed keeper loses no more than that

Memory counts while a sandbox runs, by the second. A disk layer that several snapshots share counts for the oldest of
them. What is sent and received counts between the broker and the outside, not over forwarded ports. Does not cover:
prices (`machines.cost`), kept disks of stopped sandboxes.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Iterable
from dataclasses import astuple, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from takeback.host import atomic
from takeback.machines.cost import Used
from takeback.machines.keeper.machine import Life
from takeback.machines.keeper.server import Call, Operation
from takeback.machines.model import SnapshotRecord

if TYPE_CHECKING:
    from takeback.machines.keeper.keeper import Keeper

log = logging.getLogger("takeback.keeper")

FORMAT = 1
_READ_EVERY = 10.0  # seconds between two readings of processors and snapshots
_WRITE_EVERY = 60.0
_YEAR = 366 * 86_400.0
_KEPT = 2000


@dataclass(frozen=True)
class _Count:
    """One sandbox: `machine` and `cpu_s` are whose processor time was read last, and what it was."""

    used: Used = field(default_factory=Used)
    machine: str = ""
    cpu_s: float = 0.0


class Meter:
    """Counts for all sandboxes of a keeper, also for deleted ones."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._counts: dict[str, _Count] = {}
        self._gap = 0.0  # seconds without a keeper, still to be counted
        self._at = self._read_at = self._written = time.monotonic()

    def load(self, now_ns: int) -> None:
        """Go on from what an earlier keeper wrote."""
        try:
            document = json.loads(self._path.read_bytes())
            if document["format"] != FORMAT:
                raise ValueError(f"format {document['format']}")
            for id, (*used, machine, cpu_s) in document["sandboxes"].items():
                self._counts[id] = _Count(Used(*used), machine, cpu_s)
            self._gap = min(max(0.0, (now_ns - document["at_ns"]) / 1e9), _YEAR)
        except FileNotFoundError:
            pass
        except (OSError, ValueError, KeyError, TypeError) as error:
            log.error("%s cannot be read, and counting begins anew: %s", self._path, error)

    def tick(self, keeper: Keeper) -> None:
        """Count the time since the last tick; read processors and snapshots, and write, when it is time to."""
        now = time.monotonic()
        seconds, self._at = now - self._at, now
        gap, self._gap = self._gap, 0.0
        for life in keeper.lives():
            if life.runs:
                # Before this keeper nobody could have paused it; one it does not know began since.
                known = gap if life.record.id in self._counts else 0.0
                self._add(life.record.id, memory_byte_s=(seconds + known) * (life.record.memory_mib << 20))
        if gap or now - self._read_at >= _READ_EVERY:
            since, self._read_at = now - self._read_at, now
            for life in keeper.lives():
                self.read(life)
            for record, size in metered(keeper.snapshots.all()):
                self._add(record.sandbox.id, stored_byte_s=(since + gap) * size)
        if now - self._written >= _WRITE_EVERY:
            self.write(keeper)

    def read(self, life: Life) -> None:
        """Read the processor time of one sandbox, and what it sent and received."""
        sent, received = life.network.traffic.take()
        if sent or received:
            self._add(life.record.id, sent=sent, received=received)
        if not life.runs:
            return
        cpu_s = life.engine.cpu_seconds(life.machine)
        count = self._counts.get(life.record.id, _Count())
        before = count.cpu_s if count.machine == life.machine.id else 0.0
        if cpu_s > before:
            self._add(life.record.id, cpu_s=cpu_s - before)
            count = self._counts[life.record.id]
            self._counts[life.record.id] = replace(count, machine=life.machine.id, cpu_s=cpu_s)

    def used(self, sandbox_id: str) -> Used | None:
        """Return what a sandbox used as far as was counted, None for one that was never seen."""
        count = self._counts.get(sandbox_id)
        return count.used if count is not None else None

    def write(self, keeper: Keeper) -> None:
        """Write the counts down, without the oldest of the deleted ones when they are too many."""
        self._written = time.monotonic()
        if len(self._counts) > _KEPT:
            wanted = {life.record.id for life in keeper.lives()}
            wanted |= {record.sandbox.id for record in keeper.snapshots.all()}
            gone = [id for id in self._counts if id not in wanted]
            for id in gone[: len(self._counts) - _KEPT]:
                del self._counts[id]
        sandboxes = {id: (*astuple(one.used), one.machine, one.cpu_s) for id, one in self._counts.items()}
        document = {"format": FORMAT, "at_ns": keeper.now_ns(), "sandboxes": sandboxes}
        try:
            atomic.write_bytes(self._path, json.dumps(document).encode(), durable=False)
        except OSError as error:
            log.warning("%s cannot be written: %s", self._path, error)

    def _add(self, sandbox_id: str, **amounts: float) -> None:
        count = self._counts.get(sandbox_id, _Count())
        self._counts[sandbox_id] = replace(count, used=count.used + Used(**amounts))  # type: ignore[arg-type]


def metered(snapshots: Iterable[SnapshotRecord]) -> list[tuple[SnapshotRecord, int]]:
    """Return each snapshot with the bytes that count for it: a layer for the oldest that has it."""
    seen: set[str] = set()
    found = []
    for record in sorted(snapshots, key=lambda one: one.created_ns):
        own = sum(size for name, size in record.layers.items() if name not in seen)
        seen |= record.layers.keys()
        found.append((record, record.file_bytes + own))
    return found


def stored_bytes(snapshots: Iterable[SnapshotRecord]) -> int:
    """Return what all snapshots hold on the disk."""
    return sum(size for _, size in metered(snapshots))


async def used(call: Call) -> dict[str, Any]:
    """Return what a sandbox used until now, or until it was deleted. Raises SandboxNotFound."""
    keeper, id = call.keeper, str(call.request["sandbox"])
    keeper.meter.tick(keeper)
    for life in keeper.lives():
        if life.record.id == id:
            keeper.meter.read(life)
    found = keeper.meter.used(id)
    if found is None:
        keeper.find(id)
        found = Used()
    return {
        "sandboxId": id,
        "cpuSeconds": found.cpu_s,
        "memoryByteSeconds": found.memory_byte_s,
        "storedByteSeconds": found.stored_byte_s,
        "sentBytes": found.sent,
        "receivedBytes": found.received,
    }


OPERATIONS = {"used": Operation(used)}
