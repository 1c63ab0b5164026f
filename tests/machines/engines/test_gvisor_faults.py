"""What gVisor does when things go wrong in the middle: the source goes on, and strangers' processes are left alone."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import signal
import struct
import subprocess
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from takeback.errors import CannotSave, EngineFailed, SnapshotDamaged, SnapshotMismatch
from takeback.host import mounts, process
from takeback.machines.engine import DiskKind, Machine, State
from takeback.machines.engines.gvisor import checks, containers, header, room
from takeback.machines.engines.gvisor.containers import Containers
from tests.machines.engines.conftest import Lab, runsc
from tests.machines.engines.guest import Guest

HOLD = "import os, sys, time; f = open(sys.argv[1], 'w+'); os.unlink(sys.argv[1]); time.sleep(float(sys.argv[2]))"
CONNECT = "import socket; print(socket.socket().connect_ex(('127.0.0.1', 1)), end='')"
MORE = "head -c 12000000 /dev/zero > /root/big; echo x > /root/x"


@pytest.fixture
def layers(tmp_path: Path, make_lab: Callable[..., Lab]) -> Lab:
    return make_lab(tmp_path, DiskKind.LAYERS)


@pytest.fixture
def memory(tmp_path: Path, make_lab: Callable[..., Lab]) -> Lab:
    return make_lab(tmp_path, DiskKind.MEMORY)


@pytest.mark.parametrize("disk", list(DiskKind))
def test_a_build_that_was_not_verified_is_driven_by_its_command_line(
    tmp_path: Path, make_lab: Callable[..., Lab], disk: DiskKind
) -> None:
    lab = make_lab(tmp_path, disk, control=False)
    machine, guest = lab.started()
    guest.sh(MORE)
    lab.engine.pause(machine)
    assert not guest.answers(0.3)
    lab.engine.resume(machine)
    saved = lab.save(machine, guest)
    _, copy = lab.restored(saved)
    for each in (guest, copy):
        assert each.sh("cat /root/x") == "x\n"
        # Without its loopback link this is ENETUNREACH.
        assert each.run(["/usr/bin/python3", "-c", CONNECT]) == (0, "111")
    assert lab.engine.state(machine) is State.RUNNING


def test_a_file_deleted_while_open_is_refused_by_name_and_harms_nothing(layers: Lab) -> None:
    machine, guest = layers.started()
    holder = guest.background(["/usr/bin/python3", "-c", HOLD, "/root/held", "1000"])
    time.sleep(0.3)
    for content in ("echo small", MORE):
        guest.sh(content)
        with pytest.raises(CannotSave, match="/root/held"):
            layers.save(machine, guest)
        assert layers.engine.state(machine) is State.RUNNING
        assert guest.sh("echo unharmed") == "unharmed\n"
        assert os.listdir(layers.snapshots[-1]) == []
    guest._loop.call(guest.link.signal(holder, signal.SIGKILL))
    assert layers.restored(layers.save(machine, guest))[1].sh("cat /root/x") == "x\n"


def test_a_file_deleted_for_a_moment_is_waited_for(layers: Lab) -> None:
    machine, guest = layers.started()
    guest.background(["/usr/bin/python3", "-c", HOLD, "/root/held", "0.25"])
    time.sleep(0.1)
    assert layers.restored(layers.save(machine, guest))[1].sh("echo copy") == "copy\n"


@pytest.mark.parametrize("memory", [True, False])
def test_a_kept_snapshot_is_on_the_disk_when_it_is_done(layers: Lab, memory: bool) -> None:
    machine, guest = layers.started()
    guest.sh(MORE)
    saved = layers.save(machine, guest, memory=memory)
    files = [path / "upper/root/big" for path in saved.layers if (path / "upper/root/big").exists()]
    assert len(files) == 1
    assert not any(unwritten(path) for path in (*files, *saved.folder.iterdir()))


def unwritten(path: Path) -> bool:
    """Whether a part of a file has no place on the disk yet (Documentation/filesystems/fiemap.rst)."""
    found = bytearray(struct.pack("=QQIIII", 0, 1 << 62, 0, 0, 64, 0) + bytes(64 * 56))
    with open(path, "rb") as file:
        try:
            fcntl.ioctl(file, 0xC020660B, found)
        except OSError as error:
            pytest.skip(f"the filesystem of {path} does not tell: {error}")
    count = struct.unpack_from("=I", found, 20)[0]
    return any(struct.unpack_from("=I", found, 32 + 56 * at + 40)[0] & 0x4 for at in range(count))


def test_no_room_is_said_before_the_machine_is_touched(memory: Lab, tmp_path: Path) -> None:
    machine, guest = memory.started()
    guest.sh("head -c 40000000 /dev/urandom > /tmp/big")
    with SmallDisk(tmp_path / "small") as small, pytest.raises(CannotSave, match="needs"):
        memory.engine.save(machine, small)
    assert guest.sh("echo unharmed") == "unharmed\n"


@pytest.mark.parametrize("disk", list(DiskKind))
def test_a_disk_that_fills_up_during_a_save_harms_nothing(
    tmp_path: Path, make_lab: Callable[..., Lab], disk: DiskKind, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = make_lab(tmp_path, disk)
    machine, guest = lab.started()
    guest.sh("head -c 40000000 /dev/urandom > /tmp/big; echo x > /root/x")
    for staged in (False, True):
        with SmallDisk(tmp_path / f"small{staged}") as small:
            place = room.Place(tmp_path / "staged" if staged else small, staged=staged, in_memory=False)
            (tmp_path / "staged").mkdir(exist_ok=True)
            monkeypatch.setattr(room, "choose", lambda *_, place=place: place)
            with guest.quiet(), pytest.raises(CannotSave, match=r"room|space"):
                lab.engine.save(machine, small, answers=guest.answers)
            assert os.listdir(small) == []
            monkeypatch.undo()
        assert guest.sh("cat /root/x") == "x\n"
    assert lab.restored(lab.save(machine, guest))[1].sh("cat /root/x") == "x\n"


class SmallDisk:
    """A filesystem of 20 MB for a block."""

    def __init__(self, point: Path) -> None:
        self._point = point

    def __enter__(self) -> Path:
        self._point.mkdir()
        done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=20m", "small", self._point], capture_output=True)
        if done.returncode:
            pytest.skip("may not mount")
        return self._point

    def __exit__(self, *_: object) -> None:
        # What was writing there may need a moment to end; what holds a file there for good fails the test.
        until = time.monotonic() + 10
        while subprocess.run(["umount", self._point]).returncode:
            assert time.monotonic() < until, "something holds a file there"
            time.sleep(0.1)


def test_a_snapshot_of_another_engine_version_is_refused_before_anything_starts(memory: Lab) -> None:
    machine, guest = memory.started()
    saved = memory.save(machine, guest)
    head = header.read(saved.folder)
    header.write(saved.folder, replace(head, version="0.0~20990101.0"), durable=False)
    with pytest.raises(SnapshotMismatch, match="20990101"):
        memory.engine.restore(memory.machine(), saved)
    assert guest.sh("echo unharmed") == "unharmed\n"


def test_files_without_memory_are_booted_from_by_any_version(layers: Lab) -> None:
    machine, guest = layers.started()
    guest.sh("echo x > /root/x")
    kept = layers.engine.keep(machine, layers.folder())
    assert kept is not None
    head = header.read(kept.folder)
    header.write(kept.folder, replace(head, version="0.0~20990101.0"), durable=False)
    assert layers.restored(kept)[1].sh("cat /root/x") == "x\n"


@pytest.fixture
def replaceable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The engine's program as one that a test may replace."""
    program = tmp_path / "runsc"
    shutil.copy2(runsc(), program)
    monkeypatch.setenv("TAKEBACK_TEST_RUNSC", os.fspath(program))
    return program


