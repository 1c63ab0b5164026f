"""When a sandbox has passed a bound that only its keeper holds it to, and how closely it is looked at."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from takeback.machines.engine import DiskKind, MachineSpec, Strain
from takeback.machines.engines.gvisor import growth
from takeback.machines.engines.gvisor.checks import Container, Phase
from takeback.machines.engines.gvisor.disk import Disks
from takeback.machines.engines.gvisor.growth import Growth
from takeback.machines.keeper import bounds

MIB, GIB = 1 << 20, 1 << 30
FAR = Strain(disk=GIB, disk_bound=4 * GIB, room=100 * GIB, whole=200 * GIB)


def test_a_bound_of_zero_is_held_by_something_else() -> None:
    held = Strain(memory=9 * GIB, disk=9 * GIB, room=0, whole=GIB, written=5)
    assert (bounds.over_memory(held), bounds.over_disk(held, 0), bounds.over_room(held, 5)) == ("", "", "")
    assert bounds.until_next(held) == 1.0


def test_memory_and_disk_are_passed_by_the_first_byte_too_many() -> None:
    at = Strain(memory=256 * MIB, memory_bound=256 * MIB, disk=4 * GIB, disk_bound=4 * GIB)
    assert (bounds.over_memory(at), bounds.over_disk(at, 0)) == ("", "")
    over = Strain(memory=256 * MIB + 1, memory_bound=256 * MIB, disk=4 * GIB + 1, disk_bound=4 * GIB)
    assert "256 MiB" in bounds.over_memory(over)
    assert "4096 MiB" in bounds.over_disk(over, 0)
    assert bounds.over_disk(over, 5 * GIB) == ""


def test_a_full_host_stops_only_those_who_write_much() -> None:
    full = Strain(disk_bound=4 * GIB, room=511 * MIB, whole=200 * GIB)
    assert bounds.over_room(full, 64 * MIB) == ""
    assert "511 MiB left" in bounds.over_room(full, 64 * MIB + 1)
    small = Strain(disk_bound=4 * GIB, room=103 * MIB, whole=GIB)
    assert bounds.over_room(small, GIB) == ""


def test_only_what_is_written_while_there_is_little_room_counts() -> None:
    spent = bounds.Spent()
    seen = []
    for room, written in ((4, 90), (4, 100), (0, 100), (0, 130), (0, 135), (4, 140), (0, 150)):
        spent.add(Strain(disk_bound=4 * GIB, room=room * GIB, whole=200 * GIB, written=written))
        seen.append((spent.since, spent.in_need))
    assert seen == [(0, 0), (10, 0), (0, 0), (30, 30), (5, 35), (5, 0), (10, 10)]


@pytest.mark.parametrize(
    ("strain", "seconds"),
    [
        (Strain(), 1.0),
        (FAR, 0.75),
        (Strain(disk=0, disk_bound=40 * GIB, room=100 * GIB, whole=200 * GIB), 1.0),
        (Strain(disk=0, disk_bound=4 * GIB, room=2 * GIB + 512 * MIB, whole=200 * GIB), 0.5),
        (Strain(disk=5 * GIB, disk_bound=4 * GIB, room=100 * GIB, whole=200 * GIB), 0.02),
        (Strain(memory=0, memory_bound=GIB), 0.25),
        (Strain(memory=GIB, memory_bound=GIB), 0.1),
    ],
)
def test_the_nearer_a_bound_the_sooner_the_next_look(strain: Strain, seconds: float) -> None:
    assert bounds.until_next(strain) == seconds


class Counting(Disks):
    """Counts how often a disk was counted."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.times = 0

    def used(self, name: str) -> int:
        self.times += 1
        return super().used(name)


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Growth, Counting, Container, dict[str, int]]:
    told = {"written": 0, "free": 100 * GIB}
    monkeypatch.setattr(growth, "_written", lambda pids, field: told["written"])
    monkeypatch.setattr(growth, "_room", lambda folder: (told["free"], 200 * GIB))
    disks = Counting(tmp_path)
    container = Container("tb1", "", Phase.RUNNING, "", "systrap", "none", (os.getpid(), ""), upper=disks.new())
    return Growth(disks), disks, container, told


SPEC = MachineSpec(Path("/"), DiskKind.LAYERS, Path("/"), disk_mib=1)


def test_a_disk_is_counted_again_only_when_it_may_have_passed_its_bound(
    world: tuple[Growth, Counting, Container, dict[str, int]],
) -> None:
    made, disks, container, told = world
    began = made.strain(SPEC, container).disk
    assert 0 < began < MIB
    (disks.place(container.upper) / "upper" / "big").write_bytes(b"x" * MIB)
    told["written"] = MIB // 2
    assert made.strain(SPEC, container).disk == began and disks.times == 1
    told["written"] = MIB
    assert made.strain(SPEC, container).disk >= began + MIB and disks.times == 2


def test_room_that_goes_without_a_write_is_noticed(
    world: tuple[Growth, Counting, Container, dict[str, int]],
) -> None:
    made, disks, container, told = world
    made.strain(SPEC, container)
    told["free"] -= 65 * MIB + 1
    made.strain(SPEC, container)
    assert disks.times == 2


def test_a_disk_in_memory_has_no_bound_of_its_own(world: tuple[Growth, Counting, Container, dict[str, int]]) -> None:
    made, disks, container, _ = world
    found = made.strain(MachineSpec(Path("/"), DiskKind.MEMORY, Path("/"), memory_mib=256), container)
    assert (found.memory_bound, found.disk_bound, disks.times) == (256 * MIB, 0, 0)
