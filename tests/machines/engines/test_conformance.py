"""What every engine promises, whatever the disk kind; at the end of each test nothing may be left behind."""

from __future__ import annotations

import json
import os
import select
import signal
import threading
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from takeback.errors import CannotSave, EngineFailed, MachineGone, SnapshotDamaged, SnapshotMismatch, TimedOut
from takeback.host import process
from takeback.machines.engine import DiskKind, Machine, State
from takeback.machines.engines.gvisor import checks
from tests.machines.engines.conftest import Lab
from tests.machines.engines.guest import Guest

STATE = Path(__file__).with_name("state.py").read_text()
# An ordinary user with one number can give files on the host to nobody else.
OWNER = 0 if Path("/proc/self/uid_map").read_text().split()[2:] == ["1"] else 1000
COUNTER = "i=0; while :; do i=$((i+1)); echo $i > /root/count; sleep 0.05; done"


def needs_memory(lab: Lab) -> None:
    """Skip what an engine says it does not do."""
    if lab.engine.capabilities().memory_snapshot:
        pytest.skip(lab.engine.capabilities().memory_snapshot)


def counts(guest: Guest) -> bool:
    """Whether the counter started with COUNTER goes on."""
    before = guest.sh("cat /root/count")
    time.sleep(0.3)
    return guest.sh("cat /root/count") != before


def test_a_machine_starts_and_answers(lab: Lab) -> None:
    machine, guest = lab.started()
    assert guest.sh("echo hello") == "hello\n"
    assert lab.engine.state(machine) is State.RUNNING
    assert guest.sh("hostname; id -u; cat /proc/1/comm") == "sandbox\n0\ninit\n"


def test_a_prepared_machine_starts(lab: Lab) -> None:
    machine = lab.machine()
    lab.engine.prepare(machine)
    assert lab.engine.state(machine) is State.CREATED
    lab.engine.start(machine)
    assert lab.guest(machine).sh("echo hello") == "hello\n"


def test_a_machine_that_runs_is_not_started_again(lab: Lab) -> None:
    machine, guest = lab.started()
    with pytest.raises(EngineFailed):
        lab.engine.start(machine)
    assert guest.sh("echo still here") == "still here\n"


def test_a_paused_machine_stands_still_and_goes_on(lab: Lab) -> None:
    machine, guest = lab.started()
    guest.background(["/bin/sh", "-c", COUNTER])
    time.sleep(0.2)
    lab.engine.pause(machine)
    assert lab.engine.state(machine) is State.PAUSED
    assert not guest.answers(0.3)
    lab.engine.pause(machine)
    lab.engine.resume(machine)
    assert lab.engine.state(machine) is State.RUNNING
    assert counts(guest)


def test_source_and_two_copies_go_their_own_ways(lab: Lab) -> None:
    needs_memory(lab)
    machine, guest = lab.started()
    guest.background(["/bin/sh", "-c", COUNTER])
    guest.sh(
        f"mkdir -p /root/a /opt/x; echo same > /root/a/file; rm -rf /media; echo t > /tmp/t; chown {OWNER} /root/a/file"
    )
    saved = lab.save(machine, guest)
    assert lab.engine.state(machine) is State.RUNNING
    one_machine, one = lab.restored(saved)
    two_machine, two = lab.restored(lab.engine.saved(saved.folder))
    for number, each in enumerate((guest, one, two)):
        assert each.sh("cat /root/a/file /tmp/t; stat -c %u /root/a/file; ls -d /media 2>&1 || true").startswith(
            f"same\nt\n{OWNER}\nls: cannot access"
        )
        assert counts(each)
        each.sh(f"echo {number} > /root/a/file; rm /tmp/t; mkdir /root/made{number}")
    assert [each.sh("cat /root/a/file; ls /root | grep made") for each in (guest, one, two)] == [
        "0\nmade0\n",
        "1\nmade1\n",
        "2\nmade2\n",
    ]
    for each in (machine, one_machine, two_machine):
        assert lab.engine.state(each) is State.RUNNING


