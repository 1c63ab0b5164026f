"""Engines under test, the machines they run, and the count of what they leave behind."""

from __future__ import annotations

import itertools
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from takeback.host import process
from takeback.machines.engine import DiskKind, Engine, Machine, MachineSpec, Saved, Stdio
from takeback.machines.engines.fake import Fake
from takeback.machines.engines.gvisor import room
from takeback.machines.engines.gvisor.engine import GVisor
from takeback.machines.layout import MachinesDir
from takeback.machines.supervisor.build import compile_supervisor
from tests.machines.engines.guest import Guest, Loop


def runsc() -> Path:
    """The engine's program: TAKEBACK_TEST_RUNSC, or what the set-up gives."""
    if "TAKEBACK_TEST_RUNSC" in os.environ:
        return Path(os.environ["TAKEBACK_TEST_RUNSC"])
    from tests.support import machines

    if machines.why_not():
        pytest.skip(machines.why_not())
    return machines.engine()


def base() -> Path:
    """A root folder with Python in it: TAKEBACK_TEST_BASE, or the image `debian`."""
    if "TAKEBACK_TEST_BASE" in os.environ:
        return Path(os.environ["TAKEBACK_TEST_BASE"])
    from tests.support import machines

    image = machines.ready().image
    assert image is not None
    return image.rootfs


PROGRAMS = "dash cat ls head mkdir rm sleep id stat md5sum grep wc chown touch hostname".split()


def tiny_base(folder: Path) -> Path:
    """Make a root folder of some megabytes from the big one: a shell and what the tests call."""
    whole = base()
    programs = [whole / "usr/bin" / name for name in PROGRAMS if (whole / "usr/bin" / name).exists()]
    listed = subprocess.run(["ldd", *programs], capture_output=True, text=True).stdout
    names = {line.split()[0].rpartition("/")[2] for line in listed.splitlines() if "(0x" in line}
    libraries = [found for name in names for found in (whole / "usr/lib").rglob(name)]
    for path in (*programs, *libraries, *(whole / "usr/lib64").glob("ld-*")):
        target = folder / path.relative_to(whole)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(path, target)
    for name in ("bin", "lib", "lib64"):
        (folder / name).symlink_to(f"usr/{name}")
    (folder / "usr/bin/sh").symlink_to("dash")
    for name in ("root", "tmp", "dev", "proc", "run", "etc"):
        (folder / name).mkdir()
    for name, minor in (("null", 3), ("zero", 5), ("urandom", 9)):
        os.mknod(folder / "dev" / name, 0o20666, os.makedev(1, minor))
    return folder


@dataclass
class Lab:
    """One engine with its data folder, and every machine that was made with it."""

    engine: Engine
    data: MachinesDir
    spec: MachineSpec
    loop: Loop
    machines: list[Machine] = field(default_factory=list)
    guests: list[Guest] = field(default_factory=list)
    snapshots: list[Path] = field(default_factory=list)
    ahead: bool = False  # whether each machine finds a container made ahead
    _numbers: Iterator[int] = field(default_factory=itertools.count)

    def machine(self, spec: MachineSpec | None = None) -> Machine:
        while self.ahead and self.engine.make_ahead():
            pass
        name = f"sb{next(self._numbers):06}"
        folder = self.data.sandbox(name)
        folder.mkdir(parents=True)
        stdio = Stdio(folder / "in", folder / "out")
        for path in (stdio.to_guest, stdio.from_guest):
            os.mkfifo(path, 0o600)
        self.machines.append(Machine(name, folder, spec or self.spec, stdio))
        return self.machines[-1]

    def guest(self, machine: Machine) -> Guest:
        """Attach to a machine that runs."""
        guest = Guest(self.loop, machine.stdio)
        self.guests.append(guest)
        guest.attach()
        return guest

    def started(self, spec: MachineSpec | None = None) -> tuple[Machine, Guest]:
        machine = self.machine(spec)
        self.engine.start(machine)
        return machine, self.guest(machine)

    def folder(self) -> Path:
        folder = self.data.snapshot(f"snap{next(self._numbers):06}")
        folder.mkdir(parents=True)
        self.snapshots.append(folder)
        return folder

    def passing(self) -> Path:
        self.snapshots.append(self.engine.passing(f"passing{next(self._numbers):06}"))
        return self.snapshots[-1]

    def save(self, machine: Machine, guest: Guest, *, memory: bool = True) -> Saved:
        with guest.quiet():
            return self.engine.save(machine, self.folder(), memory=memory, answers=guest.answers)

    def restored(self, saved: Saved, spec: MachineSpec | None = None) -> tuple[Machine, Guest]:
        machine = self.machine(spec)
        self.engine.restore(machine, saved)
        return machine, self.guest(machine)

    def close(self) -> None:
        for guest in self.guests:
            guest.close()
        for machine in self.machines:
            self.engine.remove(machine)
            shutil.rmtree(machine.folder)
        for folder in self.snapshots:
            shutil.rmtree(folder, ignore_errors=True)
        self.engine.drop_ahead()
        self.engine.sweep([], [])


