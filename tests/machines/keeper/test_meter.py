"""What is counted of sandboxes and snapshots, and what a restart of the keeper loses of it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from takeback.machines.keeper import meter as meters
from takeback.machines.keeper.meter import Meter, metered, stored_bytes
from takeback.machines.model import SnapshotRecord
from takeback.machines.network.flow import Traffic
from tests.machines.keeper.samples import record

GIB = 1 << 30


class Clock:
    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1000.0
        monkeypatch.setattr(meters.time, "monotonic", lambda: self.now)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


def life(cpu_s: float = 0.0) -> Any:
    one = SimpleNamespace(record=record(memory_mib=4096), runs=True, machine=SimpleNamespace(id="m1"))
    one.network = SimpleNamespace(traffic=Traffic())
    one.engine = SimpleNamespace(cpu_seconds=lambda machine: one.cpu)
    one.cpu = cpu_s
    return one


def keeper(lives: list[Any], snapshots: list[SnapshotRecord], now_ns: int = 0) -> Any:
    return SimpleNamespace(
        lives=lambda: lives, snapshots=SimpleNamespace(all=lambda: snapshots), now_ns=lambda: now_ns
    )  # fmt: skip


def snapshot(id: str, created_ns: int, files: int, **layers: int) -> SnapshotRecord:
    return SnapshotRecord(id, "memory", record(), created_ns, file_bytes=files, layers=layers)


def test_layers_that_snapshots_share_count_once_for_the_oldest() -> None:
    one, two = snapshot("1", 1, 10, a=100), snapshot("2", 2, 20, a=100, b=5)
    assert [(found.id, size) for found, size in metered([two, one])] == [("1", 110), ("2", 25)]
    assert stored_bytes([one, two]) == 135 and two.stored_bytes == 125
    assert metered([two]) == [(two, 125)]


def test_memory_counts_while_it_runs_and_processors_by_what_they_did(tmp_path: Path, clock: Clock) -> None:
    one = life()
    meter, world = Meter(tmp_path / "meter.json"), keeper([one], [])
    for _ in range(180):
        clock.now += 1
        one.cpu += 1
        meter.tick(world)
    one.runs = False
    clock.now += 500
    meter.tick(world)
    used = meter.used(one.record.id)
    assert used is not None and used.cpu_s == 180 and used.memory_byte_s == pytest.approx(180 * 4 * GIB)
    # Another machine took its place (a restore): its processor time begins anew.
    one.runs, one.machine, one.cpu = True, SimpleNamespace(id="m2"), 3.0
    meter.read(one)
    assert meter.used(one.record.id) == replace(used, cpu_s=183.0)


def test_another_keeper_goes_on_and_counts_the_time_between(tmp_path: Path, clock: Clock) -> None:
    one, second = life(5.0), 1_000_000_000
    first = Meter(tmp_path / "meter.json")
    saved = [snapshot("1", 1, 100)]
    clock.now += 60
    first.tick(keeper([one], saved, 100 * second))
    clock.now += 30  # lost: it is killed before it writes again
    one.cpu = 9.0
    first.tick(keeper([one], saved, 130 * second))
    again = Meter(tmp_path / "meter.json")
    again.load(140 * second)
    again.tick(keeper([one], saved, 140 * second))
    used = again.used(one.record.id)
    assert used is not None and used.cpu_s == 9.0
    assert used.memory_byte_s == pytest.approx(100 * 4 * GIB) and used.stored_byte_s == pytest.approx(100 * 100)
    later = Meter(tmp_path / "meter.json")
    later.load(50 * second)  # the clock was set back
    later.tick(keeper([one], saved, 50 * second))
    assert later.used(one.record.id) is not None


def test_bytes_of_both_directions_count_once_and_are_kept(tmp_path: Path, clock: Clock) -> None:
    one = life()
    meter, world = Meter(tmp_path / "meter.json"), keeper([one], [])
    one.network.traffic.sent, one.network.traffic.received = 5, 700
    meter.read(one)
    one.runs = False  # paused: what went before still counts
    one.network.traffic.received += 50
    meter.read(one)
    meter.read(one)
    meter.write(world)
    again = Meter(tmp_path / "meter.json")
    again.load(0)
    used = again.used(one.record.id)
    assert used is not None and (used.sent, used.received) == (5, 750)


def test_a_file_from_before_received_bytes_is_read(tmp_path: Path) -> None:
    (tmp_path / "meter.json").write_text('{"format": 1, "at_ns": 0, "sandboxes": {"x": [1.0, 2.0, 3.0, 4, "m", 1.0]}}')
    meter = Meter(tmp_path / "meter.json")
    meter.load(0)
    used = meter.used("x")
    assert used is not None and (used.cpu_s, used.sent, used.received) == (1.0, 4, 0)


def test_a_spoiled_file_is_no_reason_not_to_count(tmp_path: Path, clock: Clock) -> None:
    (tmp_path / "meter.json").write_text('{"format": 99}')
    meter = Meter(tmp_path / "meter.json")
    meter.load(0)
    assert meter.used("x") is None
