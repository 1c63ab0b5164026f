"""Making, finding, pausing and deleting sandboxes, the same for both faces."""

from __future__ import annotations

import asyncio
import uuid
from typing import Any

import pytest

from takeback.errors import (
    InvalidRequest,
    NameTaken,
    SandboxNotFound,
    SandboxPaused,
    SandboxStopped,
    StartFailed,
    TakebackError,
    Unsupported,
)
from tests.machines.client.conftest import World
from tests.machines.client.faces import Face


async def test_a_new_sandbox_has_the_defaults_of_the_contract(face: Face) -> None:
    async with await face.create() as box:
        info = box.info
        assert uuid.UUID(box.id) and box.state == info["state"] == "running" and info["status"] == "active"
        expected = {
            "kind": "sandbox", "name": None, "labels": {}, "vcpu": 2, "memoryMiB": 4096, "diskMiB": 4096,
            "timeoutSeconds": 0, "idlePauseSeconds": 300, "autoWake": True, "persistent": False, "onLeaseEnd": "pause",
            "onTimeout": "pause", "endsAt": None, "stopReason": None, "envNames": [], "image": "debian",
        }  # fmt: skip
        assert {name: info[name] for name in expected} == expected
        assert info["createdAt"] <= info["readyAt"] <= info["lastActiveAt"]


async def test_a_block_deletes_what_it_made_and_only_that(face: Face) -> None:
    async with await face.create() as box:
        pass
    with pytest.raises(SandboxNotFound):
        await face.connect(box.id)
    async with await face.create(keep=True) as box:
        pass
    found = await face.connect(box.id)
    assert (await found.delete())["status"] == "deleted"
    assert (await found.delete())["status"] == "deleted"


async def test_names_are_unique_while_alive(face: Face) -> None:
    box = await face.create(name="db", labels={"a": "1", "b": "2"}, env={"SECRET": "x"})
    with pytest.raises(NameTaken) as caught:
        await face.create(name="db")
    assert caught.value.code == "name_taken" and caught.value.details["sandboxId"] == box.id
    again = await face.get_or_create("db")
    assert again.id == box.id and again.info["reused"] is True and again.info["envNames"] == ["SECRET"]
    await box.delete()
    fresh = await face.get_or_create("db")
    assert fresh.id != box.id and "reused" not in fresh.info
    await fresh.delete()


async def test_sandboxes_are_found_by_what_they_are(face: Face) -> None:
    first = await face.create(name="one", labels={"team": "x", "env": "ci"})
    second = await face.create(labels={"team": "x"})
    assert [box.id for box in await face.list()] == [second.id, first.id]
    assert [box.id for box in await face.list(labels={"team": "x", "env": "ci"})] == [first.id]
    assert [box.id for box in await face.list(name="one")] == [first.id]
    assert [box.id for box in await face.list(limit=1)] == [second.id]
    await first.pause()
    assert [box.id for box in await face.list(state="paused")] == [first.id]
    assert {box.id for box in await face.list(state=["paused", "running"])} == {first.id, second.id}
    await first.delete()
    await second.delete()
    assert await face.list(include_stopped=True) == []


async def test_a_paused_sandbox_stands_still_and_wakes_by_itself(face: Face) -> None:
    async with await face.create() as box:
        await box.spawn("i=0; while true; do i=$((i+1)); echo $i > /tmp/n; sleep 0.02; done")
        await box.pause()
        assert (box.state, box.info["status"]) == ("paused", "paused") and box.info["pausedAt"]
        await box.pause()
        assert (await box.refresh()).state == "paused"
        assert int((await box.exec("until [ -s /tmp/n ]; do sleep 0.01; done; cat /tmp/n")).stdout or 1) > 0
        assert (await box.refresh()).state == "running"
        await box.pause()
        assert (await box.wake()).state == "running"
        assert (await box.wake()).state == "running"
        assert (await box.wait_for("running", 5)).state == "running"


async def test_one_that_does_not_wake_by_itself_says_so(face: Face) -> None:
    async with await face.create(auto_wake=False) as box:
        await box.pause()
        for call in (box.exec("true"), box.files.read("/etc/passwd"), box.spawn("true"), box.processes()):
            with pytest.raises(SandboxPaused) as caught:
                await call
            assert caught.value.code == "sandbox_paused" and caught.value.status == 409
        await box.update(auto_wake=True)
        assert (await box.exec("true")).exit_code == 0


async def test_settings_can_be_changed(face: Face) -> None:
    async with await face.create(name="old", labels={"a": "1"}, env={"A": "1", "B": "2"}) as box:
        await box.update(name="new", labels={"b": "2"}, env={"B": None, "C": "3"}, idle_pause_seconds=20, user="root")
        assert (box.info["name"], box.info["labels"], box.info["envNames"]) == ("new", {"b": "2"}, ["A", "C"])
        assert box.info["idlePauseSeconds"] == 60
        assert (await box.exec("echo $A-$B-$C; id -un")).stdout == "1--3\nroot\n"
        await box.update(timeout_seconds=600)
        ends = box.info["endsAt"]
        assert (await box.extend(600)).info["endsAt"] > ends
        with pytest.raises(TypeError):
            await box.update(nmae="x")


