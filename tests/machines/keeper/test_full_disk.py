"""What a keeper does when it cannot write a sandbox's record: nothing is half done, and a sandbox can be deleted."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from takeback.errors import DiskFull
from takeback.machines.engine import State
from takeback.machines.keeper import server
from takeback.machines.keeper.keeper import Keeper
from takeback.machines.keeper.machine import Life
from takeback.machines.model import SandboxRecord, SandboxState
from tests.machines.keeper.samples import SECOND, record


class Disk:
    """A registry on a disk that may be full."""

    def __init__(self, folder: Path) -> None:
        self.full = False
        self.written: SandboxRecord | None = None
        self._folder = folder

    def folder(self, id: str) -> Path:
        return self._folder

    def save(self, record: SandboxRecord, *, durable: bool) -> None:
        if self.full:
            raise OSError(errno.ENOSPC, "No space left on device")
        self.written = record

    def is_spoiled(self, id: str) -> bool:
        return False

    def remove(self, id: str) -> None:
        self.written = None


class Engine:
    """Says what was asked of it."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str]] = []
        self.is_in = State.RUNNING

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda machine, *more: self.asked.append((name, machine.id))

    def state(self, machine: Any) -> State:
        return self.is_in

    def keep(self, machine: Any, into: Path) -> Path:
        return into

    def did(self, name: str) -> list[str]:
        return [id for asked, id in self.asked if asked == name]


class Link:
    closed = False

    def close(self, why: str = "") -> None:
        self.closed = True


def run(tmp_path: Path, test: Callable[[Any, Disk, Engine], Awaitable[None]], **changes: Any) -> None:
    async def nothing(*arguments: Any) -> None:
        pass

    async def main() -> None:
        disk, engine = Disk(tmp_path), Engine()
        network: Any = SimpleNamespace(detach=nothing, attach=nothing, close=nothing)
        one: Any = Life(record(**changes), engine, disk, lambda: 5 * SECOND, network)  # type: ignore[arg-type]
        one._link = Link()
        await test(one, disk, engine)

    asyncio.run(main())


@pytest.mark.parametrize(
    ("state", "change", "after"),
    [
        (SandboxState.RUNNING, Life.pause, SandboxState.PAUSED),
        (SandboxState.PAUSED, Life.wake, SandboxState.RUNNING),
    ],
)
def test_what_cannot_be_written_is_not_begun_and_can_be_repeated(
    tmp_path: Path, state: SandboxState, change: Any, after: SandboxState
) -> None:
    async def test(one: Any, disk: Disk, engine: Engine) -> None:
        disk.full = True
        with pytest.raises(OSError, match="No space left"):
            await change(one)
        assert (one.record.state, engine.asked) == (state, [])
        disk.full = False
        await change(one)
        assert (one.record.state, disk.written) == (after, one.record)

    run(tmp_path, test, state=state)


def test_settings_that_cannot_be_written_stay_as_they_were(tmp_path: Path) -> None:
    async def test(one: Any, disk: Disk, engine: Engine) -> None:
        disk.full = True
        with pytest.raises(OSError, match="No space left"):
            one.change(name="another", trial_ns=0)
        assert (one.record.name, one.record.trial_ns) == ("before", 7)

    run(tmp_path, test, name="before", trial_ns=7)


def test_on_a_full_disk_a_sandbox_can_be_deleted_and_is_gone_before_that_is_said(tmp_path: Path) -> None:
    async def test(one: Any, disk: Disk, engine: Engine) -> None:
        disk.full = True
        lives = {one.record.id: one}
        keeper: Any = SimpleNamespace(
            meter=SimpleNamespace(read=lambda life: None), previews=SimpleNamespace(close=one.network.close),
            sweep_soon=lambda: None, _deleted={}, _lives=lives,
        )  # fmt: skip
        keeper._clean = lambda life: Keeper._clean(keeper, life)
        answer = await Keeper.discard(keeper, one)
        assert (answer["status"], lives) == ("deleted", {})
        assert engine.did("remove") == [one.machine.id]

    run(tmp_path, test)


def test_a_replacement_that_cannot_be_written_down_leaves_what_there_is(tmp_path: Path) -> None:
    async def test(one: Any, disk: Disk, engine: Engine) -> None:
        before, old, link = one.record, one.machine, one._link
        fresh = Link()

        async def bring_up(machine: Any, *arguments: Any) -> Any:
            machine.folder.mkdir()
            disk.full = True
            return fresh

        one._bring_up = bring_up
        with pytest.raises(OSError, match="No space left"):
            await one.replace(None, "snapshot")
        assert (one.record, one.machine, one._link, link.closed) == (before, old, link, False)
        assert fresh.closed
        assert [id != old.id for id in engine.did("remove")] == [True]
        assert list(tmp_path.iterdir()) == []

    run(tmp_path, test)


def test_an_end_that_cannot_be_written_is_written_later_and_its_files_stay_findable(tmp_path: Path) -> None:
    async def test(one: Any, disk: Disk, engine: Engine) -> None:
        disk.full, engine.is_in = True, State.STOPPED
        await one.check()
        assert (one.record.state, disk.written) == (SandboxState.STOPPED, None)
        assert engine.did("remove") == []  # what it has is all that leads the next keeper to its files
        one.write_again()
        assert disk.written is None
        disk.full = False
        one.write_again()
        assert disk.written == one.record

    run(tmp_path, test, ready_ns=1)


def test_a_full_disk_is_called_one(tmp_path: Path) -> None:
    error = server._disk(OSError(errno.ENOSPC, "No space left on device"), tmp_path)
    assert isinstance(error, DiskFull) and str(tmp_path) in str(error)
    assert server._disk(OSError(errno.EIO, "Input/output error"), tmp_path) is None
