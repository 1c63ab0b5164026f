"""Several candidates at once, each in a copy of a real machine."""

from __future__ import annotations

import _thread
import signal
from collections.abc import Iterator

import pytest

from takeback.errors import UsageError
from takeback.machines.client.explore import explore
from takeback.machines.client.sandbox import Sandbox
from tests.machines.client.conftest import World
from tests.machines.client.test_trial import living, settled


@pytest.fixture
def box(world: World) -> Iterator[Sandbox]:
    with Sandbox.create(client=world.client, name="explored", memory_mib=512) as made:
        yield made


def test_the_first_that_passes_is_kept_and_one_that_hangs_is_ended(box: Sandbox, world: World) -> None:
    found = explore(
        box, ["sleep 1000", "echo wrong > file", "sleep 0.5; echo right > file"], "grep right file", parallel=3
    )
    assert found.passed and found.best == 2
    assert found.kept.info["name"] == "explored" and found.kept.files.read_text("/workspace/file") == "right\n"
    assert [one.number for one in found.tried] == [1, 2] and [one.passed for one in found.tried] == [False, True]
    assert settled(world, 1) == [found.kept.id]


def test_the_best_by_score_is_kept(box: Sandbox, world: World) -> None:
    steps = [f"echo {number} > file" for number in (3, 9, 5)]
    found = explore(box, steps, "test -s file", parallel=2, score="echo score is; cat file")
    assert found.best == 1 and [one.score for one in found.tried] == [3.0, 9.0, 5.0]
    assert found.kept.files.read_text("/workspace/file") == "9\n" and living(world) == [found.kept.id]

    worst = explore(found.kept, steps, score=lambda copy: -float(copy.files.read_text("/workspace/file")))
    assert worst.best == 0 and worst.kept.files.read_text("/workspace/file") == "3\n"


def test_with_none_that_passes_the_original_goes_on(box: Sandbox, world: World) -> None:
    box.files.write("/workspace/file", "original")

    def broken(copy: Sandbox) -> None:
        raise ZeroDivisionError

    found = explore(box, ["echo x > file; exit 1", broken, "echo y > file"], "false", parallel=2)
    assert (found.passed, found.best, found.kept) == (False, None, box)
    assert len(found.tried) == 3 and "ZeroDivisionError" in found.tried[1].log
    assert living(world) == [box.id] and box.files.read_text("/workspace/file") == "original"
    odd = explore(box, ["true"], score="echo no number")
    assert not odd.passed and isinstance(odd.tried[0].error, UsageError)
    with pytest.raises(UsageError):
        explore(box, [])


def test_ctrl_c_leaves_the_original_and_no_copy(box: Sandbox, world: World) -> None:
    def slow(copy: Sandbox) -> None:
        _thread.interrupt_main()
        copy.exec("sleep 1000", timeout_ms=900_000)

    # Whoever started these tests in the background may have left SIGINT ignored.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            explore(box, [slow], parallel=1)
    finally:
        signal.signal(signal.SIGINT, before)
    assert settled(world, 1) == [box.id]
    assert box.exec("echo well").stdout == "well\n"
