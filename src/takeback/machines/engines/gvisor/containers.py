"""Make, drive and clear away one container of runsc, whichever way its build is driven.

Every step is noted before it is done, so that whoever comes after a crash knows what to look for.

Does not cover: which container is a machine's, and when it is replaced (`engine`).
"""

from __future__ import annotations

import json
import os
import secrets
import stat
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from takeback.errors import EngineFailed, MachineGone
from takeback.host import ending, mounts, pivot, proc, process
from takeback.machines.engine import DiskKind, Machine, MachineSpec
from takeback.machines.engines.gvisor import limits, room, spec, view
from takeback.machines.engines.gvisor.cgroups import Cgroups
from takeback.machines.engines.gvisor.checks import Container, Phase
from takeback.machines.engines.gvisor.control import VERIFIED, Control, Refusal
from takeback.machines.engines.gvisor.disk import Disks
from takeback.machines.engines.gvisor.runsc import IMAGE_FILES, Runsc

Note = Callable[[Container], None]
_BOOT, _QUICK, _KILL = 30.0, 10.0, 20.0
_LOAD_LEAST, _BYTES_A_SECOND = 30.0, 20 << 20
_LEAVE_GROUP = 200
_SETTLE, _STILL_COMING = 8, 0.02


class Containers:
    """All containers of one state folder."""

    def __init__(self, runsc: Runsc, disks: Disks, cgroups: Cgroups, *, control: bool = True) -> None:
        self._runsc = runsc
        self._disks = disks
        self._cgroups = cgroups
        self._control = control

    def fresh(self, wanted: MachineSpec, platform: str, folder: Path) -> Container:
        """Return a container that is not there yet, its bundle in `folder`; its id is random, and no machine's."""
        name = f"tb{secrets.token_hex(8)}"
        return Container(
            id=name,
            bundle=os.fspath(folder / name),
            phase=Phase.STARTING,
            version=self._runsc.version(),
            platform=platform,
            overlay=spec.overlay_flag(wanted),
        )

    def create(self, machine: Machine, container: Container, note: Note, *, ahead: bool = False) -> Container:
        """Make it, running nothing yet; `ahead` of the time when it is needed: out of the way of what is needed now.

        One of the disk kind LAYERS without an upper layer gets its disk later (`give_disk`).
        Raises EngineFailed; then it must be cleared.
        """
        note(container)
        bundle = Path(container.bundle)
        bundle.mkdir(mode=0o700, parents=True, exist_ok=True)
        empty = bundle / "empty"
        empty.touch(mode=0o000)
        root = machine.spec.base
        if lacks_disk(machine.spec, container):
            root = bundle / "root"
            root.mkdir(mode=0o755)
        elif machine.spec.disk is DiskKind.LAYERS:
            root = self._disks.mount(machine.spec.base, container.layers, container.upper, bundle / "root")
        elif view.needed(machine.spec):
            root = view.mount(machine.spec, bundle / "root", self._disks.folder.parent)
        (bundle / "config.json").write_text(json.dumps(spec.config(machine.spec, root=root, empty=empty)))
        container = replace(container, groups=limits.make(self._cgroups, container.id, machine.spec))
        note(container)
        if ahead:
            limits.step_back(container.groups)
        with _fifos(machine) as stdio:
            started = self._runsc.create(
                container.id, bundle, bundle / "runsc.log", overlay=container.overlay, platform=container.platform,
                stdio=stdio, wrapper=limits.wrapper(container.groups),
            )  # fmt: skip
        limits.offer_first(started.sandbox)
        container = replace(
            container,
            phase=Phase.CREATED,
            sandbox=(started.sandbox, proc.start_time(started.sandbox)),
            gofer=(started.gofer, proc.start_time(started.gofer)),
            socket=os.fspath(started.socket),
        )
        note(container)
        if not self.same_build(container):
            raise EngineFailed(what="make a sandbox", why="runsc was replaced on this machine in that moment")
        return container

    def same_build(self, container: Container) -> bool:
        """Whether the runsc that is there now is the build that a container runs under."""
        try:
            return self._runsc.version() == container.version
        except EngineFailed:
            return False

    def give_disk(self, wanted: MachineSpec, container: Container) -> None:
        """Mount the disk of a created container that has none yet, in its gofer's own mount namespace.

        The gofer opens the folder that is its root only when the machine comes up. Raises EngineFailed.
        """
        try:
            tree = self._disks.tree(wanted.base, container.layers, container.upper)
            try:
                place = os.path.dirname(spec.INIT).lstrip("/")
                pivot.give_root(proc.ProcessId(*container.gofer), tree, {place: wanted.supervisor})
            finally:
                os.close(tree)
        except OSError as error:
            raise EngineFailed(what="mount its disk", why=str(error)) from error

    def boot(self, container: Container) -> None:
        """Start PID 1 of a created container. Raises EngineFailed."""
        with self._refusals("start a sandbox"):
            if self._direct(container):
                with Control(Path(container.socket)) as control:
                    control.boot(container.id, _BOOT)
            else:
                self._runsc.start(*self._named(container), _BOOT)

    def load(self, container: Container, images: Path) -> None:
        """Restore a created container from the files of a save. Raises EngineFailed."""
        size = sum(os.stat(images / name).st_size for name in IMAGE_FILES)
        timeout = _LOAD_LEAST + size / _BYTES_A_SECOND
        with self._refusals("restore a sandbox"):
            if not self._direct(container):
                name, log, overlay, platform = self._named(container)
                self._runsc.restore(name, Path(container.bundle), log, overlay, platform, images, timeout)
                return
            files: list[int] = []
            try:
                files += [os.open(images / name, os.O_RDONLY | os.O_CLOEXEC) for name in IMAGE_FILES]
                with Control(Path(container.socket)) as control:
                    control.load(files, timeout)
            finally:
                for fd in files:
                    os.close(fd)

    def save(self, container: Container, images: Path, expected: int) -> None:
        """Write a container of about `expected` bytes into an empty folder.

        Raises Refusal or EngineFailed with the engine's words; files may be left.
        """
        timeout = _LOAD_LEAST + expected / _BYTES_A_SECOND
        if not self._direct(container):
            name, log, overlay, platform = self._named(container)
            self._runsc.checkpoint(name, log, overlay, platform, images, timeout)
            return
        files: list[int] = []
        try:
            flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
            files += [os.open(images / name, flags, 0o600) for name in IMAGE_FILES]
            with Control(Path(container.socket)) as control:
                control.save(files, timeout)
        finally:
            for fd in files:
                os.close(fd)

    def pause(self, container: Container) -> None:
        with self._refusals("pause a sandbox"):
            if self._direct(container):
                with Control(Path(container.socket)) as control:
                    control.pause(_QUICK)
            else:
                self._runsc.pause(*self._named(container), _QUICK)

    def resume(self, container: Container) -> None:
        with self._refusals("resume a sandbox"):
            if self._direct(container):
                with Control(Path(container.socket)) as control:
                    control.resume(_QUICK)
            else:
                self._runsc.resume(*self._named(container), _QUICK)

    def settle(self, container: Container, *, paused: bool) -> None:
        """Bring a container to rest or to run, whatever it is now. Raises EngineFailed.

        Pauses are counted in the engine: one too many keeps it still, and one resume too many ends it. So it is asked
        each time; twice, because a call that was given up may still come through.
        """
        for _ in range(_SETTLE):
            if self._is_paused(container) == paused:
                time.sleep(_STILL_COMING)
                if self._is_paused(container) == paused:
                    return
            elif paused:
                self.pause(container)
            else:
                self.resume(container)
        raise EngineFailed(what="be " + ("paused" if paused else "resumed"), why="it does not settle")

    def _is_paused(self, container: Container) -> bool:
        if not self._direct(container):
            return self._runsc.status(container.id) == "paused"
        with self._refusals("be asked"), Control(Path(container.socket)) as control:
            return control.is_paused(_QUICK)
        raise AssertionError

    def processes(self, container: Container) -> int:
        """Return how many processes there are inside; that it answers proves it unharmed.

        Raises EngineFailed, or MachineGone.
        """
        if not alive(container):
            raise MachineGone(id=container.id, why="its process ended")
        if not self._direct(container):
            return 0
        with self._refusals("be asked"), Control(Path(container.socket)) as control:
            return control.processes(container.id, _QUICK)

    def drain(self, machine: Machine) -> None:
        """Take away what a container that was killed had not read from its FIFO: the old one would take it for its own.

        The channel is quiet, so nothing else is in it.
        """
        fd = os.open(machine.stdio.to_guest, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            while os.read(fd, 65536):
                pass
        except BlockingIOError:
            pass
        finally:
            os.close(fd)

    def clear(self, container: Container, *, here: bool) -> bool:
        """Kill and remove all of it; True when nothing is left. Without `here` its numbers are not ours: only files."""
        gone = True
        if here:
            gone = self._kill(container)
        # Never remove a folder in which a disk may still be mounted.
        if mounts.unmount_below(Path(container.bundle)) and gone:
            self._runsc.forget(container.id)
            if container.socket:
                Path(container.socket).unlink(missing_ok=True)
            room.clear(Path(container.bundle))
            return True
        return False

    def end_in(self, folder: Path) -> None:
        """Kill what runs in bundles in a folder that no record names: it was lost, or cannot be read."""
        wanted = os.fsencode(f"--bundle={folder}/")
        found = ending.with_command(lambda arguments: any(one.startswith(wanted) for one in arguments))
        ending.kill_exactly([*found, *(child for one in found for child in ending.below(one.pid))], _KILL)

    def _kill(self, container: Container) -> bool:
        recorded = [found for found in container.processes() if found.alive()]
        targets = list(recorded)
        for found in recorded:
            targets += ending.below(found.pid)
        if len(recorded) < 2:
            # Half made, or half dead. The path of a bundle is only ever in the arguments of its own processes.
            wanted = os.fsencode(f"--bundle={container.bundle}")
            targets += ending.with_command(lambda arguments: wanted in arguments)
        gone = ending.kill_exactly([*container.processes(), *targets], _KILL)
        for _ in range(_LEAVE_GROUP):
            if limits.remove(container.groups):
                break
            # Helpers of a sandbox that ended by itself are in the group until somebody has waited for them.
            process.reap_orphans()
            time.sleep(0.005)
        return gone

    def version(self) -> str:
        """Return the version of the engine that new containers get. Raises EngineFailed."""
        return self._runsc.version()

    def late(self) -> bool:
        """Whether this build is known to open a machine's root folder only when it comes up."""
        return self._control and self._runsc.version() in VERIFIED

    def _direct(self, container: Container) -> bool:
        return self._control and container.version in VERIFIED

    def _named(self, container: Container) -> tuple[str, Path, str, str]:
        return container.id, Path(container.bundle) / "runsc.log", container.overlay, container.platform

    @contextmanager
    def _refusals(self, what: str) -> Iterator[None]:
        try:
            yield
        except Refusal as error:
            raise EngineFailed(what=what, why=str(error)) from error


def lacks_disk(wanted: MachineSpec, container: Container) -> bool:
    """Whether it is still to be given its disk."""
    return wanted.disk is DiskKind.LAYERS and not container.upper


def alive(container: Container) -> bool:
    """Whether the sandbox process that was recorded still runs. Only meaningful in the recorded boot and namespace."""
    return any(found.alive() for found in container.processes()[:1])


def cpu_seconds(container: Container) -> float:
    """Return the processor time its processes used so far, by its groups or by /proc."""
    counted = limits.cpu_used(container.groups)
    if counted is not None:
        return counted
    ticks = 0
    for found in container.processes():
        for pid in (found.pid, *(child.pid for child in ending.below(found.pid))):
            ticks += _ticks(pid)
    return ticks / os.sysconf("SC_CLK_TCK")


def _ticks(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rsplit(b")", 1)[1].split()
    except (OSError, IndexError):
        return 0
    # proc(5): utime, stime, and those of children that were waited for.
    return sum(int(field) for field in fields[11:15])


def memory_file(container: Container) -> int:
    """Return the bytes that the machine's memory takes: the blocks of the file the engine keeps it in."""
    pid = container.sandbox[0]
    total = 0
    try:
        for name in os.listdir(f"/proc/{pid}/fd"):
            link = f"/proc/{pid}/fd/{name}"
            try:
                if os.readlink(link).startswith("/memfd:runsc-memory"):
                    total = max(total, os.stat(link).st_blocks * 512)
            except OSError:
                continue
    except OSError:
        return _resident(pid)
    return total or _resident(pid)


def _resident(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/status") as file:
            return sum(int(line.split()[1]) * 1024 for line in file if line.startswith("VmRSS:"))
    except OSError:
        return 0


@contextmanager
def _fifos(machine: Machine) -> Iterator[tuple[int, int]]:
    opened: list[int] = []
    try:
        for path in (machine.stdio.to_guest, machine.stdio.from_guest):
            # Read-write, so that it never ends although nobody else has it open.
            opened.append(os.open(path, os.O_RDWR | os.O_CLOEXEC))
            if not stat.S_ISFIFO(os.fstat(opened[-1]).st_mode):
                raise EngineFailed(what="make a sandbox", why=f"{path} is no FIFO")
        yield opened[0], opened[1]
    except OSError as error:
        raise EngineFailed(what="make a sandbox", why=str(error)) from error
    finally:
        for fd in opened:
            os.close(fd)


def images_in(folder: Path) -> Sequence[Path]:
    """Return the files of a save that lie in `folder`."""
    return [folder / name for name in IMAGE_FILES if (folder / name).exists()]
