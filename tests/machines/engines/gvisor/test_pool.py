"""Containers made ahead of time: taken only by what they fit, never missed when they fail, and none is left behind."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from select import select

import pytest

from takeback.errors import TimedOut
from takeback.host import pivot, proc
from takeback.machines.engine import DiskKind, Machine, State
from takeback.machines.engines.gvisor import checks, pool
from takeback.machines.engines.gvisor.checks import Container
from takeback.machines.engines.gvisor.containers import Containers
from takeback.machines.engines.gvisor.engine import GVisor
from takeback.machines.engines.gvisor.pool import Pool
from tests.machines.engines.conftest import Lab, runsc
from tests.machines.engines.guest import Guest

MORE = "head -c 12000000 /dev/zero > /root/big; echo x > /root/x"


@pytest.fixture(params=list(DiskKind))
def lab(request: pytest.FixtureRequest, tmp_path: Path, make_lab: Callable[..., Lab]) -> Lab:
    return make_lab(tmp_path, request.param)


@pytest.fixture
def full(lab: Lab) -> Iterator[tuple[Machine, Guest]]:
    """A machine that runs, in a lab whose pool is full with what it needs."""
    machine, guest = lab.started()
    fill(lab)
    yield machine, guest


def fill(lab: Lab) -> None:
    while lab.engine.make_ahead():
        pass


def waiting(lab: Lab) -> list[str]:
    """The containers made ahead that nobody has taken."""
    taken = {current(machine).id for machine in lab.machines if checks.read(machine.folder)}
    return sorted(set(os.listdir(lab.data.pool)) - taken) if lab.data.pool.is_dir() else []


def current(machine: Machine) -> Container:
    record = checks.read(machine.folder)
    assert record is not None and record.current is not None
    return record.current


def was_made_ahead(lab: Lab, machine: Machine) -> bool:
    return Path(current(machine).bundle).parent == lab.data.pool


def of(lab: Lab, name: str) -> Container:
    record = checks.read(lab.data.pool / name)
    assert record is not None and record.current is not None
    return record.current


def test_nothing_is_made_before_anything_was_needed(lab: Lab) -> None:
    assert not lab.engine.make_ahead()
    assert waiting(lab) == []


def test_two_are_made_of_what_was_needed_and_a_start_takes_one(lab: Lab, full: tuple[Machine, Guest]) -> None:
    assert len(waiting(lab)) == 2
    assert not lab.engine.make_ahead()
    machine, guest = lab.started()
    assert was_made_ahead(lab, machine)
    assert guest.sh("cat /proc/1/comm; hostname; echo own > /root/own; ls -d /.takeback") == (
        "init\nsandbox\n/.takeback\n"
    )
    assert "own" not in full[1].sh("ls /root")
    assert len(waiting(lab)) == 1


def test_copies_of_two_states_each_have_their_own(lab: Lab, full: tuple[Machine, Guest]) -> None:
    machine, guest = full
    guest.sh("echo one > /root/state; echo one > /tmp/state; rm -rf /media")
    one = lab.save(machine, guest)
    guest.sh(f"echo two > /root/state; echo two > /tmp/state; {MORE}")
    two = lab.save(machine, guest)
    copies = [lab.restored(two), lab.restored(one)]
    assert all(was_made_ahead(lab, copy) for copy, _ in copies)
    assert [each.sh("cat /root/state /tmp/state; ls -d /media || true") for _, each in copies] == [
        "two\ntwo\nls: cannot access '/media': No such file or directory\n",
        "one\none\nls: cannot access '/media': No such file or directory\n",
    ]
    fill(lab)
    # What came out of the pool is a machine as any other: it can be saved and restored again, also when it is replaced.
    copies[1][1].sh(MORE)
    again, other = lab.restored(lab.save(*copies[1]))
    assert was_made_ahead(lab, again)
    assert other.sh("cat /root/state /root/x; ls /root/big") == "one\nx\n/root/big\n"


def test_copies_of_a_fork_take_what_there_is(lab: Lab, full: tuple[Machine, Guest]) -> None:
    machine, guest = full
    guest.sh("echo same > /root/file")
    copies = [lab.machine() for _ in range(3)]
    with guest.quiet():
        lab.engine.fork(machine, copies, lab.passing(), answers=guest.answers)
    assert [lab.guest(copy).sh("cat /root/file") for copy in copies] == ["same\n"] * 3
    assert sorted(was_made_ahead(lab, copy) for copy in copies) == [False, True, True]


@pytest.mark.parametrize("change", [{"memory_mib": 512}, {"hostname": "other"}, {"max_processes": 200}])
def test_only_what_fits_exactly_is_taken(lab: Lab, full: tuple[Machine, Guest], change: dict[str, object]) -> None:
    machine, guest = lab.started(replace(lab.spec, **change))  # type: ignore[arg-type]
    assert not was_made_ahead(lab, machine)
    assert guest.sh("hostname") == f"{change.get('hostname', 'sandbox')}\n"
    assert len(waiting(lab)) == 2


def test_what_was_needed_the_last_two_times_is_there(lab: Lab, full: tuple[Machine, Guest]) -> None:
    other = replace(lab.spec, memory_mib=512)
    lab.started(other)
    fill(lab)
    assert len(waiting(lab)) == 2
    assert [was_made_ahead(lab, lab.started(spec)[0]) for spec in (other, lab.spec)] == [True, True]


def test_a_changed_supervisor_is_not_what_was_bound(lab: Lab, full: tuple[Machine, Guest]) -> None:
    init = lab.spec.supervisor / "init"
    os.utime(init, ns=(0, os.stat(init).st_mtime_ns + 10**9))
    machine, _ = lab.started()
    assert not was_made_ahead(lab, machine)
    fill(lab)
    assert len(waiting(lab)) == 2
    assert was_made_ahead(lab, lab.started()[0])


def test_what_may_change_under_it_is_not_made_ahead(lab: Lab, tmp_path: Path) -> None:
    (tmp_path / "shared").mkdir()
    lab.started(replace(lab.spec, binds=((tmp_path / "shared", "/mnt", False),)))
    fill(lab)
    assert waiting(lab) == []


@pytest.mark.parametrize("which", ["sandbox", "gofer"])
def test_a_dead_one_is_thrown_away(lab: Lab, full: tuple[Machine, Guest], which: str) -> None:
    killed = [proc.ProcessId(*getattr(of(lab, name), which)) for name in waiting(lab)]
    for one in killed:
        os.kill(one.pid, signal.SIGKILL)
    while any(one.alive() for one in killed):
        time.sleep(0.01)
    machine, guest = lab.started()
    assert not was_made_ahead(lab, machine)
    assert guest.sh("echo up") == "up\n"
    assert waiting(lab) == []
    fill(lab)
    assert len(waiting(lab)) == 2


def test_one_that_fails_when_it_is_loaded_gives_way_to_a_new_one(
    lab: Lab, full: tuple[Machine, Guest], monkeypatch: pytest.MonkeyPatch
) -> None:
    saved = lab.save(*full)
    real = Containers.load

    def dies(self: Containers, container: Container, images: Path) -> None:
        if Path(container.bundle).parent == lab.data.pool:
            os.kill(container.sandbox[0], signal.SIGKILL)
        real(self, container, images)

    monkeypatch.setattr(Containers, "load", dies)
    machine, guest = lab.restored(saved)
    assert not was_made_ahead(lab, machine)
    assert guest.sh("echo up") == "up\n"


def test_one_that_cannot_be_handed_over_gives_way_to_a_new_one(
    lab: Lab, full: tuple[Machine, Guest], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object) -> None:
        raise PermissionError("no")

    monkeypatch.setattr(pivot, "give_root", refused)
    if lab.spec.disk is DiskKind.MEMORY:
        monkeypatch.setattr(Pool, "hand_over", refused)
    machine = lab.machine()
    lab.engine.start(machine)
    assert not was_made_ahead(lab, machine)
    assert lab.guest(machine).sh("echo up") == "up\n"
    assert len(waiting(lab)) == 1


def test_there_is_no_pool_when_memory_is_short(
    lab: Lab, full: tuple[Machine, Guest], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool, "_MEMORY_LEFT", 1 << 60)
    assert not lab.engine.make_ahead()
    assert waiting(lab) == []
    machine, _ = lab.started()
    assert not was_made_ahead(lab, machine)


def test_its_limits_are_those_of_the_machine(lab: Lab) -> None:
    if lab.engine.capabilities().limits:
        pytest.skip(lab.engine.capabilities().limits)
    small = replace(lab.spec, memory_mib=128)
    lab.started(small)
    fill(lab)
    machine, guest = lab.started(small)
    assert was_made_ahead(lab, machine)
    # Set back while it waited, it has its share now.
    shares = [path for group in current(machine).groups for path in Path(group).glob("cpu.[sw][he]*")]
    assert [path.read_text() for path in shares] in (["1024\n"], ["100\n"])
    handle = lab.engine.watch(machine)
    assert handle is not None
    with suppress(TimedOut):
        for _ in range(10):
            guest.background(["/usr/bin/python3", "-c", "import time; x = b'x' * (90 << 20); time.sleep(100)"])
    assert select([handle], [], [], 30)[0]
    os.close(handle)
    assert "128 MiB" in lab.engine.ended_because(machine)


def test_what_was_not_taken_goes_when_its_keeper_ends(lab: Lab, full: tuple[Machine, Guest]) -> None:
    lab.engine.drop_ahead()
    assert waiting(lab) == []
    assert not lab.engine.make_ahead()


def test_a_sweep_leaves_what_is_there_and_what_was_taken(lab: Lab, full: tuple[Machine, Guest]) -> None:
    machine, guest = lab.started()
    assert was_made_ahead(lab, machine)
    assert lab.engine.sweep(lab.machines, []) == ()
    assert guest.sh("echo unharmed") == "unharmed\n"
    assert was_made_ahead(lab, lab.started()[0])


def test_the_next_keeper_removes_what_a_killed_one_made(lab: Lab, full: tuple[Machine, Guest]) -> None:
    machine, guest = lab.started()
    assert was_made_ahead(lab, machine)
    (left,) = waiting(lab)
    processes = of(lab, left).processes()
    (lab.data.pool / left / checks.FILE).write_text("{")  # its record says nothing any more
    following = GVisor(runsc(), lab.data)
    assert f"container {left}, made ahead" in following.sweep(lab.machines, [])
    assert not any(one.alive() for one in processes)
    assert waiting(lab) == []
    assert guest.sh("echo unharmed") == "unharmed\n"
    assert following.state(machine) is State.RUNNING


POINTS: list[tuple[type, str]] = [(Pool, "hand_over"), (Containers, "give_disk"), (Containers, "load")]


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("where", POINTS, ids=[name for _, name in POINTS])
def test_a_keeper_killed_while_it_takes_one_leaves_nothing(
    lab: Lab, full: tuple[Machine, Guest], where: tuple[type, str], late: bool
) -> None:
    if where[1] == "give_disk" and lab.spec.disk is DiskKind.MEMORY:
        pytest.skip("its disk is there from the first")
    saved = lab.save(*full)
    machine = lab.machine()
    child = os.fork()
    if child == 0:
        try:
            real = getattr(*where)

            def dies(*arguments: object) -> None:
                if late:
                    real(*arguments)
                os._exit(9)

            setattr(*where, dies)
            lab.engine.restore(machine, saved)
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9
    following = GVisor(runsc(), lab.data)
    processes = current(machine).processes()
    assert was_made_ahead(lab, machine)
    following.remove(machine)
    assert not any(one.alive() for one in processes)
    following.sweep(lab.machines, lab.snapshots)
    assert os.listdir(lab.data.pool) == []
