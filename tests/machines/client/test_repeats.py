"""What works once works every time: restores of one snapshot, chains, starts at once, lives one after another.

Does not cover: how long they take (the bench prints that).
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from takeback.machines.client.sandbox import Sandbox
from takeback.machines.client.snapshots import Snapshots
from tests.machines.client import leaks
from tests.machines.client.conftest import World

COUNTER = "i=0; while :; do i=$((i+1)); echo $i > /tmp/next; mv /tmp/next /tmp/count; sleep 0.02; done"
MIB = 1 << 20


def often(short: int, long: int) -> pytest.MarkDecorator:
    """Run a test so many times in the short tier, and so many in the long one."""
    return pytest.mark.parametrize("times", [short, pytest.param(long, marks=pytest.mark.long)])


def both(call: Callable[[int], Any], count: int) -> list[Any]:
    """Return what calls at the same time answer."""
    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(call, range(count)))


@pytest.fixture(params=["layers", pytest.param("memory", marks=pytest.mark.long)])
def box(world: World, request: pytest.FixtureRequest) -> Iterator[Sandbox]:
    """A machine with a file and a process that counts."""
    with Sandbox.create(client=world.client, disk=request.param) as made:
        made.files.write("/workspace/file", "first")
        made.spawn(COUNTER)
        made.exec("until [ -s /tmp/count ]; do sleep 0.01; done", check=True)
        yield made
    for one in Snapshots(world.client).list():
        Snapshots(world.client).delete(one["id"])


def moves(box: Sandbox) -> bool:
    """Whether its counter goes on."""
    return box.exec("a=$(cat /tmp/count); until [ $(cat /tmp/count) -gt $a ]; do sleep 0.05; done").exit_code == 0


@often(3, 50)
def test_one_snapshot_is_restored_as_often_as_wanted(world: World, box: Sandbox, times: int) -> None:
    saved = box.snapshot()
    for number in range(times):
        with Sandbox.create(client=world.client, snapshot=saved["id"]) as copy:
            assert copy.files.read_text("/workspace/file") == "first"
            assert moves(copy)
            copy.files.write("/workspace/file", str(number))
    box.files.write("/workspace/file", "second")
    for _ in range(max(times // 10, 2)):
        box.restore(saved)
        assert box.files.read_text("/workspace/file") == "first" and moves(box)
        box.files.write("/workspace/file", "second")


def stored(world: World) -> int:
    """Return the bytes that lie in snapshots and layers."""
    total = 0
    for place in ("snapshots", "layers", "sandboxes"):
        for folder, _, names in os.walk(world.directory.root / place):
            for name in names:
                try:
                    total += os.lstat(os.path.join(folder, name)).st_blocks * 512
                except FileNotFoundError:
                    continue
    return total


@often(4, 20)
def test_a_chain_of_snapshots_and_restores_keeps_every_step_and_its_disk_bounded(
    world: World, box: Sandbox, times: int
) -> None:
    box.exec("head -c 20000000 /dev/urandom > big", check=True)
    current, sizes = box, []
    for number in range(times):
        current.exec(f"echo {number} >> story; head -c 1000000 /dev/urandom > small", check=True)
        saved = current.snapshot()
        following = Sandbox.create(client=world.client, snapshot=saved["id"])
        for old in Snapshots(world.client).list():
            if old["id"] != saved["id"]:
                Snapshots(world.client).delete(old["id"])
        if current is not box:
            current.delete()
        current = following
        assert current.files.read_text("/workspace/story").split() == [str(step) for step in range(number + 1)]
        assert moves(current)
        sizes.append(stored(world))
    current.delete()
    # Each step rewrites one megabyte; what earlier steps no longer need must not be kept with it.
    assert sizes[-1] - sizes[1] < (times * 2 + 16) * MIB, sizes


@often(4, 16)
def test_many_starts_of_one_snapshot_at_once_do_not_collide(world: World, box: Sandbox, times: int) -> None:
    saved = box.snapshot()
    copies = both(lambda number: Sandbox.create(client=world.client, snapshot=saved["id"], name=f"n{number}"), times)
    assert len({copy.id for copy in copies}) == times
    for number, copy in enumerate(copies):
        copy.files.write("/workspace/file", str(number))
    answers = both(lambda number: copies[number].exec("cat file; echo; hostname; cat /etc/machine-id").stdout, times)
    assert [answer.split()[0] for answer in answers] == [str(number) for number in range(times)]
    assert len({answer.split()[2] for answer in answers}) == times
    assert all(both(lambda number: moves(copies[number]), times))
    both(lambda number: copies[number].delete(), times)


@pytest.mark.long
def test_what_is_changed_after_a_second_and_third_pause_and_snapshot_is_not_lost(world: World, box: Sandbox) -> None:
    for number in range(4):
        box.files.write(f"/workspace/{number}", "x" * 100_000 * number)
        box.pause()
        box.wake()
        saved = box.snapshot()
        box.pause()
        with Sandbox.create(client=world.client, snapshot=saved["id"]) as copy:
            for earlier in range(number + 1):
                assert len(copy.files.read("/workspace/" + str(earlier))) == 100_000 * earlier
        box.wake()
    assert box.exec("ls").stdout.split() == ["0", "1", "2", "3", "file"] and moves(box)


def test_a_copy_of_a_running_machine_has_its_newest_state(box: Sandbox) -> None:
    for number in range(5):
        box.files.write("/workspace/file", str(number))
        seen = int(box.exec("cat /tmp/count").stdout)
        copy = box.fork()
        assert isinstance(copy, Sandbox)
        assert copy.files.read_text("/workspace/file") == str(number)
        assert int(copy.exec("cat /tmp/count").stdout) >= seen
        copy.delete()


@pytest.mark.long
@often(6, 100)
def test_lives_one_after_another_leave_nothing(world: World, times: int) -> None:
    with Sandbox.create(client=world.client) as stays:
        stays.exec("true", check=True)
        wait_until_quiet(world, 1)
        before = counted(world)
        for number in range(times):
            with Sandbox.create(client=world.client, disk=("layers", "memory")[number % 2]) as box:
                box.exec("echo x > file; mkdir folder", check=True)
                if number % 5 == 0:
                    box.fork().delete()  # type: ignore[union-attr]
        wait_until_quiet(world, 1)
        after = counted(world)
        assert {name: max(found, before[name]) for name, found in after.items()} == before


def counted(world: World) -> dict[str, int]:
    """Count what the machines of a data directory take of the host."""
    keeper = leaks.keepers(world.data)[0]
    return {
        "processes": len(leaks.processes(world.data)),
        "mounts": len(leaks.mounts(world.data)),
        "elsewhere": len(leaks.elsewhere(world.data)),
        "files": len(leaks.files(world.data)),
        "layers": len(os.listdir(world.directory.layers)),
        "descriptors": len(os.listdir(f"/proc/{keeper}/fd")),
    }


def wait_until_quiet(world: World, machines: int) -> None:
    """Wait until what was deleted is gone: deleting goes on after its answer."""
    until = time.monotonic() + 30
    calm, seen = 0, -1
    while calm < 30 and time.monotonic() < until:  # for as long as the keeper waits before it makes some ahead
        folders = len(os.listdir(world.directory.root / "sandboxes"))
        layers = len(os.listdir(world.directory.layers))
        before, seen = seen, len(leaks.processes(world.data))
        calm = calm + 1 if folders == machines and layers <= machines and before == seen else 0
        time.sleep(0.05)


@pytest.mark.long
def test_two_restores_of_one_snapshot_at_once_do_not_collide(world: World, box: Sandbox) -> None:
    saved = box.snapshot()
    other = Sandbox.create(client=world.client, snapshot=saved["id"])
    for _ in range(2):
        for one in (box, other):
            one.files.write("/workspace/file", "changed")
        both(lambda number: (box, other)[number].restore(saved["id"]), 2)
        for one in (box, other):
            assert one.files.read_text("/workspace/file") == "first" and moves(one)
    assert Path(world.directory.snapshot(saved["id"])).is_dir()
    other.delete()