async def test_metrics_tell_what_is_used(face: Face) -> None:
    async with await face.create(vcpu=1, memory_mib=512) as box:
        answer = await box.metrics()
        assert answer["vcpu"] == 1 and answer["memoryLimitBytes"] == 512 << 20
        assert answer["latest"]["memoryBytes"] > 0 and answer["points"] == [answer["latest"]]
        await box.pause()
        assert (await box.metrics())["latest"] is None


WRONG: tuple[dict[str, Any], ...] = (
    {"memory_mib": 64},
    {"vcpu": 0},
    {"vcpu": 17},
    {"disk_mib": 1},
    {"timeout_seconds": 5},
    {"on_lease_end": "burn"},
    {"idle_pause_seconds": -1},
    {"labels": {"a": 1}},
    {"env": {"A B": "x"}},
    {"name": ""},
    {"name": "a/b"},
    {"user": "nobody"},
    {"disk": "floppy"},
    {"get_or_create": True},
)


async def test_bad_requests_are_refused_before_anything_is_made(face: Face) -> None:
    for wrong in WRONG:
        with pytest.raises(InvalidRequest) as caught:
            await face.create(**wrong)
        assert caught.value.hint_text
    with pytest.raises(Unsupported):
        await face.create(volumes=[{"volumeId": "v", "path": "/v"}])
    with pytest.raises(TypeError, match="memory_mib"):
        await face.create(memory_mb=512)
    with pytest.raises(SandboxNotFound):
        await face.connect("no-such-id")
    assert await face.list(include_stopped=True) == []


async def test_a_root_folder_that_is_none_fails_and_leaves_nothing(face: Face, world: World) -> None:
    world.base = {**world.base, "root": "/no/such/root"}
    with pytest.raises(TakebackError) as caught:
        await face.create(name="broken")
    assert isinstance(caught.value, StartFailed) or caught.value.kind in ("engine-failed", "start-failed")
    assert await face.list(include_stopped=True) == []


async def test_a_sandbox_that_dies_says_so(face: Face) -> None:
    async with await face.create() as box:
        with pytest.raises(SandboxStopped):
            await box.exec("kill -9 1; kill -9 -1; sleep 30", user="root")
            await box.exec("sleep 30")
        assert (await box.refresh()).state == "stopped" and "died" in box.info["stopReason"]


@pytest.mark.parametrize("disk", ["layers", pytest.param("memory", marks=pytest.mark.long)])
async def test_a_stopped_sandbox_keeps_its_disk_and_can_be_started_again(face: Face, disk: str) -> None:
    box = await face.create(name="kept", disk=disk)
    await box.files.write("/workspace/file", "content")
    await box.exec("echo root > /etc/made", user="root", check=True)
    await box.spawn("sleep 1000")
    await box.stop()
    assert (box.state, box.info["stopReason"], box.info["diskKept"]) == ("stopped", "requested", True)
    with pytest.raises(SandboxStopped):
        await box.exec("true")
    assert [one.id for one in await face.list()] == [box.id]
    with pytest.raises(NameTaken):
        await face.create(name="kept")
    await box.restart()
    assert box.state == "running" and not box.info["diskKept"]
    assert await box.files.read("/workspace/file") == b"content"
    assert (await box.exec("cat /etc/made; cat /proc/[0-9]*/comm | grep -cx sleep")).stdout == "root\n0\n"
    async with await face.connect(box.id):
        pass
    assert (await box.refresh()).state == "stopped"
    again = await face.get_or_create("kept")
    assert again.id == box.id and again.state == "running"
    assert await again.files.exists("/workspace/file")
    await box.delete()


async def test_calls_in_flight_end_when_their_sandbox_is_deleted(one: Face) -> None:
    box = await one.create()
    process = await box.spawn("sleep 1000")
    calls = [asyncio.create_task(box.exec("sleep 1000")), asyncio.create_task(process.wait())]
    await asyncio.sleep(0.3)
    await box.delete()
    for call in calls:
        with pytest.raises(SandboxStopped):
            await asyncio.wait_for(call, 10)


async def test_a_call_in_flight_goes_on_after_a_pause(one: Face) -> None:
    async with await one.create() as box:
        call = asyncio.create_task(box.exec("sleep 0.5; echo done"))
        await asyncio.sleep(0.2)
        await box.pause()
        await asyncio.sleep(0.5)
        assert not call.done()
        await box.wake()
        assert (await call).stdout == "done\n"
