"""Much at once, and much of it: output without end, many callers, two programs on one sandbox."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from takeback.machines.client.sandbox import Sandbox
from tests.machines.client import leaks
from tests.machines.client.conftest import World
from tests.machines.client.faces import Face

_LARGEST_KEEPER = 150 << 20
# The short one is more than a keeper may have in memory.
MUCH = pytest.mark.parametrize("size", [200 << 20, pytest.param(2 << 30, marks=pytest.mark.long)])


def memory(pid: int) -> int:
    """Return the most memory a process ever had, in bytes."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmHWM")).split()[1]) << 10


@MUCH
async def test_gigabytes_of_output_pass_and_are_counted(one: Face, world: World, size: int) -> None:
    async with await one.create() as box:
        total = 0
        async for event in box.exec_stream(f"head -c {size} /dev/zero"):
            if event["type"] == "stdout":
                total += len(event["data"])
            assert event["type"] != "truncated"
        assert total == size and event["exitCode"] == 0
        assert memory(leaks.keepers(world.data)[0]) < _LARGEST_KEEPER


@MUCH
async def test_a_result_of_gigabytes_is_cut_and_the_keeper_stays_small(one: Face, world: World, size: int) -> None:
    async with await one.create() as box:
        result = await box.exec(f"head -c {size} /dev/zero", timeout_ms=600_000)
        assert len(result.stdout) == 1 << 20 and result.stdout_truncated and result.exit_code == 0
        assert memory(leaks.keepers(world.data)[0]) < _LARGEST_KEEPER


@pytest.mark.long
async def test_a_flood_nobody_reads_holds_up_nobody(one: Face, world: World) -> None:
    async with await one.create() as box:
        await box.spawn("yes")
        stream = box.exec_stream("yes flood")
        async for event in stream:
            if event["type"] == "stdout":
                break
        # It stands at its first lines, the other one runs on without a reader.
        for number in range(20):
            assert (await box.exec(["echo", str(number)])).stdout == f"{number}\n"
        assert (await box.files.stat("/workspace"))["exists"]
        await stream.aclose()
        assert memory(leaks.keepers(world.data)[0]) < _LARGEST_KEEPER


@pytest.mark.long
async def test_twenty_callers_at_once_each_get_their_own(one: Face) -> None:
    async with await one.create() as box:

        async def caller(number: int) -> None:
            for turn in range(3):
                result = await box.exec(f"echo {number}-{turn}; head -c 20000 /dev/zero | tr '\\0' {number % 10}")
                assert result.stdout == f"{number}-{turn}\n" + str(number % 10) * 20_000
            await box.files.write(f"/workspace/{number}", str(number) * 1000)
            assert await box.files.read_text(f"/workspace/{number}") == str(number) * 1000

        await asyncio.gather(*(caller(number) for number in range(20)))


@pytest.mark.long
def test_twenty_threads_share_one_client(world: World) -> None:
    with Sandbox.create(client=world.client) as box:
        answers: dict[int, str] = {}

        def caller(number: int) -> None:
            answers[number] = box.exec(f"echo {number}").stdout

        threads = [threading.Thread(target=caller, args=(number,)) for number in range(20)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert answers == {number: f"{number}\n" for number in range(20)}


async def test_two_programs_use_one_sandbox(one: Face, world: World) -> None:
    async with await one.create(name="shared") as box:
        process = await box.spawn("while read line; do echo got $line; done")
        source = (
            "from pathlib import Path\n"
            "from takeback.machines.client.connect import Client\n"
            "from takeback.machines.client.sandbox import Sandbox\n"
            f"box = Sandbox.connect({box.id!r}, client=Client(Path({str(world.data)!r})))\n"
            f"box.process({process.id!r}).write('theirs\\n')\n"
            "box.files.write('/workspace/theirs', 'x')\n"
            "print(box.exec('ls').stdout)\n"
        )
        running = subprocess.Popen([sys.executable, "-c", source], stdout=subprocess.PIPE)
        await process.write("ours\n")
        await box.files.write("/workspace/ours", "x")
        out, _ = await asyncio.to_thread(running.communicate)
        assert b"theirs" in out
        await process.write("", eof=True)
        assert sorted((await process.wait()).stdout.splitlines()) == ["got ours", "got theirs"]


@pytest.mark.long
async def test_ten_sandboxes_at_once(one: Face) -> None:
    boxes = await asyncio.gather(*(one.create(memory_mib=256) for _ in range(10)))
    results = await asyncio.gather(*(box.exec(f"echo {number}") for number, box in enumerate(boxes)))
    assert [result.stdout for result in results] == [f"{number}\n" for number in range(10)]
    await asyncio.gather(*(box.delete() for box in boxes))
