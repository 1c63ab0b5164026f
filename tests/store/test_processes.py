"""Several processes on one timeline, and processes that die."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from takeback.store.sqlite import SqliteStore
from tests.store.samples import event

WORKER = Path(__file__).with_name("worker.py")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "timeline.sqlite"


def start(path: Path, *args: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, WORKER, path, *args], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )


def test_processes_that_make_and_fill_a_timeline_at_once_lose_and_double_nothing(path: Path) -> None:
    count, processes = 60, 4
    workers = [start(path, "append", str(count)) for _ in range(processes)]
    for worker in workers:
        assert worker.stdout is not None
        assert worker.stdout.readline() == "ready\n"
    outs = []
    for worker in workers:
        assert worker.stdin is not None
        worker.stdin.write("go\n")
        worker.stdin.flush()
    for worker in workers:
        outs += worker.communicate()[0].splitlines()
        assert worker.returncode == 0
    with SqliteStore(path) as store:
        held = [f"{one.seq} {one.id}" for one in store.events()]
        assert store.next_number("s") == count * processes + 1
        assert store.verify() == ()
    assert sorted(held) == sorted(outs)
    assert [int(line.split()[0]) for line in held] == list(range(1, count * processes + 1))
    assert len({line.split()[1] for line in held}) == count * processes
    assert [one.name for one in path.parent.iterdir()] == [path.name]


@pytest.mark.parametrize("after", [1, 2, 30, 100])
def test_a_writer_killed_at_any_time_loses_nothing_it_was_told_is_done(path: Path, after: int) -> None:
    worker = start(path, "forever")
    assert worker.stdout is not None
    told = [worker.stdout.readline().strip() for _ in range(after)]
    worker.kill()
    told += worker.stdout.read().split("\n")[:-1]
    worker.communicate()
    with SqliteStore(path, create=False) as store:
        held = [f"{one.seq} {one.id}" for one in store.events()]
        assert held[: len(told)] == told
        assert len(held) <= len(told) + 1
        assert store.verify() == ()
        assert store.append(event()).seq == len(held) + 1


def test_a_writer_killed_inside_a_transaction_leaves_nothing_of_it(path: Path) -> None:
    with SqliteStore(path) as store:
        store.append(event("before"))
    worker = start(path, "inside")
    assert worker.stdout is not None
    assert worker.stdout.readline() == "2 s1\n"
    worker.kill()
    worker.communicate()
    with SqliteStore(path, create=False) as store:
        assert [one.text for one in store.events()] == ["before"]
        assert store.next_number("s") == 1
