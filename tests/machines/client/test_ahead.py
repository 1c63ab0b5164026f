"""What a keeper makes while nobody asks for anything: sandboxes come out of it as any other, and none is left over."""

from __future__ import annotations

import asyncio
import json
import os
import signal

import pytest

from tests.machines.client import leaks
from tests.machines.client.conftest import World
from tests.machines.client.faces import Face


@pytest.fixture
def world(world: World) -> World:
    world.client.ahead = True
    return world


def bundle(world: World, sandbox_id: str) -> str:
    """The name of a sandbox's container."""
    record = json.loads((world.directory.sandbox(sandbox_id) / "engine.json").read_bytes())
    return str(record["current"]["bundle"])


async def made_ahead(world: World, besides: set[str], count: int = 2) -> set[str]:
    """The containers that nobody has, as soon as there are so many."""
    for _ in range(200):
        names = set(os.listdir(world.directory.pool)) if world.directory.pool.is_dir() else set()
        # Whole only when its record says so.
        whole = {name for name in names - besides if _phase(world, name) == "created"}
        if len(whole) >= count:
            return whole
        await asyncio.sleep(0.05)
    raise AssertionError(world.log())


def _phase(world: World, name: str) -> str:
    try:
        return str(json.loads((world.directory.pool / name / "engine.json").read_bytes())["current"]["phase"])
    except FileNotFoundError:
        return ""


async def test_sandboxes_out_of_the_pool_are_as_any_other(one: Face, world: World) -> None:
    async with await one.create() as first:
        ready = await made_ahead(world, set())
        await first.exec("echo state > /workspace/state; echo $$ > /tmp/alive; sleep 1000 & disown", check=True)
        snapshot = await first.snapshot()
        copy = await one.create(snapshot=snapshot["id"], name="copy")
        fork = await first.fork(name="fork")
        names = {os.path.basename(bundle(world, each.id)) for each in (copy, fork)}
        assert names == ready
        identities = []
        for each in (first, copy, fork):
            result = await each.exec("cat /etc/machine-id /workspace/state /tmp/alive; pgrep -c sleep; hostname")
            identities.append(result.stdout.splitlines())
        assert len({lines[0] for lines in identities}) == 3
        assert [lines[1:] for lines in identities[1:]] == [identities[0][1:]] * 2
        # Found again by the next keeper, on the FIFOs that were the pool's.
        leaks.end_keeper(world.data, signal.SIGKILL)
        for each in (first, copy, fork):
            assert (await each.exec("cat /workspace/state")).stdout == "state\n"
        await copy.delete()
        await fork.delete()


async def test_a_killed_keepers_pool_is_removed_by_the_next(one: Face, world: World) -> None:
    async with await one.create() as box:
        left = await made_ahead(world, set())
        leaks.end_keeper(world.data, signal.SIGKILL)
        processes = leaks.in_pool(world.data)
        assert processes
        assert (await box.exec("true")).exit_code == 0
        assert not left & set(os.listdir(world.directory.pool))
        assert not processes & leaks.in_pool(world.data)


async def test_a_keeper_that_ends_takes_its_pool_along(one: Face, world: World) -> None:
    async with await one.create() as box:
        await made_ahead(world, set())
        leaks.end_keeper(world.data)
        assert os.listdir(world.directory.pool) == []
        assert leaks.in_pool(world.data) == set()
        assert (await box.exec("true")).exit_code == 0


async def test_a_long_command_does_not_keep_it_from_being_filled(one: Face, world: World) -> None:
    async with await one.create() as box:
        running = asyncio.create_task(box.exec("sleep 1000", timeout_ms=60_000))
        await made_ahead(world, set())
        assert not running.done()
        running.cancel()
