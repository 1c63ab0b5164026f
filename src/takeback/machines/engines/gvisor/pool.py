"""Containers made ahead of time: `create` is two thirds of a start or a restore, and waits for nothing but a spec.

    DATA/machines/pool/ID/{in,out,engine.json,config.json,...}    the bundle of one, with FIFOs of its own

An entry fits a machine of exactly its spec, base folder, supervisor, engine version and platform: this build of the
engine does not check what it restores into. Its limits are those of the spec, set when it is made. Whoever takes it
notes it as the machine's own before anything of it moves; from then on the bundle is where it was, and the FIFOs are
where the machine has them. Under LAYERS it has no disk until then (`containers.give_disk`).

What was needed the last two times is made again: two entries at most, each some 15 MB of memory.

Does not cover: when there is time for that (the keeper), what is done when an entry fails (`engine`).
"""

from __future__ import annotations

import logging
import os
import threading
from collections import deque
from dataclasses import dataclass
from pathlib import Path

from takeback.errors import EngineFailed
from takeback.machines.engine import DiskKind, Machine, MachineSpec, Stdio
from takeback.machines.engines.gvisor import checks, limits, room, spec, view
from takeback.machines.engines.gvisor.checks import Container, Phase
from takeback.machines.engines.gvisor.containers import Containers

log = logging.getLogger("takeback.keeper")

_MOST = 2
_INIT = os.path.basename(spec.INIT)
_MEMORY_LEFT = 512 << 20  # bytes that must be available, else there is no pool


@dataclass(frozen=True)
class Need:
    """All that must be equal: what a machine is, what it is driven by, and which files that means today."""

    spec: MachineSpec
    version: str
    platform: str
    files: tuple[tuple[int, int, int], ...]  # device, inode and time of change of base and supervisor


@dataclass(frozen=True)
class Entry:
    """One container that nobody has yet."""

    need: Need
    container: Container


class Pool:
    """The entries of one engine; safe to be used by several threads."""

    def __init__(self, folder: Path, made: Containers) -> None:
        self._folder = folder
        self._containers = made
        self._entries: list[Entry] = []
        self._making: set[str] = set()
        self._needed: deque[Need] = deque(maxlen=_MOST)
        self._lock = threading.Lock()

    def take(self, wanted: MachineSpec, platform: str) -> Container | None:
        """Return a container that fits, which is then the caller's, and remember what was needed; None without one."""
        need = self._need(wanted, platform)
        if need is None:
            return None
        with self._lock:
            self._needed.append(need)
            while (found := next((entry for entry in self._entries if entry.need == need), None)) is not None:
                self._entries.remove(found)
                if _whole(found.container):
                    return found.container
                self._remove(found.container)
        return None

    def hand_over(self, container: Container, stdio: Stdio) -> None:
        """Let a container that was taken be the machine's: its FIFOs, and a whole share of the processor.

        Raises OSError.
        """
        for own, place in zip(_stdio(Path(container.bundle)), (stdio.to_guest, stdio.from_guest), strict=True):
            os.rename(own, place)
        limits.step_up(container.groups)

    def has_made(self, container: Container) -> bool:
        """Whether a container, whoever has it now, comes from here."""
        return Path(container.bundle).parent == self._folder

    def make(self) -> bool:
        """Make one entry that is wanted, drop those that are not; True when it may be called again for more."""
        with self._lock:
            wanted = self._wanted()
            for entry in list(self._entries):
                if entry.need in wanted and _whole(entry.container):
                    wanted.remove(entry.need)
                else:
                    self._entries.remove(entry)
                    self._remove(entry.container)
            if not wanted:
                return False
            need = wanted[0]
            container = self._containers.fresh(need.spec, need.platform, self._folder)
            self._making.add(container.id)
        try:
            made = self._create(need.spec, container)
            with self._lock:
                self._entries.append(Entry(need, made))
        except (EngineFailed, OSError) as error:
            log.warning("nothing could be made ahead: %s", error)
            self._remove(container)
            return False
        finally:
            with self._lock:
                self._making.discard(container.id)
        return len(wanted) > 1

    def drop(self) -> None:
        """Remove all entries, and forget what was needed."""
        with self._lock:
            self._needed.clear()
            for entry in self._entries:
                self._remove(entry.container)
            self._entries.clear()

    def ids(self) -> set[str]:
        """Return the containers that are here or being made."""
        with self._lock:
            return {entry.container.id for entry in self._entries} | self._making

    def sweep(self, wanted: set[str]) -> list[str]:
        """Remove what a killed keeper left, but the containers of `wanted`, and return their names."""
        try:
            names = sorted(os.listdir(self._folder))
        except FileNotFoundError:
            return []
        removed = []
        for name in names:
            if name in wanted or name in self.ids() or not (self._folder / name).is_dir():
                continue
            try:
                record = checks.read(self._folder / name)
            except ValueError:
                record = None
            found = None if record is None else record.current
            # Without a record its processes are found by their arguments, where they are.
            here = record is None or record.here()
            if self._containers.clear(found or _unknown(self._folder / name), here=here):
                removed.append(name)
        return removed

    def _wanted(self) -> list[Need]:
        if room.available() < _MEMORY_LEFT:
            return []
        today = [need for need in self._needed if self._need(need.spec, need.platform) == need]
        return [today[-1], today[0]] if today else []

    def _need(self, wanted: MachineSpec, platform: str) -> Need | None:
        """Return what a machine needs, None when none is made ahead for it: what it sees of a base may change."""
        if wanted.live or wanted.binds or wanted.masked or wanted.seen or wanted.shown:
            return None
        if not self._containers.late() if wanted.disk is DiskKind.LAYERS else view.needed(wanted):
            return None
        try:
            found = [os.stat(path) for path in (wanted.base, wanted.supervisor, wanted.supervisor / _INIT)]
        except OSError:
            return None
        files = tuple((one.st_dev, one.st_ino, one.st_mtime_ns) for one in found)
        return Need(wanted, self._containers.version(), platform, files)

    def _create(self, wanted: MachineSpec, container: Container) -> Container:
        bundle = Path(container.bundle)
        bundle.mkdir(mode=0o700, parents=True)
        stdio = _stdio(bundle)
        for fifo in stdio:
            os.mkfifo(fifo, 0o600)

        def note(made: Container) -> None:
            checks.write(bundle, checks.new_record().with_current(made))

        return self._containers.create(
            Machine(container.id, bundle, wanted, Stdio(*stdio)), container, note, ahead=True
        )  # fmt: skip

    def _remove(self, container: Container) -> None:
        self._containers.clear(container, here=True)


def _stdio(bundle: Path) -> tuple[Path, Path]:
    return bundle / "in", bundle / "out"


def _whole(container: Container) -> bool:
    """Whether both of its processes live, also the gofer, which is to open its disk."""
    return all(found.alive() for found in container.processes())


def _unknown(bundle: Path) -> Container:
    return Container(bundle.name, os.fspath(bundle), Phase.STARTING, "", "", "")