@pytest.fixture(scope="session")
def loop() -> Iterator[Loop]:
    process.become_subreaper()
    made = Loop()
    yield made
    made.close()


@pytest.fixture(scope="session")
def supervisor(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("supervisor")
    folder.chmod(0o755)
    compile_supervisor(folder / "init").chmod(0o755)
    return folder


def _may_make_devices() -> bool:
    return Path("/proc/self/uid_map").read_text().split() == ["0", "0", "4294967295"]


def left_behind(data: Path) -> list[str]:
    """Return everything an engine could have forgotten, in words; what is just ending is waited for."""
    until = time.monotonic() + 3
    while (found := _left_behind(data, room.own_name(data))) and time.monotonic() < until:
        time.sleep(0.02)
    return found


def _left_behind(data: Path, own: str) -> list[str]:
    process.reap_orphans()
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            arguments = Path(f"/proc/{pid}/cmdline").read_bytes()
        except OSError:
            continue
        if os.fsencode(data) in arguments and int(pid) != os.getpid():
            found.append(f"process {arguments!r}")
    found += [f"mount {line}" for line in Path("/proc/self/mountinfo").read_text().splitlines() if f"{data}/" in line]
    for group in [*Path("/sys/fs/cgroup").glob(own), *Path("/sys/fs/cgroup").glob(f"*/{own}")]:
        found.append(f"control group {group}")
    found += [f"file {path}" for path in data.rglob("*") if not path.is_dir() or path.parent.name == "layers"]
    found += [f"staged {path}" for path in Path("/dev/shm").glob(f"{own}*")]
    found += [f"zombie {pid}" for pid in process._children() if _is_zombie(pid)]
    return found


def _is_zombie(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z"
    except OSError:
        return False


KINDS = [
    *("gvisor-memory", "gvisor-layers", "fake"),
    *(
        pytest.param(kind, marks=pytest.mark.long)
        for kind in ("gvisor-btrfs", "gvisor-memory-ahead", "gvisor-layers-ahead")
    ),
]


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def place(kind: str, tmp_path: Path) -> Iterator[Path]:
    """A folder on the filesystem that the engine under test wants."""
    if kind != "gvisor-btrfs":
        yield tmp_path
        return
    if os.geteuid() != 0 or shutil.which("mkfs.btrfs") is None:
        pytest.skip("a btrfs of our own needs root and mkfs.btrfs")
    image, point = tmp_path / "btrfs.img", tmp_path / "btrfs"
    with open(image, "wb") as file:
        file.truncate(1 << 30)
    point.mkdir()
    subprocess.run(["mkfs.btrfs", "-q", image], check=True)
    if subprocess.run(["mount", "-o", "loop", image, point], capture_output=True).returncode != 0:
        pytest.skip("this kernel mounts no btrfs")
    try:
        yield point
    finally:
        subprocess.run(["umount", point], check=True)


@pytest.fixture
def make_lab(loop: Loop, supervisor: Path) -> Iterator[Callable[..., Lab]]:
    """Makes labs; at the end all their machines are removed and nothing may be left."""
    made: list[Lab] = []

    def make(folder: Path, disk: DiskKind, *, control: bool = True, fake: bool = False) -> Lab:
        data = MachinesDir(folder / "machines")
        data.root.mkdir()
        if fake:
            if os.geteuid() != 0 or not _may_make_devices():
                pytest.skip("the fake engine's base needs device files")
            spec = MachineSpec(base=tiny_base(folder / "base"), disk=disk, supervisor=supervisor)
            made.append(Lab(Fake(data.root / "passing"), data, spec, loop))
            return made[-1]
        spec = MachineSpec(base=base(), disk=disk, supervisor=supervisor, memory_mib=1024, max_processes=300)
        made.append(Lab(GVisor(runsc(), data, control=control), data, spec, loop))
        return made[-1]

    yield make
    for lab in made:
        lab.close()
        assert left_behind(lab.data.root) == []


@pytest.fixture
def lab(kind: str, place: Path, make_lab: Callable[..., Lab]) -> Lab:
    """One engine and disk kind; each kind is a run of its own of every test."""
    memory = kind.startswith("gvisor-memory")
    made = make_lab(place, DiskKind.MEMORY if memory else DiskKind.LAYERS, fake=kind == "fake")
    if kind.endswith("-ahead"):
        made.engine.remove(made.started()[0])
        made.ahead = True
    return made