@pytest.mark.parametrize("how", ["while it runs", "killed", "paused"])
def test_the_files_of_a_machine_that_ends_are_kept_where_they_lie(lab: Lab, how: str) -> None:
    machine, guest = lab.started()
    guest.sh("echo first > /root/file; rm -rf /media")
    if how == "paused":
        lab.engine.pause(machine)
    ended = lab.engine.watch(machine)
    assert ended is not None
    if how == "killed":
        record = checks.read(machine.folder)
        pid = record.current.sandbox[0] if record is not None and record.current is not None else None
        os.kill(pid or json.loads((machine.folder / "fake.json").read_text())["pid"], signal.SIGKILL)
    kept = lab.engine.keep(machine, lab.folder())
    if machine.spec.disk is DiskKind.MEMORY and kept is None:
        os.close(ended)
        return
    assert kept is not None and not kept.memory
    assert select.select([ended], [], [], 10)[0] and lab.engine.state(machine) is State.STOPPED
    os.close(ended)
    # Repeated, as after a crash in between, it finds the same.
    again = lab.engine.keep(machine, lab.folder())
    assert lab.engine.sweep([machine], []) == () and kept.layers == (again.layers if again is not None else ())
    lab.engine.remove(machine)
    lab.engine.sweep([], [kept.folder])
    copy_machine, copy = lab.restored(lab.engine.saved(kept.folder))
    assert copy.sh("cat /root/file; ls -d /media 2>&1 || true").startswith("first\nls: cannot access")
    copy.sh("echo second > /root/file")
    assert lab.engine.state(copy_machine) is State.RUNNING
    assert lab.restored(lab.engine.saved(kept.folder))[1].sh("cat /root/file") == "first\n"


@pytest.mark.parametrize("megabytes", [pytest.param(0, marks=pytest.mark.long), 40])
def test_every_kind_of_state_survives_in_source_and_copies(lab: Lab, megabytes: int) -> None:
    needs_memory(lab)
    machine, guest = lab.started()
    # With many changed bytes the disk is frozen in another way than with few.
    guest.sh(f"mkdir -p /var/lib; head -c {megabytes}000000 /dev/urandom > /var/lib/big; sync")
    disk = "memory" if machine.spec.disk is DiskKind.MEMORY else "layers"
    program = guest.background(["/usr/bin/python3", "-c", STATE, disk])
    wait_for(guest, program, "ready")
    check(guest, program, 1)
    big = guest.sh("md5sum < /var/lib/big")
    saved = lab.save(machine, guest)
    copies = [lab.restored(saved)[1] for _ in range(2)]
    for each in (guest, *copies):
        check(each, program, 2)
        assert each.sh("md5sum < /var/lib/big") == big
    check(guest, program, 3)


def wait_for(guest: Guest, program: int, text: str) -> None:
    until = time.monotonic() + 20
    out = ""
    while time.monotonic() < until:
        out = guest.output(program)
        if text in out.splitlines() or any(line.startswith("bad") for line in out.splitlines()):
            break
    assert text in out.splitlines(), out


def check(guest: Guest, program: int, number: int) -> None:
    guest._loop.call(guest.link.signal(program, signal.SIGUSR1))
    wait_for(guest, program, f"ok {number}")


def test_ten_saves_in_a_row_each_hold_their_moment(lab: Lab) -> None:
    machine, guest = lab.started()
    saved = []
    for number in range(10):
        guest.sh(f"echo {number} > /root/number; head -c {3 * (number % 2)}000000 /dev/zero > /root/n{number}")
        if number % 3 == 2:
            guest.sh("head -c 12000000 /dev/zero > /root/big; rm -rf /root/n0")
        saved.append(lab.save(machine, guest))
    for number in (0, 4, 9):
        copy, other = lab.restored(saved[number])
        assert other.sh("cat /root/number") == f"{number}\n"
        assert ("n0" in other.sh("ls /root").split()) == (number < 2)
        lab.engine.remove(copy)
    assert guest.sh("cat /root/number") == "9\n"


def test_a_paused_machine_stays_paused_through_a_save(lab: Lab) -> None:
    machine, guest = lab.started()
    guest.sh("head -c 12000000 /dev/zero > /root/big")
    with guest.quiet():
        lab.engine.pause(machine)
        saved = lab.engine.save(machine, lab.folder(), answers=guest.answers)
        assert lab.engine.state(machine) is State.PAUSED
        assert not guest.answers(0.3)
        lab.engine.resume(machine)
    assert guest.sh("echo on") == "on\n"
    assert lab.restored(saved)[1].sh("echo copy") == "copy\n"


