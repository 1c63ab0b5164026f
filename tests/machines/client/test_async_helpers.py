"""`try_in_copy`, `explore`, `Chain` and `AsyncSnapshots` in an event loop: the same promises, awaited."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from takeback.errors import StepNotFound, UsageError
from takeback.machines.client.aio import AsyncSandbox
from takeback.machines.client.chain import AsyncChain, Chain
from takeback.machines.client.explore import explore
from takeback.machines.client.snapshots import AsyncSnapshots
from takeback.machines.client.trial import try_in_copy
from tests.machines.client.conftest import World


async def living(world: World, count: int = 1, patience: float = 15.0) -> list[str]:
    """Return the living once there are `count`."""
    until = time.monotonic() + patience
    while True:
        found = [box.id for box in await AsyncSandbox.list(client=world.client)]
        if len(found) == count or time.monotonic() > until:
            return found
        await asyncio.sleep(0.05)


async def test_a_step_is_kept_only_if_it_passed_whether_command_or_coroutine(world: World) -> None:
    async with await AsyncSandbox.create(client=world.client, name="db", memory_mib=512) as box:
        said: list[str] = []

        async def tell(text: str) -> None:
            said.append(text)

        async def step(copy: AsyncSandbox) -> Any:
            await copy.files.write("/workspace/file", "new")
            return await copy.exec("echo stepped")

        bad = await try_in_copy(box, step, "false", on_output=tell)
        assert (bad.passed, bad.kept) == (False, box) and "stepped" in bad.log and "".join(said) == bad.log
        assert [entry["path"] for entry in bad.diff["added"]] == ["/workspace/file"]

        async def broken(copy: AsyncSandbox) -> None:
            raise ZeroDivisionError

        async def endless(copy: AsyncSandbox) -> None:
            await asyncio.sleep(1000)

        assert "ZeroDivisionError" in (await try_in_copy(box, broken)).log
        assert "(out of time)" in (await try_in_copy(box, endless, timeout=0.3)).log
        assert not await box.files.exists("/workspace/file") and await living(world) == [box.id]

        good = await try_in_copy(box, step, lambda copy: copy.files.exists("/workspace/file"))
        assert good.passed and good.kept.info["name"] == "db" and box.heir is good.kept
        assert await living(world) == [good.kept.id]


async def test_a_cancelled_trial_leaves_the_original_and_no_copy(world: World) -> None:
    async with await AsyncSandbox.create(client=world.client, memory_mib=512) as box:
        begun = asyncio.Event()

        async def step(copy: AsyncSandbox) -> None:
            begun.set()
            await copy.exec("sleep 1000")

        for trial in (try_in_copy(box, step), explore(box, [step, step], parallel=2)):
            begun.clear()
            task = asyncio.ensure_future(trial)
            await begun.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert await living(world) == [box.id]


async def test_the_first_that_passes_or_the_best_by_score_is_kept(world: World) -> None:
    async with await AsyncSandbox.create(client=world.client, name="x", memory_mib=512) as box:
        first = await explore(box, ["sleep 1000", "exit 1", "echo right > file"], "grep right file", parallel=3)
        assert first.passed and first.best == 2 and 0 not in [one.number for one in first.tried]
        assert await living(world) == [first.kept.id]

        async def score(copy: AsyncSandbox) -> float:
            return float(await copy.files.read_text("/workspace/file"))

        steps = [f"echo {number} > file" for number in (3, 9, 5)]
        best = await explore(first.kept, steps, parallel=2, score=score)
        assert best.best == 1 and [one.score for one in best.tried] == [3.0, 9.0, 5.0]
        none = await explore(best.kept, ["false"])
        assert not none.passed and none.kept is best.kept and await living(world) == [best.kept.id]
        with pytest.raises(UsageError):
            await explore(box, [])


async def test_a_chain_goes_back_and_forth_and_snapshots_are_listed(world: World) -> None:
    async with await AsyncSandbox.create(client=world.client, memory_mib=512) as box:
        chain = Chain(box)  # type: ignore[arg-type]
        assert isinstance(chain, AsyncChain) and await chain.at is None and await chain.show() == ""
        for number in (1, 2):
            await box.exec(f"echo {number} >> file")
            await chain.remember(f"step {number}")
        assert await chain.go_back_to(1) is box and (await box.exec("cat file")).stdout == "1\n" and chain.undo
        assert [link.step for link in await chain.steps] == ["step 1", "step 2"]
        assert await chain.show() == "1 step 1  <- here\n2 step 2"
        with pytest.raises(StepNotFound):
            await chain.go_back_to("none")
        saved = AsyncSnapshots(world.client)
        assert len(await saved.list(sandbox_id=box.id)) == 3
        assert "step 2" in str(await saved.tree())
        assert [entry["path"] for entry in (await saved.diff((await chain.steps)[1].id))["changed"]] == [
            "/workspace/file"
        ]
        await chain.drop()
        await saved.delete(chain.undo)
        assert await saved.list() == []
