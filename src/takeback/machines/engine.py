"""What a sandbox engine can do: the seam between the keeper and gVisor, a fake, or later a KVM engine.

All calls block and are made from the keeper's worker threads; none may last longer than its time limit. Every call that
fails leaves the machine it was about exactly as it was, or says in its error that it is lost. Two calls about one
machine must not overlap (the keeper holds a lock for each); calls about different machines may.

The process that uses an engine should be a child subreaper and reap orphans (`host.process.reap_orphans`).

Does not cover: talking to the supervisor (`channel`), names, records and life cycles (`keeper`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Protocol

Answers = Callable[[], bool]


class DiskKind(StrEnum):
    """Where a machine keeps its changed files; fixed when it is made."""

    LAYERS = "layers"  # an overlay of the host's: a copy freezes the upper folder
    MEMORY = "memory"  # the engine's own, saved with the memory


class State(StrEnum):
    """What an engine says of a machine."""

    CREATED = "created"  # prepared, nothing runs in it yet
    RUNNING = "running"
    PAUSED = "paused"
    STOPPED = "stopped"  # never started, or its processes ended or were killed
    LOST = "lost"  # what was recorded belongs to another boot or pid namespace, or cannot be read


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
    disk: str = ""  # changed files bounded by the host: the guest gets ENOSPC
    layers: str = ""  # machines of the disk kind LAYERS


@dataclass(frozen=True)
class MachineSpec:
    """All that decides what a machine is; a snapshot holds it, and restoring needs the same one.

    `memory_mib` and `disk_mib` in MiB (2**20), `vcpu` in whole processors.
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
    seen: tuple[str, ...] = ()  # of the base's top only these are seen, as /usr; empty: all
    shown: tuple[str, ...] = ()  # folders of the base that are seen wherever they lie
    live: bool = False  # others use and change the base: MEMORY only
    binds: tuple[tuple[Path, str, bool], ...] = ()  # host path, path inside, writable


