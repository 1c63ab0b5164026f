"""What a keeper does when something else happens between its decision and the deed."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Coroutine
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from takeback.errors import CannotSave, MachineGone, MachineSilent, NotStarted, SandboxStopped
from takeback.machines.engine import State
from takeback.machines.keeper import diffs, idle, reshaping, stored, trials
from takeback.machines.keeper.machine import Life, machine_of
from takeback.machines.model import Account, SandboxState, SnapshotRecord
from tests.machines.keeper.samples import SECOND, record


class Engine:
    """Machines that only can be watched: each ends when its pipe is closed."""

    def __init__(self) -> None:
        self.pipes: dict[str, tuple[int, int]] = {}
        self.paused: list[str] = []

    def watch(self, machine: Any) -> int:
        return os.dup(self.pipes.setdefault(machine.id, os.pipe())[0])

    def kill(self, machine: Any) -> None:
        os.write(self.pipes[machine.id][1], b"x")

    def close(self) -> None:
        for one in self.pipes.values():
            os.close(one[0])
            os.close(one[1])

    def state(self, machine: Any) -> State:
        return State.RUNNING

    def pause(self, machine: Any) -> None:
        self.paused.append(machine.id)


class Link:
    closed = False

    def __init__(self) -> None:
        self.answer: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def close(self, why: str = "") -> None:
        if not self.answer.done():
            self.answer.set_exception(MachineSilent(why=why))


def life(folder: Path, engine: Any = None, **changes: Any) -> Any:
    async def detach(why: str) -> None:
        pass

    registry = SimpleNamespace(
        folder=lambda id: folder, save=lambda record, durable: None, is_spoiled=lambda id: False
    )  # fmt: skip
    network: Any = SimpleNamespace(detach=detach)
    return Life(record(**changes), engine or Engine(), registry, lambda: 5 * SECOND, network)  # type: ignore[arg-type]


@pytest.mark.parametrize(("dies", "error"), [("old", MachineGone), ("new", MachineSilent)])
def test_either_machine_may_die_while_one_is_filled(tmp_path: Path, dies: str, error: type[Exception]) -> None:
    async def main() -> None:
        one = life(tmp_path, engine)
        fresh = machine_of(replace(one.record, incarnation="1" * 32), tmp_path)
        old, new = one._link, link = Link(), Link()
        one._link = old
        one._watch()

        async def fill(before: Any, after: Any) -> None:
            assert (before, after) == (old, link)
            engine.kill(one.machine if dies == "old" else fresh)
            await asyncio.wait({old.answer, new.answer}, return_when=asyncio.FIRST_COMPLETED)
            (old.answer if dies == "old" else new.answer).result()

        with pytest.raises(error):
            await asyncio.wait_for(one._fill(fresh, link, fill), 5)
        assert one._quieting is None
        one._unwatch()
        if one._checking is not None:
            await one._checking

    engine = Engine()
    try:
        asyncio.run(main())
    finally:
        engine.close()


def test_what_is_packed_is_let_go_when_nothing_can_unpack_it() -> None:
    class Output:
        closed = False

        def close(self) -> None:
            self.closed = True

    output = Output()

    async def spawn(command: Any) -> Any:
        return SimpleNamespace(id=1, output=output)

    async def refuse(command: Any) -> Any:
        raise MachineSilent(why="gone")

    async def as_root(link: Any, argv: Any) -> None:
        pass

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reshaping, "_as_root", as_root)
        old: Any = SimpleNamespace(spawn=spawn)
        new: Any = SimpleNamespace(spawn=refuse)
        with pytest.raises(MachineSilent):
            asyncio.run(reshaping._carry(old, new, Account("runtime", 1000, 1000)))
    assert output.closed


def test_an_image_whose_command_does_not_start_is_switched_to(monkeypatch: pytest.MonkeyPatch) -> None:
    async def reboot(fill: Any, **changes: Any) -> str:
        return "old"

    async def after_boot(one: Any) -> None:
        raise NotStarted(program="serve", why="no such file", next="")

    one = SimpleNamespace(record=record(disk="memory"), reboot=reboot, drop=lambda old: old, shown=lambda: {"is": "it"})

    class Using:
        async def __aenter__(self) -> Any:
            return one

        async def __aexit__(self, *error: object) -> None:
            pass

    monkeypatch.setattr(reshaping, "base_of", lambda fields: one.record.base)
    monkeypatch.setattr(reshaping.firsts, "after_boot", after_boot)
    dropped: list[Any] = []
    call: Any = SimpleNamespace(
        request={"fields": {"supervisor": "/s"}}, using=Using, keeper=SimpleNamespace(background=dropped.append)
    )
    assert asyncio.run(reshaping.switch_image(call)) == {"is": "it"}
    assert dropped == ["old"]


class Keeper:
    """Notes what it begins and what it deletes."""

    def __init__(self) -> None:
        self.begun: list[Coroutine[Any, Any, Any]] = []
        self.discarded: list[Any] = []

    def now_ns(self) -> int:
        return 100 * SECOND

    def background(self, work: Coroutine[Any, Any, Any]) -> None:
        self.begun.append(work)

    async def discard(self, one: Any) -> None:
        self.discarded.append(one)


@pytest.mark.parametrize("took_the_place", [False, True])
@pytest.mark.parametrize("why", ["its caller has gone", "its time is over"])
def test_a_copy_that_took_the_place_is_no_trial_to_delete(took_the_place: bool, why: str) -> None:
    async def main() -> None:
        keeper: Any = Keeper()
        one: Any = SimpleNamespace(record=record(trial_ns=SECOND), deleted=False, busy=0, active_ns=0, runs=True)
        if why == "its time is over":
            idle._look(keeper, one, thorough=False)
        else:
            call: Any = SimpleNamespace(life=lambda: one, line=SimpleNamespace(ended=True), keeper=keeper)
            task = asyncio.ensure_future(trials.hold(call))
            await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        assert len(keeper.begun) == 1
        if took_the_place:
            one.record = replace(one.record, trial_ns=0, active_ns=99 * SECOND)
        await keeper.begun[0]
        assert keeper.discarded == ([] if took_the_place else [one])

    asyncio.run(main())


def test_a_snapshot_renamed_while_its_layers_are_counted_keeps_the_name() -> None:
    before = SnapshotRecord("1", "memory", record(), 1)
    held = {"1": replace(before, name="new")}
    snapshots = SimpleNamespace(
        all=lambda: [], has=held.__contains__, find=held.__getitem__, add=lambda one: held.update({one.id: one})
    )
    engine = SimpleNamespace(stored=lambda saved, known: {"a": 7})
    call: Any = SimpleNamespace(keeper=SimpleNamespace(snapshots=snapshots, engine=lambda name: engine))
    saved: Any = None
    told = asyncio.run(stored.counted(call, before, saved))
    assert told == held["1"] == replace(before, name="new", layers={"a": 7})


def test_a_bound_is_not_held_against_the_machine_that_came_after(tmp_path: Path) -> None:
    engine = Engine()
    one = life(tmp_path, engine)
    passed = one.machine
    one.machine = machine_of(replace(one.record, incarnation="1" * 32), tmp_path)

    async def main() -> None:
        await one.end("over its memory", passed)
        await one.hold("over its disk", 9, passed)
        assert (one.record.state, one.disk_allowed, engine.paused) == (SandboxState.RUNNING, 0, [])
        await one.hold("over its disk", 9, one.machine)

    asyncio.run(main())
    assert (one.record.state, one.record.held, one.disk_allowed) == (SandboxState.PAUSED, "over its disk", 9)
    assert engine.paused == [one.machine.id]


def test_one_found_running_is_neither_held_nor_paused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def attach() -> None:
        pass

    one = life(tmp_path, state=SandboxState.RESUMING, held="over its disk", paused_ns=SECOND)
    monkeypatch.setattr(one, "_attach", attach)
    asyncio.run(one.adopt())
    assert (one.record.state, one.record.held, one.record.paused_ns) == (SandboxState.RUNNING, "", 0)


def test_a_deleted_one_is_not_restarted(tmp_path: Path) -> None:
    one = life(tmp_path, state=SandboxState.STOPPED, kept="kept-1", stop_reason="deleted")
    one.deleted = True
    with pytest.raises(SandboxStopped):
        asyncio.run(one.restart())


def test_after_a_switch_of_the_image_files_are_compared_with_that(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(diffs.listings, "kept", lambda one, folder: None)
    monkeypatch.setattr(diffs.listings, "of_base", lambda one: "the image")
    call: Any = SimpleNamespace(keeper=SimpleNamespace(registry=SimpleNamespace(folder=lambda id: Path("/"))))
    one: Any = SimpleNamespace(record=record(generation=2, born_of=None, made_from="another"))
    assert asyncio.run(diffs._of_birth(call, one)) == "the image"


@pytest.mark.parametrize(("changes", "stays"), [({}, False), ({"name": "mine"}, True), ({"trial_ns": 9}, False)])
def test_copies_that_nobody_knows_of_go_with_their_caller(tmp_path: Path, changes: dict[str, Any], stays: bool) -> None:
    async def main() -> None:
        call: Any = SimpleNamespace(line=SimpleNamespace(ended=True))
        copies = [life(tmp_path, **changes)]
        if stays:
            await trials.begun(call, copies)
        else:
            with pytest.raises(CannotSave, match="its caller has gone"):
                await trials.begun(call, copies)

    asyncio.run(main())
