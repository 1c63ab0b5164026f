"""What a sandbox engine can do: the seam between the keeper and gVisor, a fake, or later a KVM engine.

All calls block and are made from the keeper's worker threads; none may last longer than its time limit. Every call that
fails leaves the machine it was about exactly as it was, or says in its error that it is lost.

Does not cover: talking to the supervisor (`channel`), names, records and life cycles (`keeper`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Protocol


class DiskKind(StrEnum):
    """Where a machine keeps its changed files; fixed when it is made."""

    LAYERS = "layers"  # an overlay of the host's: a copy freezes the upper folder
    MEMORY = "memory"  # the engine's own, saved with the memory


class State(StrEnum):
    """What an engine says of a machine."""

    CREATED = "created"
    RUNNING = "running"
    PAUSED = "paused"
    STOPPED = "stopped"
    LOST = "lost"  # its processes are gone, or are not the ones that were recorded


@dataclass(frozen=True)
class Capabilities:
    """What an engine does here, and why not where it does not (empty text: it does)."""

    memory_snapshot: str = ""
    disk_snapshot: str = ""
    fork: str = ""
    restore_in_place: str = ""
    network_rules: str = ""
    ordinary_user: str = ""
    limits: str = ""  # memory, CPU and pids bounded by the host


@dataclass(frozen=True)
class MachineSpec:
    """All that decides what a machine is; a snapshot holds it, and restoring needs the same one.

    `memory_mib` and `disk_mib` in MiB (2**20), `vcpu` in whole processors. `mounts` are read-only binds.
    """

    base: Path  # the image's read-only root folder
    disk: DiskKind
    supervisor: Path  # folder seen inside as /.takeback, holding `init`
    vcpu: int = 2
    memory_mib: int = 4096
    disk_mib: int = 4096
    hostname: str = "sandbox"
    max_processes: int = 1024
    tmpfs: tuple[str, ...] = ("/tmp", "/var/tmp", "/run", "/dev/shm")
    masked: tuple[str, ...] = ()  # paths hidden inside (image `host`)
    binds: tuple[tuple[Path, str, bool], ...] = ()  # host path, path inside, writable


@dataclass(frozen=True)
class Stdio:
    """The two FIFOs PID 1 talks through; both exist already."""

    to_guest: Path
    from_guest: Path


@dataclass(frozen=True)
class Machine:
    """One machine an engine runs: `id` is of one fixed length and unique on this host, `folder` is its own."""

    id: str
    folder: Path
    spec: MachineSpec
    stdio: Stdio


@dataclass(frozen=True)
class Saved:
    """What `save` wrote: `files` (names in the folder with their sizes in bytes) and the seconds the source stood still.

    `layers` are the frozen disk layers, lowest first (LAYERS only): read-only from now on, shared by copies.
    """

    folder: Path
    memory: bool
    engine: str
    files: tuple[tuple[str, int], ...]
    paused_s: float
    layers: tuple[Path, ...] = ()


@dataclass(frozen=True)
class Usage:
    """What a machine used: CPU seconds since it was started here, memory and changed files in bytes."""

    cpu_s: float
    memory: int
    disk: int
    processes: int = 0


@dataclass(frozen=True)
class EngineVersion:
    """Name and version of an engine, as snapshots record it, with how it runs programs (`systrap`, ...)."""

    name: str
    version: str
    platform: str = ""
    notes: tuple[str, ...] = field(default=())


class Engine(Protocol):
    """One way to run machines."""

    def version(self) -> EngineVersion:
        """Return what is used. Raises EngineMissing, EngineTooOld."""

    def capabilities(self) -> Capabilities:
        """Return what works here."""

    def prepare(self, machine: Machine) -> None:
        """Make a machine ready to be started or restored into, running nothing yet; `start` and `restore` do it else.

        Under LAYERS what it is prepared for is fixed: `layers` of a later restore must be given to `prepare_for`.
        """

    def start(self, machine: Machine) -> None:
        """Boot a machine from its base. Raises EngineFailed, with nothing left behind."""

    def save(self, machine: Machine, into: Path, *, memory: bool = True) -> Saved:
        """Write a snapshot into a new empty folder; the machine runs on (or stays paused if it was).

        The channel must be quiet. Raises CannotSave (the machine is unharmed, nothing is left in `into`).
        """

    def restore(self, machine: Machine, saved: Saved) -> None:
        """Bring a machine up from a snapshot; its spec must equal the saved one's but for `hostname`.

        Returns when the engine says it runs; only PID 1's answer proves it. Raises EngineFailed with nothing left.
        """

    def pause(self, machine: Machine) -> None: ...

    def resume(self, machine: Machine) -> None: ...

    def state(self, machine: Machine) -> State:
        """Return what is true now, checked against the recorded boot, pid namespace and process start times."""

    def usage(self, machine: Machine) -> Usage: ...

    def remove(self, machine: Machine) -> None:
        """Kill it, if it is ours, and remove all of it but `machine.folder` itself. Never fails half way: repeatable."""

    def sweep(self, known: Sequence[Machine]) -> tuple[str, ...]:
        """Remove what earlier runs left behind and nobody knows; return what was removed, in words."""
