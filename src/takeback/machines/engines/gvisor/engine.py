"""The gVisor engine: machines as containers of runsc, driven over their control sockets.

Does not cover: how a container is made and killed (`containers`), what a save writes (`snapshots`).
"""

from __future__ import annotations

import logging
import os
import shutil
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from functools import cached_property
from pathlib import Path

from takeback.errors import CannotSave, EngineFailed, MachineGone, SnapshotDamaged, SnapshotMismatch
from takeback.host import mounts
from takeback.machines.engine import (
    Answers,
    Capabilities,
    DiskKind,
    EngineVersion,
    Machine,
    MachineSpec,
    Saved,
    State,
    Strain,
    Usage,
)  # fmt: skip
from takeback.machines.engines.gvisor import cgroups, checks, containers, header, limits, lower, room, snapshots, spec
from takeback.machines.engines.gvisor.checks import Container, Phase, Record
from takeback.machines.engines.gvisor.containers import Containers
from takeback.machines.engines.gvisor.disk import Disks
from takeback.machines.engines.gvisor.forks import Forks
from takeback.machines.engines.gvisor.growth import Growth
from takeback.machines.engines.gvisor.pool import Pool
from takeback.machines.engines.gvisor.runsc import Runsc
from takeback.machines.layout import MachinesDir

log = logging.getLogger("takeback.keeper")

NAME = "gvisor"
_FORK = "fork"  # what a copy is prepared for: its source, in the moment it is saved
_NO_RULES = "there is no interface but loopback inside; the rules are those of the relay outside"
_WATCHED = "the keeper watches memory, ten times a second when near its bound, and ends a machine that is over it"
_DISK_WATCHED = (
    "no quota of the filesystem is used: the keeper watches changed files, and pauses a machine over its disk"
)
_STATES = {
    Phase.STARTING: State.STOPPED,
    Phase.CREATED: State.CREATED,
    Phase.RUNNING: State.RUNNING,
    Phase.PAUSED: State.PAUSED,
}


