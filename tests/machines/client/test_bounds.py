"""Sandboxes that take more than they may: memory ends them, alone; a disk pauses them, and nothing is lost."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from takeback.errors import SandboxHeld, SandboxStopped
from tests.machines.client.conftest import World
from tests.machines.client.faces import Face

GIB = 1 << 30


async def come_to(box: Any, state: str, patience: float = 30.0) -> None:
    for _ in range(int(patience / 0.05)):
        await box.refresh()
        if box.state == state:
            return
        await asyncio.sleep(0.05)
    raise AssertionError(f"{box.state}, not {state}: {box.info}")


async def test_a_sandbox_over_its_memory_ends_alone_and_says_so(one: Face) -> None:
    async with await one.create() as other:
        box = await one.create(memory_mib=128)
        await box.spawn("python3 -c 'x = [b\"x\" * (50 << 20) for _ in range(40)]; import time; time.sleep(100)'")
        await come_to(box, "stopped")
        assert box.info["stopReason"] == "it needed more than its 128 MiB of memory"
        with pytest.raises(SandboxStopped, match="128 MiB"):
            await box.exec("true")
        assert (await other.exec("echo unharmed")).stdout == "unharmed\n"
        await box.delete()


async def test_a_sandbox_over_its_disk_is_paused_and_goes_on_once_it_is_put_in_order(world: World, one: Face) -> None:
    if shutil.disk_usage(world.data).free < 8 * GIB:
        pytest.skip("less than 8 GiB free")
    async with await one.create(disk_mib=3072, disk="layers", name="full") as box:
        process = await box.spawn("fallocate -l 3200M /workspace/big; sleep 1000")
        await come_to(box, "paused")
        assert "its disk is 3072 MiB" in box.info["pausedBecause"]
        with pytest.raises(SandboxHeld, match="3072 MiB") as refused:
            await box.exec("true")
        assert "takeback sandbox wake" in refused.value.hint_text
        with pytest.raises(SandboxHeld):
            await one.get_or_create("full")
        await box.wake()
        await asyncio.sleep(2)
        assert (await box.exec("rm /workspace/big; echo removed")).stdout == "removed\n"
        await box.refresh()
        assert (box.state, box.info["pausedBecause"]) == ("running", None)
        await process.refresh()
        assert (process.state, process.exit_code) == ("running", None)


@pytest.fixture
def small(world: World, tmp_path: Path) -> Iterator[Path]:
    """The data directory on a filesystem of its own, of 1 GiB."""
    image = tmp_path / "image"
    with open(image, "wb") as file:
        file.truncate(GIB)
    for argv in (["mkfs.ext4", "-q", "-m", "0", image], ["mount", "-o", "loop", image, world.data]):
        try:
            done = subprocess.run(argv, capture_output=True)
        except FileNotFoundError:
            pytest.skip(f"no {argv[0]}")
        if done.returncode != 0:
            pytest.skip(f"no filesystem of one's own here: {done.stderr.decode(errors='replace').strip()}")
    try:
        yield world.data
    finally:
        from tests.machines.client import leaks

        leaks.settle(world.data)
        subprocess.run(["umount", world.data], check=True)
        image.unlink()


async def test_no_sandbox_fills_the_disk_of_the_host(small: Path, one: Face) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root mounts")
    async with await one.create(disk="layers") as quiet, await one.create(disk="layers") as box:
        with pytest.raises(SandboxHeld, match="the disk of the host has"):  # a call that waits is told too
            await box.exec("cat /dev/zero >/workspace/big")
        await come_to(box, "paused")
        assert "the disk of the host has" in box.info["pausedBecause"]
        assert shutil.disk_usage(small).free > 0
        assert (await quiet.exec("echo unharmed")).stdout == "unharmed\n"
