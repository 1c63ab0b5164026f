"""How far machines are into what the kernel does not bound, found out cheaply enough to be asked every second.

Counting a folder of changed files takes as long as it has files. So it is counted anew only when what the machine's
processes wrote since, which the kernel counts, could have brought it over its bound, or when half a minute is over.
Nothing a guest does makes its disk larger without a write, but reserving room (fallocate): that shows in the room left
on the filesystem.

Does not cover: what happens to a machine that is over a bound (the keeper).
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass

from takeback.machines.engine import DiskKind, MachineSpec, Strain
from takeback.machines.engines.gvisor import containers, limits, room
from takeback.machines.engines.gvisor.checks import Container
from takeback.machines.engines.gvisor.disk import Disks

_AGAIN = 30.0
_LONG, _SHARE = 0.05, 5  # counting that takes longer than this many seconds may take one fifth of the time
_OTHERS = 64 << 20  # of the filesystem's room others may have taken since, unnoticed


@dataclass(frozen=True)
class _Counted:
    """What a disk held when it was counted, with what its processes had written and what was free then."""

    size: int
    written: int
    free: int
    at: float
    took: float


class Growth:
    """The disks of all machines, by the name of the layer that each writes to."""

    def __init__(self, disks: Disks) -> None:
        self._disks = disks
        # The kernel counts what it is to write to a device; of memory it counts what was asked of it.
        self._field = "wchar:" if room.on_tmpfs(disks.folder) else "write_bytes:"
        self._counted: dict[str, _Counted] = {}

    def strain(self, spec: MachineSpec, container: Container) -> Strain:
        """Return what a running container has of what only its keeper bounds."""
        memory = bound = 0
        if not limits.bounds_memory(container.groups):
            memory, bound = containers.memory_file(container), spec.memory_mib << 20
        if spec.disk is not DiskKind.LAYERS:
            return Strain(memory, bound)
        written = _written([one.pid for one in container.processes()], self._field)
        free, whole = _room(os.fspath(self._disks.folder))
        most = spec.disk_mib << 20
        disk = self._disk(container.upper, written, free, most)
        return Strain(memory, bound, disk, most, free, whole, written)

    def forget(self, known: set[str]) -> None:
        """Drop what is remembered of all layers but these."""
        for name in self._counted.keys() - known:
            self._counted.pop(name, None)

    def _disk(self, upper: str, written: int, free: int, most: int) -> int:
        now = time.monotonic()
        before = self._counted.get(upper)
        if before is not None:
            since = now - before.at
            grown = max(written - before.written, before.free - free - _OTHERS, 0)
            if (before.took > _LONG and since < before.took * _SHARE) or (
                before.size + grown <= most and since < _AGAIN
            ):
                return before.size
        size = self._disks.used(upper)
        self._counted[upper] = _Counted(size, written, free, now, time.monotonic() - now)
        return size


def _written(pids: Sequence[int], field: str) -> int:
    """Return the bytes that processes made the kernel write, 0 where it does not say. Source: proc(5), /proc/PID/io."""
    total = 0
    for pid in pids:
        try:
            with open(f"/proc/{pid}/io") as file:
                total += sum(int(line.split()[1]) for line in file if line.startswith(field))
        except (OSError, ValueError):
            continue
    return total


def _room(folder: str) -> tuple[int, int]:
    disk = os.statvfs(folder)
    return disk.f_bavail * disk.f_frsize, disk.f_blocks * disk.f_frsize