def test_copies_made_beside_the_save(lab: Lab) -> None:
    machine, guest = lab.started()
    guest.sh("echo x > /root/x")
    for megabytes in (0, 12):
        guest.sh(f"head -c {megabytes}000000 /dev/zero > /root/big")
        copies = [lab.machine() for _ in range(3)]
        with guest.quiet():
            lab.engine.fork(machine, copies, lab.passing(), answers=guest.answers)
        for number, copy in enumerate(copies):
            other = lab.guest(copy)
            assert other.sh("cat /root/x") == "x\n"
            other.sh(f"echo {number} > /root/x")
        assert guest.sh("cat /root/x") == "x\n"


def test_a_cut_file_is_refused_before_anything_starts(lab: Lab) -> None:
    needs_memory(lab)
    machine, guest = lab.started()
    saved = lab.save(machine, guest)
    for name, _ in saved.files:
        path = saved.folder / name
        whole = path.read_bytes()
        for spoiled in (whole[: len(whole) // 2], whole[:-1] + bytes([whole[-1] ^ 1])):
            path.write_bytes(spoiled)
            with pytest.raises(SnapshotDamaged):
                lab.engine.restore(lab.machine(), saved)
        path.unlink()
        with pytest.raises(SnapshotDamaged):
            lab.engine.restore(lab.machine(), saved)
        path.write_bytes(whole)
    head = saved.folder / "engine.snap"
    whole = head.read_bytes()
    for spoiled in (b"", whole[:10], whole[: len(whole) // 2], b"X" + whole[1:], whole[:-3] + b"xyz"):
        head.write_bytes(spoiled)
        with pytest.raises(SnapshotDamaged):
            lab.engine.restore(lab.machine(), saved)
    head.write_bytes(whole)
    # Files that were rewritten with the same content are read whole, and are good.
    assert lab.restored(saved)[1].sh("echo copy") == "copy\n"
    assert guest.sh("echo source") == "source\n"


def test_another_spec_is_refused_before_anything_starts(lab: Lab) -> None:
    machine, guest = lab.started()
    saved = lab.save(machine, guest)
    for other in (
        replace(lab.spec, memory_mib=2048),
        replace(lab.spec, masked=("/opt",)),
        replace(lab.spec, base=Path("/usr")),
    ):
        stranger = lab.machine(other)
        with pytest.raises(SnapshotMismatch):
            lab.engine.restore(stranger, saved)
        assert lab.engine.state(stranger) is State.STOPPED
    assert lab.restored(saved, replace(lab.spec, hostname="other"))[1].sh("echo copy") == "copy\n"


def test_what_was_saved_without_memory_boots_at_another_size(lab: Lab) -> None:
    machine, guest = lab.started()
    guest.sh("echo kept > /root/file")
    try:
        saved = lab.save(machine, guest, memory=False)
    except CannotSave:
        assert lab.spec.disk is DiskKind.MEMORY
        return
    small = replace(lab.spec, memory_mib=lab.spec.memory_mib // 2, vcpu=1)
    assert lab.restored(saved, small)[1].sh("cat /root/file") == "kept\n"
    with pytest.raises(SnapshotMismatch):
        lab.engine.restore(lab.machine(replace(small, masked=("/opt",))), saved)


def test_a_killed_engine_process_is_seen_and_told(lab: Lab) -> None:
    machine, guest = lab.started()
    handle = lab.engine.watch(machine)
    assert handle is not None
    os.kill(main_process(machine), signal.SIGKILL)
    assert select.select([handle], [], [], 5)[0]
    os.close(handle)
    assert lab.engine.state(machine) is State.STOPPED
    with pytest.raises(MachineGone):
        lab.engine.save(machine, lab.folder(), answers=guest.answers)
    with pytest.raises(MachineGone):
        lab.engine.pause(machine)
    lab.engine.remove(machine)
    lab.engine.remove(machine)


def main_process(machine: Machine) -> int:
    """The process whose end is the machine's end."""
    record = checks.read(machine.folder)
    if record is None:
        return int(json.loads((machine.folder / "fake.json").read_text())["pid"])
    assert record.current is not None
    return record.current.sandbox[0]


def test_a_machine_that_ended_by_itself_is_stopped(lab: Lab) -> None:
    machine, guest = lab.started()
    handle = lab.engine.watch(machine)
    assert handle is not None
    guest._loop.loop.call_soon_threadsafe(guest.link.shutdown, 500)
    assert select.select([handle], [], [], 10)[0]
    os.close(handle)
    assert lab.engine.state(machine) is State.STOPPED
    assert lab.engine.watch(machine) is None


def test_a_machine_over_its_memory_ends_alone_and_says_so(lab: Lab) -> None:
    if lab.engine.capabilities().limits:
        pytest.skip(lab.engine.capabilities().limits)
    _, other = lab.started()
    machine, guest = lab.started(replace(lab.spec, memory_mib=128))
    handle = lab.engine.watch(machine)
    assert handle is not None
    with suppress(TimedOut):  # it may be gone before the last of them
        for _ in range(10):
            guest.background(["/usr/bin/python3", "-c", "import time; x = b'x' * (90 << 20); time.sleep(100)"])
    assert select.select([handle], [], [], 30)[0]
    os.close(handle)
    assert lab.engine.state(machine) is State.STOPPED
    assert "128 MiB" in lab.engine.ended_because(machine)
    assert other.sh("echo unharmed") == "unharmed\n"


def test_too_many_processes_are_refused_inside_only(lab: Lab) -> None:
    if lab.engine.version().name == "fake":
        pytest.skip("the fake engine bounds nothing")
    _, guest = lab.started(replace(lab.spec, max_processes=60))
    code, out = guest.run(["/bin/sh", "-c", "i=0; while [ $i -lt 100 ]; do sleep 5 & i=$((i+1)); done"], uid=1000)
    assert code != 0
    assert "fork" in out
    assert guest.sh("echo unharmed") == "unharmed\n"


def test_usage_tells_time_memory_and_processes(lab: Lab) -> None:
    needs_memory(lab)
    machine, guest = lab.started()
    before = lab.engine.usage(machine)
    guest.sh("i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done; head -c 12000000 /dev/zero > /tmp/x")
    after = lab.engine.usage(machine)
    assert after.cpu_s > before.cpu_s
    assert after.memory > before.memory + 10_000_000
    assert after.processes >= 1
    lab.save(machine, guest)
    assert lab.engine.usage(machine).cpu_s >= after.cpu_s


def test_a_restored_machine_can_be_saved_and_restored_again(lab: Lab) -> None:
    machine, guest = lab.started()
    text = ""
    for number in range(5):
        guest.sh(f"echo {number} >> /root/story; head -c {12 * (number % 2)}000000 /dev/zero > /root/big")
        text += f"{number}\n"
        saved = lab.save(machine, guest)
        lab.engine.remove(machine)
        machine, guest = lab.restored(saved)
        assert guest.sh("cat /root/story") == text


def test_many_copies_at_once(lab: Lab) -> None:
    machine, guest = lab.started()
    guest.sh("echo x > /root/x")
    saved = lab.save(machine, guest)
    copies = [lab.machine() for _ in range(6)]
    failed: list[BaseException] = []

    def one(number: int) -> None:
        try:
            lab.engine.restore(copies[number], saved)
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=one, args=(number,)) for number in range(len(copies))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    assert [lab.guest(copy).sh("cat /root/x") for copy in copies] == ["x\n"] * len(copies)
    process.reap_orphans()


def test_sweep_keeps_what_is_needed(lab: Lab) -> None:
    machine, guest = lab.started()
    guest.sh("head -c 12000000 /dev/zero > /root/big; echo x > /root/x")
    saved = lab.save(machine, guest)
    lab.engine.sweep(lab.machines, lab.snapshots)
    lab.engine.remove(machine)
    lab.engine.sweep([], [saved.folder])
    copy, other = lab.restored(saved)
    assert other.sh("cat /root/x") == "x\n"
    lab.engine.sweep([copy], [])
    assert other.sh("cat /root/x; md5sum /root/big | wc -l") == "x\n1\n"