def upgraded(program: Path) -> None:
    """Put another build in its place, as a package does: a new file by rename."""
    real = program.with_name("runsc-real")
    shutil.copy2(program, real)
    new = program.with_name("runsc-new")
    new.write_text(
        f'#!/bin/sh\n[ "$1" = --version ] && echo runsc version 0.0~20990101.0 && exit\nexec "{real}" "$@"\n'
    )
    new.chmod(0o755)
    new.rename(program)


@pytest.mark.parametrize("disk", list(DiskKind))
def test_an_engine_that_is_upgraded_under_a_running_machine_is_noticed(
    tmp_path: Path, replaceable: Path, make_lab: Callable[..., Lab], disk: DiskKind
) -> None:
    lab = make_lab(tmp_path, disk)
    layers, before = disk is DiskKind.LAYERS, lab.engine.version().version
    machine, guest = lab.started()
    guest.sh(MORE)
    early = lab.save(machine, guest)
    old_disk = lab.save(machine, guest, memory=False) if layers else None
    upgraded(replaceable)
    assert lab.engine.version().version == "0.0~20990101.0"

    # What runs goes on under the build that it was started with, and what is saved says which.
    guest.sh(MORE + "; echo y > /root/y")
    late = lab.save(machine, guest)
    assert [header.read(one.folder).version for one in (early, late)] == [before, before]
    for saved in (early, late):
        with pytest.raises(SnapshotMismatch, match=f"{before}, .* 0.0~20990101") as refused:
            lab.engine.restore(lab.machine(), saved)
        assert "doctor" in refused.value.hint_text
    copy = lab.machine()
    with guest.quiet(), pytest.raises(CannotSave, match="replaced"):
        lab.engine.fork(machine, [copy], lab.passing(), answers=guest.answers)
    assert lab.engine.state(copy) is State.STOPPED
    assert guest.sh("cat /root/y") == "y\n"
    lab.engine.pause(machine)
    lab.engine.resume(machine)
    assert guest.sh("echo unharmed") == "unharmed\n"

    # A disk alone is booted anew, by any build and in any size; what is new is driven as its own build wants it.
    bigger = replace(lab.spec, vcpu=1, memory_mib=2048)
    if layers and old_disk is not None:
        for saved, files in ((old_disk, "x\n"), (lab.save(machine, guest, memory=False), "x\ny\n")):
            assert lab.restored(saved, bigger)[1].sh("cat /root/x /root/y 2> /dev/null || true") == files
        with pytest.raises(SnapshotMismatch, match="another image"):
            lab.engine.restore(lab.machine(replace(lab.spec, base=Path("/usr"))), old_disk)
    fresh, theirs = lab.started()
    record = checks.read(fresh.folder)
    assert record is not None and record.current is not None and record.current.version == "0.0~20990101.0"
    assert lab.restored(lab.save(fresh, theirs))[1].sh("echo copy") == "copy\n"