@dataclass(frozen=True)
class Stdio:
    """The two FIFOs PID 1 talks through; both exist already, and stay its channel through `save`.

    The engine opens them anew for each start, or puts others in their place then: whoever talks to the machine opens
    them after it came up. The keeper opens its own ends: a description shared with the sandbox
    would be switched to non-blocking by it.
    """

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
    """What `save` wrote: `files` (names with sizes in bytes) and for how many seconds the source stood still.

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
class Strain:
    """What a machine has of what only its keeper bounds, all in bytes; a bound of 0: something else holds it to it.

    `disk` are its changed files on the host, `room` of `whole` is what is left of the filesystem they lie on, `written`
    what the machine ever made the kernel write, to be compared with what it was before.
    """

    memory: int = 0
    memory_bound: int = 0
    disk: int = 0
    disk_bound: int = 0
    room: int = 0
    whole: int = 0
    written: int = 0


@dataclass(frozen=True)
class EngineVersion:
    """Name and version of an engine, as snapshots record it, with how it runs programs (`systrap`, ...)."""

    name: str
    version: str
    platform: str = ""


class Engine(Protocol):
    """One way to run machines."""

    def version(self) -> EngineVersion:
        """Return what is used. Raises EngineFailed when it cannot be run."""

    def capabilities(self) -> Capabilities:
        """Return what works here."""

    def prepare(self, machine: Machine, saved: Saved | None = None) -> None:
        """Make a machine ready so that `start` or `restore` is quick, running nothing yet; they do it themselves else.

        Under LAYERS it is ready for `saved` (None: for `start`) only, under MEMORY for anything of the same spec.
        """

    def start(self, machine: Machine) -> None:
        """Boot a machine from its base. Raises EngineFailed, with nothing left behind."""

    def save(self, machine: Machine, into: Path, *, memory: bool = True, answers: Answers | None = None) -> Saved:
        """Write a snapshot into a new empty folder; the machine runs on (or stays paused if it was).

        The channel must be quiet (QUIET came) until this returns. An engine may have to replace the running machine by
        one restored from the snapshot (gVisor under LAYERS on a filesystem without snapshots): same FIFOs, same id.
        It then calls `answers`, from this thread and while the old one stands still: send PING or ATTACH with a fresh
        number, wait some seconds at most, and say whether PID 1 answered it. Only after True the old one is killed;
        else the replacement is, and the old one goes on. None: the engine's own word is taken.
        Raises CannotSave (the machine is unharmed, nothing is left in `into`), MachineGone.
        """

    def fork(self, machine: Machine, copies: Sequence[Machine], into: Path, *, answers: Answers | None = None) -> Saved:
        """Save a machine and bring up copies of it at the same time; each has its own FIFOs and the same spec.

        Quicker than `save` and then `restore` for each: copies are made beside the save, not after it. `into` is best
        one of `passing` when nobody wants it afterwards. As `save`; when anything fails, no copy is left. Each copy
        is proven only by its PID 1's answer.
        """

    def keep(self, machine: Machine, into: Path) -> Saved | None:
        """End a machine and keep its changed files: what `save` without memory writes, in a new empty folder.

        Nothing inside is asked, so it is also for one that has ended by itself, was killed, or ended with the boot it
        was started in. None when there are no files of it on the host (MEMORY, or it never ran); then nothing was done.
        `remove` is still to be called. Raises OSError or EngineFailed, with nothing in the folder that counts.
        """

    def restore(self, machine: Machine, saved: Saved) -> None:
        """Bring a machine up from a snapshot; its spec must equal the saved one's but for `hostname`.

        Of a snapshot without memory its size may be another too.

        Returns when the engine says it runs; only PID 1's answer proves it. All of the snapshot is checked before
        anything is started. Without memory (`Saved.memory`) the machine boots on the saved disk.
        Raises SnapshotDamaged, SnapshotMismatch, EngineFailed, with nothing left.
        """

    def pause(self, machine: Machine) -> None:
        """Stop every processor of the machine. Raises MachineGone."""

    def resume(self, machine: Machine) -> None:
        """Let a paused machine go on. Raises MachineGone."""

    def state(self, machine: Machine) -> State:
        """Return what is true now, checked against the recorded boot, pid namespace and process start times."""

    def watch(self, machine: Machine) -> int | None:
        """Return a descriptor that becomes readable when the machine's process ends, to be closed by the caller.

        None when there is none. After a `save` it may be another process: watch it anew.
        """

    def ended_because(self, machine: Machine) -> str:
        """Return why a machine's process is gone, as far as the host knows (else ""); to be asked before `remove`."""

    def usage(self, machine: Machine) -> Usage:
        """Return what it used; zeros when it does not run."""

    def strain(self, machine: Machine) -> Strain:
        """Return how near a running machine is to the bounds its keeper must hold it to; to be asked every second."""

    def cpu_seconds(self, machine: Machine) -> float:
        """Return the processor time it used since it was started here: as in `usage`, and in no time."""

    def layers(self, of: Machine | Saved, *, born: bool = False) -> tuple[Path, ...] | None:
        """Return the folders that hold its changed files as the kernel's overlay keeps them, lowest first.

        None when there are none on the host (MEMORY). With `born` those it had when it was started here, all frozen.
        """

    def stored(self, saved: Saved, known: Mapping[str, int]) -> dict[str, int]:
        """Return the frozen layers of a snapshot by name with their bytes on the disk; `known` need no counting."""

    def remove(self, machine: Machine) -> None:
        """Kill it, if it is ours, and remove all of it but `machine.folder` itself; to be repeated if it fails."""

    def passing(self, name: str, of: Machine | None = None) -> Path:
        """Make a folder for a snapshot that nobody wants after the copies are up, on tmpfs where there is one.

        With `of`, only where there is room for a snapshot of it. The caller removes it.
        """

    def saved(self, folder: Path) -> Saved:
        """Read back what `save` returned. Raises SnapshotDamaged."""

    def make_ahead(self) -> bool:
        """Make one part of a machine that is needed soon, judging by what was; True when it may be called for more.

        For when nothing else goes on: it takes of the processor what nobody else wants, where that can be arranged.
        Other calls may come meanwhile. What starts or restores a machine takes what fits exactly, or does without.
        """

    def drop_ahead(self) -> None:
        """Remove what was made ahead and not taken."""

    def sweep(self, known: Sequence[Machine], saved: Sequence[Path]) -> tuple[str, ...]:
        """Remove what earlier runs left behind and nobody knows; return what was removed, in words.

        To be called while no other call is going on; does nothing otherwise.
        `known` are all machines and `saved` the folders of all snapshots: what neither needs (disk layers) goes.
        """
