"""What is left of a sandbox that ended, by request, by itself, with its keeper or with its boot; and its way back."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from takeback.errors import CannotSaveFirst, NameTaken, SandboxStopped
from takeback.machines.engines.gvisor import checks
from tests.machines.client.conftest import World
from tests.machines.client.faces import Face
from tests.machines.client.test_keeper import kill_keeper

# Holds a file open that is not there any more, as a server whose program was replaced does.
HOLD = "exec 3>/root/held; rm /root/held; echo held > /root/ready; sleep 1000"


def machine_of(world: World, box: Any) -> dict[str, Any]:
    """Return what the engine wrote down of the machine of a sandbox, wherever in its folder that lies."""
    (path,) = world.directory.sandbox(box.id).rglob(checks.FILE)
    return {"path": path, **json.loads(path.read_bytes())}


def kill_machine(world: World, box: Any) -> None:
    os.kill(machine_of(world, box)["current"]["sandbox"][0], signal.SIGKILL)


async def died(world: World, box: Any) -> None:
    kill_machine(world, box)
    await box.wait_for("stopped", 20)
    assert box.state == "stopped" and "died" in box.info["stopReason"]


async def changed(box: Any, text: str) -> None:
    """Write files without asking that they reach a disk."""
    await box.files.write("/workspace/file", text)
    await box.exec("rm -rf /media; echo root > /etc/made", user="root", check=True)


async def as_it_was(box: Any, text: str) -> None:
    assert await box.files.read_text("/workspace/file") == text
    assert (await box.exec("cat /etc/made; [ -e /media ] || echo gone")).stdout == "root\ngone\n"
    assert await running(box) == []


async def running(box: Any) -> list[str]:
    return [one["command"] for one in await box.processes() if one["state"] == "running"]


async def test_the_files_of_one_that_died_are_there_when_it_is_started_again(face: Face, world: World) -> None:
    async with await face.create(name="mine", disk="layers") as box:
        await box.spawn("sleep 1000")
        await changed(box, "first")
        await died(world, box)
        assert box.info["diskKept"] and [one.id for one in await face.list()] == [box.id]
        with pytest.raises(NameTaken):
            await face.create(name="mine")
        with pytest.raises(SandboxStopped, match="died"):
            await box.exec("true")
        await box.restart()
        assert box.info["stopReason"] is None and not box.info["diskKept"]
        await as_it_was(box, "first")
        # And once more, from what is now a layer of its own.
        await box.files.write("/workspace/file", "second")
        await died(world, box)
        again = await face.get_or_create("mine")
        assert again.id == box.id
        await as_it_was(again, "second")


async def test_what_lay_in_memory_is_said_to_be_gone(one: Face, world: World) -> None:
    box = await one.create(name="mine", disk="memory")
    await died(world, box)
    assert not box.info["diskKept"] and await one.list() == []
    with pytest.raises(SandboxStopped):
        await box.restart()
    async with await one.create(name="mine"):
        pass
    await box.delete()


@pytest.mark.parametrize("paused", [False, True])
async def test_after_a_reboot_the_files_are_there(one: Face, world: World, paused: bool) -> None:
    async with await one.create(name="mine", disk="layers") as box:
        await changed(box, "before")
        if paused:
            await box.pause()
        kill_keeper(world)
        found = machine_of(world, box)
        for name in ("sandbox", "gofer"):
            os.kill(found["current"][name][0], signal.SIGKILL)
        path: Path = found.pop("path")
        path.write_text(json.dumps(found | {"boot": "another"}))
        await box.refresh()
        assert (box.state, box.info["stopReason"], box.info["diskKept"]) == ("stopped", "lost", True)
        # A sweep happens when the next one goes, and takes nothing that is needed.
        other = await one.create()
        await other.delete()
        kill_keeper(world)
        await box.restart()
        assert box.info["lost"] is None
        await as_it_was(box, "before")


async def test_stopping_asks_nothing_of_what_runs_inside(one: Face, world: World) -> None:
    async with await one.create(disk="layers") as box:
        await changed(box, "kept")
        await hold(box)
        await box.stop()
        assert (box.state, box.info["stopReason"], box.info["diskKept"]) == ("stopped", "requested", True)
        await box.restart()
        await as_it_was(box, "kept")
        os.kill(machine_of(world, box)["current"]["sandbox"][0], signal.SIGSTOP)  # it answers nobody
        await box.stop()
        await box.restart()
        await as_it_was(box, "kept")


async def hold(box: Any) -> None:
    await box.spawn(HOLD, user="root")
    await box.exec("until [ -s /root/ready ]; do sleep 0.01; done", user="root", timeout_ms=20_000)


async def test_one_that_died_is_put_to_a_snapshot_and_that_taken_back(face: Face, world: World) -> None:
    async with await face.create(name="mine", disk="layers") as box:
        process = await box.spawn("sleep 1000")
        await changed(box, "first")
        taken = await box.snapshot()
        await box.files.write("/workspace/file", "second")
        kill_machine(world, box)  # nobody needs to have noticed
        await box.restore(taken)
        assert (box.state, box.info["stopReason"], box.info["diskKept"]) == ("running", None, False)
        assert await box.files.read_text("/workspace/file") == "first"
        assert (await process.refresh())["state"] == "running"
        kill_keeper(world)
        await box.restore(box.info["undoSnapshotId"])
        await as_it_was(box, "second")
        for snapshot in await box.snapshots():
            await box.delete_snapshot(snapshot["id"])


@pytest.mark.parametrize("disk", ["layers", pytest.param("memory", marks=pytest.mark.long)])
async def test_a_stopped_one_is_put_to_a_snapshot_and_that_taken_back(one: Face, disk: str) -> None:
    async with await one.create(disk=disk) as box:
        await changed(box, "first")
        taken = await box.snapshot()
        await box.files.write("/workspace/file", "second")
        await box.stop()
        await box.restore(taken)
        assert box.state == "running" and not box.info["diskKept"]
        assert await box.files.read_text("/workspace/file") == "first"
        await box.restore(box.info["undoSnapshotId"])
        assert await box.files.read_text("/workspace/file") == "second"
        for snapshot in await box.snapshots():
            await box.delete_snapshot(snapshot["id"])


async def test_one_of_which_nothing_is_left_is_put_to_a_snapshot(one: Face, world: World) -> None:
    async with await one.create(name="mine", disk="memory") as box:
        await changed(box, "first")
        taken = await box.snapshot()
        await died(world, box)
        other = await one.create(name="mine")
        with pytest.raises(NameTaken):
            await box.restore(taken)
        await other.delete()
        await box.restore(taken)
        assert box.info["undoSnapshotId"] is None and box.state == "running"
        assert await box.files.read_text("/workspace/file") == "first"
        await box.delete_snapshot(taken["id"])


async def test_a_present_that_cannot_be_saved_is_given_up_only_when_asked_to(face: Face) -> None:
    async with await face.create(disk="layers") as box:
        await changed(box, "first")
        taken = await box.snapshot()
        await box.files.write("/workspace/file", "second")
        await hold(box)
        with pytest.raises(CannotSaveFirst, match="/root/held") as caught:
            await box.restore(taken)
        assert "undo=False" in caught.value.hint_text and caught.value.code == "cannot_save_first"
        assert await box.files.read_text("/workspace/file") == "second"
        assert await running(box) == [HOLD]
        assert [snapshot["id"] for snapshot in await box.snapshots()] == [taken["id"]]
        await box.restore(taken, undo=False)
        assert box.info["undoSnapshotId"] is None and len(await box.snapshots()) == 1
        await as_it_was(box, "first")
        await box.delete_snapshot(taken["id"])


@pytest.mark.long
async def test_one_that_answers_nobody_is_given_up_only_when_asked_to(one: Face, world: World) -> None:
    async with await one.create(disk="layers") as box:
        await changed(box, "first")
        taken = await box.snapshot()
        os.kill(machine_of(world, box)["current"]["sandbox"][0], signal.SIGSTOP)
        with pytest.raises(CannotSaveFirst, match="did not end within"):
            await box.restore(taken)
        await box.restore(taken, undo=False)
        await as_it_was(box, "first")
        await box.delete_snapshot(taken["id"])