def test_a_missing_layer_is_refused_before_anything_starts(layers: Lab) -> None:
    machine, guest = layers.started()
    guest.sh(MORE)
    saved = layers.save(machine, guest)
    saved.layers[-1].rename(saved.layers[-1].with_name("moved"))
    try:
        with pytest.raises(SnapshotDamaged, match="layer"):
            layers.engine.restore(layers.machine(), saved)
    finally:
        saved.layers[-1].with_name("moved").rename(saved.layers[-1])
    assert guest.sh("cat /root/x") == "x\n"


def test_a_stranger_with_a_recorded_number_survives(memory: Lab) -> None:
    machine, _ = memory.started()
    record = checks.read(machine.folder)
    assert record is not None and record.current is not None
    stranger = subprocess.Popen(["sleep", "1000"])
    try:
        other = memory.machine()
        wrong = replace(record.current, sandbox=(stranger.pid, "x:1"), gofer=(stranger.pid, ""), groups=(), socket="")
        wrong = replace(wrong, bundle=str(other.folder / "run" / "x"), id="tb0123456789abcdef")
        checks.write(other.folder, replace(record, current=wrong))
        assert memory.engine.state(other) is State.STOPPED
        memory.engine.remove(other)
        assert stranger.poll() is None
    finally:
        stranger.kill()
        stranger.wait()


@pytest.mark.parametrize("changed", [{"boot": "another"}, {"pid_namespace": 1}])
def test_after_a_reboot_only_files_are_removed(memory: Lab, changed: dict[str, object]) -> None:
    machine, guest = memory.started()
    record = checks.read(machine.folder)
    assert record is not None
    checks.write(machine.folder, replace(record, **changed))  # type: ignore[arg-type]
    assert memory.engine.state(machine) is State.LOST
    assert memory.engine.watch(machine) is None
    # The numbers are alive, and may be anybody's.
    copy = json.loads((machine.folder / checks.FILE).read_text())
    memory.engine.remove(machine)
    assert guest.answers()
    assert not (machine.folder / checks.FILE).exists()
    os.kill(copy["current"]["sandbox"][0], signal.SIGKILL)
    os.kill(copy["current"]["gofer"][0], signal.SIGKILL)
    for group in copy["current"]["groups"]:
        wait_until(lambda group=group: not Path(group, "cgroup.procs").read_text())
        os.rmdir(group)
    process.reap_orphans()


def wait_until(true: Callable[[], bool]) -> None:
    until = time.monotonic() + 10
    while not true():
        assert time.monotonic() < until
        time.sleep(0.01)


@pytest.mark.parametrize("point", ["header", "clear", "write"])
def test_a_keep_that_is_cut_at_any_point_is_repeated(layers: Lab, monkeypatch: pytest.MonkeyPatch, point: str) -> None:
    """Before the machine is ended, before its record says whose the files are now, and after."""
    machine, guest = layers.started()
    guest.sh("echo x > /root/x")
    holder, name = {
        "header": (mounts, "unmount_below"),
        "clear": (checks, "write"),
        "write": (mounts, "sync_filesystem"),
    }[point]

    def cut(*_: object) -> None:
        raise OSError(28, "cut here")

    monkeypatch.setattr(holder, name, cut)
    with pytest.raises(OSError, match="cut here"):
        layers.engine.keep(machine, layers.folder())
    monkeypatch.undo()
    assert layers.engine.sweep([machine], []) == ()
    kept = layers.engine.keep(machine, layers.folder())
    assert kept is not None
    layers.engine.remove(machine)
    layers.engine.sweep([], [kept.folder])
    assert layers.restored(kept)[1].sh("cat /root/x") == "x\n"