class GVisor:
    """Implements `machines.engine.Engine`; `control=False` drives runsc by its command line only.

    `platform` is how programs are run, or asked for it when the first machine is made: finding out takes a moment.
    """

    def __init__(
        self, binary: Path, data: MachinesDir, *, platform: str | Callable[[], str] = "systrap", control: bool = True
    ) -> None:
        self._data = data
        self._chosen = platform
        data.engine_state.mkdir(mode=0o700, parents=True, exist_ok=True)
        data.layers.mkdir(mode=0o700, exist_ok=True)
        self._runsc = Runsc(binary, data.engine_state)
        self._disks = Disks(data.layers)
        self._cgroups = cgroups.find(room.own_name(data.root))
        self._containers = Containers(self._runsc, self._disks, self._cgroups, control=control)
        self._pool = Pool(data.pool, self._containers)
        self._scratch = room.Scratch(data.root)
        self._growth = Growth(self._disks)
        self._looked_around = False
        self._busy: set[str] = set()
        self._lock = threading.Lock()

    @cached_property
    def _platform(self) -> str:
        return self._chosen if isinstance(self._chosen, str) else self._chosen()

    def version(self) -> EngineVersion:
        return EngineVersion(NAME, self._runsc.version(), self._platform)

    def capabilities(self) -> Capabilities:
        bounded = self._cgroups.lacking
        if not self._cgroups.usable:
            bounded = f"{bounded}; {_WATCHED}"
        return Capabilities(
            network_rules=_NO_RULES, limits=bounded, disk=_DISK_WATCHED, layers=self._disks.problem()
        )  # fmt: skip

    def prepare(self, machine: Machine, saved: Saved | None = None) -> None:
        with self._working(machine):
            head = None if saved is None else self._checked(machine.spec, saved)
            platform, layers = (self._platform, ()) if head is None else (head.platform, head.layers)
            name = "" if saved is None else saved.folder.name
            if self._taken(machine, platform, layers, name) is None:
                self._new(machine, platform, layers, name)

    def start(self, machine: Machine) -> None:
        with self._working(machine):
            self._come_up(machine, self._platform, (), "", None)

    def restore(self, machine: Machine, saved: Saved) -> None:
        with self._working(machine):
            head = self._checked(machine.spec, saved)
            images = saved.folder if head.memory else None
            self._come_up(machine, head.platform, head.layers, saved.folder.name, images)

    def save(self, machine: Machine, into: Path, *, memory: bool = True, answers: Answers | None = None) -> Saved:
        with self._working(machine):
            record, _ = self._running(machine)
            _whole(machine)
            job = snapshots.Save(self._containers, self._disks, machine, into, self._scratch)
            head = job.run(record, memory=memory, answers=answers)
            return self._saved(into, head)

    def keep(self, machine: Machine, into: Path) -> Saved | None:
        with self._working(machine):
            record = self._record(machine)
            if record is None and (machine.folder / checks.FILE).exists():
                # That is not the same as no files: those it has must not count as nobody's.
                raise EngineFailed(what="keep its disk", why="what was written down about it cannot be read")
            current = record.current if record is not None else None
            if record is None or current is None or current.phase in (Phase.STARTING, Phase.CREATED):
                return None
            layers = (*current.layers, current.upper) if current.upper else current.layers
            if machine.spec.disk is not DiskKind.LAYERS or self._disks.spoiled(layers, ()):
                return None
            # First of all what can be refused: until it is ended, it goes on.
            lasting = not room.on_tmpfs(into)
            head = header.Header(
                engine=NAME, version=current.version, platform=current.platform, overlay=current.overlay,
                digest=spec.digest(machine.spec, memory=False), memory=False, boot=checks.boot_id(), paused_s=0.0,
                files=(), layers=layers, summaries=self._disks.summaries(current.layers),
            )  # fmt: skip
            header.write(into, head, durable=lasting)
            self._end(record)
            # Written to no more, and not its own any more: `remove` leaves it where it is.
            checks.write(machine.folder, record.with_current(replace(current, layers=layers, upper="")))
            if lasting:
                mounts.sync_filesystem(self._disks.folder)
            return self._saved(into, head)

    def fork(self, machine: Machine, copies: Sequence[Machine], into: Path, *, answers: Answers | None = None) -> Saved:
        early = machine.spec.disk is DiskKind.MEMORY or self._containers.late()
        with ExitStack() as stack:
            for one in (machine, *copies):
                stack.enter_context(self._working(one))
            record, current = self._running(machine)
            _whole(machine)

            def prepare(copy: Machine, layers: tuple[str, ...] | None) -> None:
                self._prepared(copy, current.platform, layers, _FORK)

            def load(copy: Machine, images: Path, layers: tuple[str, ...]) -> None:
                self._come_up(copy, current.platform, layers, _FORK, images)

            if not self._containers.same_build(current):
                raise CannotSave(
                    why=f"it runs under runsc {current.version}, which was replaced on this machine meanwhile",
                    next="stop and restart it: its disk is kept",
                )
            for copy in copies:
                if (spec.digest(copy.spec), copy.spec.disk) != (spec.digest(machine.spec), machine.spec.disk):
                    raise SnapshotMismatch(snapshot=machine.id, why="a copy has another spec", next="give it the same")
            forks = Forks(copies, prepare if early else None, load)
            job = snapshots.Save(self._containers, self._disks, machine, into, self._scratch)
            try:
                head = job.run(record, memory=True, answers=answers, copies=forks)
            except BaseException:
                job.discard()
                for copy in copies:
                    self._forget(copy)
                raise
            return self._saved(into, head)

    def passing(self, name: str, of: Machine | None = None) -> Path:
        record = self._record(of) if of is not None else None
        used = 0
        if record is not None and record.current is not None and record.here():
            used = containers.memory_file(record.current)
        folder = self._scratch.make(name) if self._scratch.fits(used) else None
        if folder is None:
            folder = self._scratch.spill / name
            folder.mkdir(mode=0o700, parents=True)
        return folder

    def saved(self, folder: Path) -> Saved:
        return self._saved(folder, header.read(folder))

    def _saved(self, folder: Path, head: header.Header) -> Saved:
        return Saved(
            folder=folder,
            memory=head.memory,
            engine=f"{head.engine} {head.version}",
            files=tuple((file.name, file.size) for file in head.files),
            paused_s=head.paused_s,
            layers=tuple(self._disks.place(name) for name in head.layers),
        )

    def pause(self, machine: Machine) -> None:
        with self._working(machine):
            record, current = self._running(machine)
            if current.phase is not Phase.PAUSED:
                changing = replace(current, phase=Phase.CHANGING, was_paused=False)
                checks.write(machine.folder, record.with_current(changing))
                self._containers.pause(current)
                checks.write(machine.folder, record.with_current(replace(current, phase=Phase.PAUSED)))

    def resume(self, machine: Machine) -> None:
        with self._working(machine):
            record, current = self._running(machine)
            if current.phase is Phase.PAUSED:
                changing = replace(current, phase=Phase.CHANGING, was_paused=False)
                checks.write(machine.folder, record.with_current(changing))
                self._containers.resume(current)
                checks.write(machine.folder, record.with_current(replace(current, phase=Phase.RUNNING)))

    def state(self, machine: Machine) -> State:
        try:
            record = checks.read(machine.folder)
        except ValueError:
            return State.LOST
        if record is None:
            return State.STOPPED
        if not record.here():
            return State.LOST
        if record.current is None or not containers.alive(record.current):
            return State.STOPPED
        if record.current.phase is Phase.CHANGING:
            if machine.id in self._busy:
                return State.RUNNING
            with self._working(machine):
                return _STATES[self._running(machine)[1].phase]
        return _STATES[record.current.phase]

    def ended_because(self, machine: Machine) -> str:
        record = self._record(machine)
        if record is not None and record.current is not None and limits.killed_for_memory(record.current.groups):
            return f"it needed more than its {machine.spec.memory_mib} MiB of memory"
        return ""

    def watch(self, machine: Machine) -> int | None:
        record = self._record(machine)
        if record is None or record.current is None or not record.here():
            return None
        try:
            handle = os.pidfd_open(record.current.sandbox[0])
        except (ProcessLookupError, ValueError):
            return None
        if containers.alive(record.current):
            return handle
        os.close(handle)
        return None

    def usage(self, machine: Machine) -> Usage:
        record = self._record(machine)
        if record is None or record.current is None or not record.here() or not containers.alive(record.current):
            return Usage(0.0, 0, 0)
        current = record.current
        try:
            inside = self._containers.processes(current)
        except (EngineFailed, MachineGone):
            inside = 0
        return Usage(
            cpu_s=record.cpu_before + containers.cpu_seconds(current),
            memory=limits.memory_used(current.groups) or containers.memory_file(current),
            disk=self._disks.used(current.upper),
            processes=inside,
        )

    def cpu_seconds(self, machine: Machine) -> float:
        record = self._record(machine)
        if record is None or record.current is None or not record.here():
            return 0.0
        return record.cpu_before + containers.cpu_seconds(record.current)

    def strain(self, machine: Machine) -> Strain:
        record = self._record(machine)
        if record is None or record.current is None or not record.here() or not containers.alive(record.current):
            return Strain()
        return self._growth.strain(machine.spec, record.current)

    def layers(self, of: Machine | Saved, *, born: bool = False) -> tuple[Path, ...] | None:
        if isinstance(of, Saved):
            return tuple(place / "upper" for place in of.layers) or None
        record = self._record(of)
        if record is None or record.current is None or not record.current.upper:
            return None
        current = record.current
        names = record.born if born else (*current.layers, current.upper)
        return tuple(self._disks.place(name) / "upper" for name in names)

    def stored(self, saved: Saved, known: Mapping[str, int]) -> dict[str, int]:
        return {
            place.name: known[place.name] if place.name in known else self._disks.used(place.name)
            for place in saved.layers
        }

    def remove(self, machine: Machine) -> None:
        with self._working(machine):
            if self._record(machine) is None:
                self._containers.end_in(machine.folder / "run")
            self._forget(machine)
            if mounts.unmount_below(machine.folder):
                shutil.rmtree(machine.folder / "run", ignore_errors=True)
            (machine.folder / checks.FILE).unlink(missing_ok=True)

    def make_ahead(self) -> bool:
        return self._pool.make()

    def drop_ahead(self) -> None:
        self._pool.drop()

    def sweep(self, known: Sequence[Machine], saved: Sequence[Path]) -> tuple[str, ...]:
        if self._busy:
            return ()  # what is just being made is in no record yet
        wanted: set[str] = set()
        uppers: set[str] = set()
        unread = False
        for machine in known:
            record = self._record(machine)
            unread = unread or (record is None and (machine.folder / checks.FILE).exists())
            for container in _all(record):
                wanted.add(container.id)
                uppers.update((*container.layers, container.upper))
            uppers.update(record.born if record is not None else ())
        for folder in saved:
            try:
                uppers.update(header.read(folder).layers)
            except SnapshotDamaged:
                unread = True
        # Not when one of a spoiled record may be among them.
        removed = [] if unread else [f"container {name}, made ahead" for name in self._pool.sweep(wanted)]
        wanted |= self._pool.ids()
        removed += [f"container {name}" for name in sorted(self._runsc.known() - wanted) if self._forgotten(name)]
        for group in limits.leftovers(self._cgroups):
            if group.name.startswith("tb") and group.name not in wanted and limits.remove([os.fspath(group)]):
                removed.append(f"control group {group.name}")
        limits.close(self._cgroups)
        for entry in [*self._scratch.all(), *self._scratch.spill.glob("*")]:
            if entry not in saved:
                room.clear(entry)
                removed.append(f"unfinished snapshot {entry.name}")
        if not self._looked_around:
            self._looked_around = True
            limits.abandoned(self._cgroups, f"takeback-{os.getuid()}-")
            for entry in self._scratch.abandoned():
                room.clear(entry)
                removed.append(f"{entry.name} of a data directory that is gone")
        self._growth.forget(uppers)
        if not unread:  # else a layer that is needed might be taken away
            removed += [f"disk layer {name}" for name in self._disks.sweep(uppers)]
        return tuple(removed)

    def _forgotten(self, name: str) -> bool:
        """Remove what runsc knows of a container nobody has, unless it still runs: its folder is not known."""
        if limits.find_tasks(self._cgroups, name):
            return False
        self._runsc.forget(name)
        return True

    def _checked(self, wanted: MachineSpec, saved: Saved) -> header.Header:
        """Return a snapshot's header, having compared and read everything it depends on."""
        head = header.read(saved.folder)
        here = self._runsc.version()
        # A disk without memory is booted anew, which any version does.
        same = head.engine == NAME and (head.version == here or not head.memory)
        digests = (spec.digest(wanted), spec.digest(wanted, memory=head.memory))
        why = ""
        hint = (
            f"make runsc {head.version} the one that `takeback doctor` names, or take a new snapshot;"
            " one of the mode `disk` starts under every version"
        )
        if not same:
            why = f"it was saved by {head.engine} {head.version}, this is {NAME} {here}"
        elif head.digest not in digests or head.overlay != spec.overlay_flag(wanted):
            why = "it was saved by a sandbox with another image, supervisor, size, disk kind or mounts"
            hint = "restore it with the settings it was saved with"
        elif changed := lower.changed(head.lower):
            why = f"{changed} of this machine was changed since, and a program in it holds that open"
            hint = "nothing was started; take a new snapshot"
        if why:
            raise SnapshotMismatch(snapshot=saved.folder.name, why=why, next=hint)
        problem = head.problem(saved.folder) or self._disks.spoiled(head.layers, head.summaries)
        if problem:
            raise SnapshotDamaged(snapshot=saved.folder.name, why=problem)
        return head if head.memory else replace(head, platform=self._platform)

    def _come_up(
        self, machine: Machine, platform: str, layers: tuple[str, ...], name: str, images: Path | None
    ) -> None:
        """Start a machine, or restore it from `images`; once more in a new container when one made ahead fails."""
        record = self._prepared(machine, platform, layers, name)
        assert record.current is not None
        try:
            self._bring_up(machine, record, images)
        except EngineFailed as error:
            if not self._pool.has_made(record.current):
                raise
            log.warning("a container made ahead failed: %s; once more in a new one", error)
            self._bring_up(machine, self._new(machine, platform, layers, name), images)

    def _prepared(self, machine: Machine, platform: str, layers: tuple[str, ...] | None, name: str) -> Record:
        """Return the record of a machine with a created container that fits, made now if there is none.

        Under LAYERS without `layers` it is to get its disk later, and has none yet.
        """
        record = self._record(machine)
        if record is not None and record.here() and record.current is not None:
            ready = record.current
            bare = containers.lacks_disk(machine.spec, ready)
            fits = (ready.version, ready.platform) == (self._runsc.version(), platform) and (
                machine.spec.disk is DiskKind.MEMORY or ready.saved_for == name
            )
            if ready.phase is Phase.CREATED and fits and containers.alive(ready):
                if not bare or layers is None:
                    return record
                with suppress(EngineFailed):  # then it is made anew
                    return self._with_disk(machine, record, layers)
        return self._taken(machine, platform, layers, name) or self._new(machine, platform, layers, name)

    def _taken(self, machine: Machine, platform: str, layers: tuple[str, ...] | None, name: str) -> Record | None:
        """Return the record of a machine that got a container made ahead; None when there is none that fits."""
        record = self._fresh_record(machine)
        ready = self._pool.take(machine.spec, platform)
        if ready is None:
            return None
        record = record.with_current(replace(ready, saved_for=name))
        try:
            # Before anything of it moves: from now on it is the machine's, also for whoever comes after a crash.
            checks.write(machine.folder, record)
            self._pool.hand_over(ready, machine.stdio)
            if layers is not None and machine.spec.disk is DiskKind.LAYERS:
                record = self._with_disk(machine, record, layers)
            return record
        except (EngineFailed, OSError) as error:
            log.warning("a container made ahead was of no use: %s", error)
            self._containers.clear(ready, here=True)
            self._forget(machine)
            return None

    def _with_disk(self, machine: Machine, record: Record, layers: tuple[str, ...]) -> Record:
        """Give a container that has none its disk and return the record. Raises EngineFailed."""
        assert record.current is not None
        current = replace(record.current, layers=self._disks.merged(layers), upper=self._disks.new())
        record = replace(record, current=current, born=current.layers)
        checks.write(machine.folder, record)
        self._containers.give_disk(machine.spec, current)
        return record

    def _fresh_record(self, machine: Machine) -> Record:
        record = self._record(machine)
        if record is not None:
            current = record.current
            if record.here() and current is not None and containers.alive(current):
                if current.phase not in (Phase.CREATED, Phase.STARTING):
                    raise EngineFailed(what="start a sandbox", why=f"{machine.id} runs already")
            self._clear(machine, record)
        return checks.new_record()

    def _new(self, machine: Machine, platform: str, layers: tuple[str, ...] | None, name: str) -> Record:
        """Make a container and return the record of its machine. Raises EngineFailed."""
        record = self._fresh_record(machine)
        container = self._containers.fresh(machine.spec, platform, machine.folder / "run")
        container = replace(container, saved_for=name)
        if layers is not None and machine.spec.disk is DiskKind.LAYERS:
            container = replace(container, layers=self._disks.merged(layers), upper=self._disks.new())
            record = replace(record, born=container.layers)

        def note(made: Container) -> None:
            nonlocal record
            record = record.with_current(made)
            checks.write(machine.folder, record)

        try:
            self._containers.create(machine, container, note)
        except BaseException:
            self._clear(machine, record)
            raise
        return record

    def _bring_up(self, machine: Machine, record: Record, images: Path | None) -> None:
        current = record.current
        assert current is not None
        try:
            if images is None:
                self._containers.boot(current)
            else:
                self._containers.load(current, images)
            if not containers.alive(current):
                raise EngineFailed(what="start a sandbox", why="its process ended at once")
            checks.write(machine.folder, record.with_current(replace(current, phase=Phase.RUNNING)))
        except BaseException:
            self._clear(machine, record)
            raise

    def _running(self, machine: Machine) -> tuple[Record, Container]:
        """Return the record and container of a machine that runs or is paused, having put right what was interrupted.

        Raises MachineGone.
        """
        record = self._record(machine)
        if record is None or record.current is None or record.current.phase in (Phase.STARTING, Phase.CREATED):
            raise MachineGone(id=machine.id, why="it was not started")
        if not record.here():
            raise MachineGone(id=machine.id, why="the machine was booted anew, or its processes are another's")
        if not containers.alive(record.current):
            raise MachineGone(id=machine.id, why=self.ended_because(machine) or "its process ended")
        if record.others or record.current.phase is Phase.CHANGING:
            record = snapshots.mend(self._containers, self._disks, machine, record)
        assert record.current is not None
        return record, record.current

    def _end(self, record: Record) -> None:
        for container in _all(record):
            if not self._containers.clear(container, here=record.here()):
                raise EngineFailed(what="be ended", why=f"processes of {container.id} do not go away")

    def _clear(self, machine: Machine, record: Record) -> None:
        self._end(record)
        for container in _all(record):
            if container.upper:
                self._disks.drop(container.upper)
        (machine.folder / checks.FILE).unlink(missing_ok=True)

    def _forget(self, machine: Machine) -> None:
        record = self._record(machine)
        if record is not None:
            self._clear(machine, record)

    def _record(self, machine: Machine) -> Record | None:
        try:
            return checks.read(machine.folder)
        except ValueError:
            return None

    @contextmanager
    def _working(self, machine: Machine) -> Iterator[None]:
        with self._lock:
            nested = machine.id in self._busy
            self._busy.add(machine.id)
        try:
            yield
        finally:
            if not nested:
                with self._lock:
                    self._busy.discard(machine.id)


def _whole(machine: Machine) -> None:
    """See that all a machine changes can be saved. Raises CannotSave."""
    for _, inside, writable in machine.spec.binds:
        if writable:
            raise CannotSave(
                why=f"what it writes to {inside} lies in a folder of this machine, which no snapshot holds",
                next="make it without that folder, or let it be read only",
            )


def _all(record: Record | None) -> tuple[Container, ...]:
    if record is None:
        return ()
    return (*((record.current,) if record.current is not None else ()), *record.others)