# Each kills the process that uses the engine at one point of a save under LAYERS.
POINTS = ["before pause", "pause", "save", "create", "load", "answers", "clear"]


@pytest.mark.parametrize("point", POINTS)
def test_a_save_whose_process_was_killed_leaves_the_machine_running(layers: Lab, point: str) -> None:
    machine, guest = layers.started()
    guest.sh(MORE)
    with guest.quiet():
        killed_during_save(layers, machine, guest, point)
        assert layers.engine.state(machine) is State.RUNNING
    assert guest.sh("cat /root/x; echo y > /root/y") == "x\n"
    saved = layers.save(machine, guest)
    assert layers.restored(saved)[1].sh("cat /root/x /root/y") == "x\ny\n"
    record = checks.read(machine.folder)
    assert record is not None and record.others == ()


def killed_during_save(lab: Lab, machine: Machine, guest: Guest, point: str) -> None:
    folder = lab.folder()
    child = os.fork()
    if child == 0:
        try:
            if point != "answers":
                name = point.removeprefix("before ")
                real = getattr(Containers, name)

                def dies(*arguments: object, **named: object) -> None:
                    if point == name != "clear":
                        real(*arguments, **named)
                    os._exit(9)

                setattr(Containers, name, dies)
            answers = (lambda: os._exit(9)) if point == "answers" else (lambda: True)
            lab.engine.save(machine, folder, answers=answers)  # type: ignore[arg-type]
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9


def test_a_replacement_that_does_not_answer_gives_way_to_the_old_one(layers: Lab) -> None:
    machine, guest = layers.started()
    guest.sh(MORE)
    with guest.quiet(), pytest.raises(CannotSave, match="did not answer"):
        layers.engine.save(machine, layers.folder(), answers=lambda: False)
    assert guest.sh("cat /root/x; echo y > /root/y") == "x\n"
    assert layers.restored(layers.save(machine, guest))[1].sh("cat /root/y") == "y\n"


def test_an_engine_that_hangs_is_not_waited_for(memory: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    machine, guest = memory.started()
    record = checks.read(machine.folder)
    assert record is not None and record.current is not None
    monkeypatch.setattr(containers, "_QUICK", 0.5)
    os.kill(record.current.sandbox[0], signal.SIGSTOP)
    began = time.monotonic()
    with pytest.raises(EngineFailed, match="no answer"):
        memory.engine.pause(machine)
    assert time.monotonic() - began < 5
    os.kill(record.current.sandbox[0], signal.SIGCONT)
    # The call may have come through after all.
    assert memory.engine.state(machine) is State.RUNNING
    memory.engine.pause(machine)
    assert not guest.answers(0.3)
    memory.engine.resume(machine)
    assert guest.sh("echo unharmed") == "unharmed\n"


def test_a_start_that_fails_leaves_nothing(memory: Lab) -> None:
    machine = memory.machine(replace(memory.spec, supervisor=Path("/nonexistent")))
    with pytest.raises(EngineFailed):
        memory.engine.start(machine)
    assert sorted(os.listdir(machine.folder)) in (["in", "out"], ["in", "out", "run"])
    assert memory.engine.state(machine) is State.STOPPED


@pytest.mark.long
def test_a_chain_of_more_layers_than_the_kernel_takes_is_folded(layers: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    from takeback.machines.engines.gvisor import disk

    monkeypatch.setattr(disk, "LAYERS_CAP", 6)
    monkeypatch.setattr(disk, "LAYERS_MERGED", 4)
    machine, guest = layers.started()
    guest.sh(
        "mkdir /root/d /root/replaced; echo 0 > /root/d/kept; echo 0 > /root/replaced/old; ln /root/d/kept /root/l"
    )
    for number in range(10):
        guest.sh(
            f"head -c 9000000 /dev/zero > /root/big{number}; rm -f /root/big{number - 2}; echo {number} > /root/d/n;"
            f"touch /root/d/t{number}; rm -f /root/d/t{number - 1}; rm -rf /root/replaced; mkdir /root/replaced;"
            f"echo {number} > /root/replaced/new{number}; [ {number} != 3 ] || rm -rf /etc/apt /usr/share/doc"
        )
        saved = layers.save(machine, guest)
    _, copy = layers.restored(saved)
    for each in (guest, copy):
        assert each.sh(
            "ls /root /root/d /root/replaced; cat /root/d/n /root/d/kept /root/l; ls -d /etc/apt || echo gone"
        ) == (
            "/root:\nbig8\nbig9\nd\nl\nreplaced\n\n/root/d:\nkept\nn\nt9\n\n/root/replaced:\nnew9\n9\n0\n0\n"
            "ls: cannot access '/etc/apt': No such file or directory\ngone\n"
        )
    record = checks.read(machine.folder)
    assert record is not None and record.current is not None and len(record.current.layers) <= 6
