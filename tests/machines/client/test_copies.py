"""Snapshots, copies and restores of real machines, the same for both faces."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from takeback.errors import (
    CannotSave,
    EngineFailed,
    InvalidRequest,
    NameTaken,
    SandboxNotFound,
    SnapshotDamaged,
    SnapshotNotFound,
    TakebackError,
)
from takeback.machines.keeper import batches
from tests.machines.client.conftest import World
from tests.machines.client.faces import Face
from tests.machines.client.test_keeper import kill_keeper

COUNTER = "i=0; while true; do i=$((i+1)); echo $i > /tmp/count; sleep 0.02; done"
WAIT = "until [ -s /tmp/count ]; do sleep 0.01; done; "


@pytest.fixture(params=["layers", pytest.param("memory", marks=pytest.mark.long)])
def disk(request: pytest.FixtureRequest) -> str:
    return str(request.param)


async def count(box: Any) -> int:
    for _ in range(50):
        text = (await box.exec(WAIT + "cat /tmp/count")).stdout.strip()
        if text:
            return int(text)
    raise AssertionError("it does not count")


async def test_a_file_has_one_content_under_all_its_names(face: Face, disk: str) -> None:
    async with await face.create(disk=disk) as box:
        await box.exec("echo x > a; ln a b; cat b; echo longer-text > b")
        assert (await box.exec("cat a; stat -c '%s %h' a")).stdout == "longer-text\n12 2\n"
        await box.exec("rm b; ln a c; echo more >> c")
        assert (await box.exec("cat a; stat -c %h a")).stdout == "longer-text\nmore\n2\n"


async def test_a_copy_has_files_memory_and_processes_and_goes_its_own_way(face: Face, disk: str) -> None:
    async with await face.create(name="source", disk=disk, env={"A": "1"}, labels={"team": "x"}) as box:
        process = await box.spawn("n=1; while read line; do n=$((n*2)); echo $n; done")
        await process.write("x\n")
        await box.spawn(COUNTER)
        before = await count(box)
        await box.files.write("/workspace/file", "shared")
        async with await box.fork(name="copy") as copy:
            assert (copy.info["name"], copy.info["labels"], copy.state) == ("copy", {"team": "x"}, "running")
            assert copy.id != box.id and copy.info["source"] == box.id
            assert await count(copy) >= before
            theirs = await copy.process(process.id)
            await theirs.write("x\n", eof=True)
            assert (await theirs.wait()).stdout == "2\n4\n"
            await copy.files.write("/workspace/file", "copy's")
            assert await box.files.read_text("/workspace/file") == "shared"
            assert (await copy.exec("echo $A; cat /etc/machine-id")).stdout != (
                await box.exec("echo $A; cat /etc/machine-id")
            ).stdout
            assert (await process.refresh())["state"] == "running"
        await process.write("", eof=True)
        assert (await process.wait()).stdout == "2\n"


async def test_several_copies_at_once_have_their_names(face: Face) -> None:
    async with await face.create() as box:
        await box.files.write("/workspace/file", "x")
        copies = await box.fork(3, name="try")
        assert [copy.info["name"] for copy in copies] == ["try", "try-1", "try-2"]
        for copy in copies:
            assert await copy.files.read_text("/workspace/file") == "x"
        with pytest.raises(NameTaken):
            await box.fork(name="try-1")
        with pytest.raises(InvalidRequest):
            await box.fork(0)
        for copy in copies:
            await copy.delete()
        assert await box.snapshots() == []


# Two containers may be made at once: each takes a whole number away, under a lock.
# None is made ahead: how many are needed is known then.
FAILING = """#!/bin/sh
case "$*" in *--bundle=*/machines/pool/*) exit 1;; esac
for word; do
    if [ "$word" = create ] && flock {lock} sh -c '
        [ -e {count} ] || exit 1
        left=$(($(cat {count}) - 1))
        if [ $left -le 0 ]; then rm {count}; else echo $left > {count}; fi'
    then
        echo refused >&2
        exit 1
    fi
done
exec {runsc} "$@"
"""


@pytest.fixture
def failures(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file that says how many of the next containers fail to be made."""
    count, runsc = tmp_path / "failures", shutil.which("runsc")
    (tmp_path / "runsc").write_text(FAILING.format(count=count, lock=tmp_path / "lock", runsc=runsc))
    (tmp_path / "runsc").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    return count


async def test_a_fork_is_repeated_when_a_copy_fails_and_leaves_none_when_it_fails_again(
    one: Face, world: World, disk: str, failures: Path
) -> None:
    async with await one.create(disk=disk, name="source") as box:
        await box.spawn(COUNTER)
        before = await count(box)
        failures.write_text("3")  # more than the engine tries by itself
        async with await box.fork() as copy:
            assert not failures.exists() and "once more" in world.log()
            assert await count(copy) >= before
        failures.write_text("1000")
        with pytest.raises(EngineFailed, match="make a sandbox"):
            await box.fork(2, name="copy")
        with pytest.raises(EngineFailed, match="make a sandbox"):
            await box.fork(name="copy", keep_snapshot=True)
        failures.unlink()
        assert [found.id for found in await one.list()] == [box.id]
        assert await box.snapshots() == []
        counted = await count(box)
        async with await box.fork(name="copy") as copy:
            assert await count(copy) >= counted


async def test_a_snapshot_is_started_as_often_as_wanted_also_when_its_source_is_gone(
    face: Face, world: World, disk: str
) -> None:
    async with await face.create(disk=disk, env={"SECRET": "x"}, labels={"a": "1"}) as box:
        await box.spawn(COUNTER)
        before = await count(box)
        taken = await box.snapshot(name="saved")
        assert (taken["state"], taken["mode"], taken["name"], taken["labels"]) == (
            "ready",
            "memory",
            "saved",
            {"a": "1"},
        )
        assert taken["sourceSandboxId"] == box.id and taken["storedBytes"] > 0 and taken["expiresAt"] is None
        assert [one["id"] for one in await box.snapshots()] == [taken["id"]]
    kill_keeper(world)
    for number in range(2):
        async with await face.create(snapshot=taken["id"], name=f"again-{number}") as again:
            assert await count(again) >= before
            assert (await again.exec("echo -$SECRET-")).stdout == "--\n" and again.info["labels"] == {"a": "1"}
    with pytest.raises(InvalidRequest):
        await face.create(snapshot=taken["id"], vcpu=7)
    await again.delete_snapshot(taken["id"])
    with pytest.raises(SnapshotNotFound):
        await face.create(snapshot=taken["id"])


async def test_a_disk_snapshot_boots_fresh_with_its_files(face: Face) -> None:
    async with await face.create(disk="memory") as box:
        with pytest.raises(CannotSave):
            await box.snapshot(mode="disk")
        assert (await box.exec("echo well")).stdout == "well\n"
    async with await face.create(disk="layers") as box:
        await box.files.write("/workspace/file", "kept")
        await box.spawn("sleep 1000")
        taken = await box.snapshot(mode="disk", retention_days=3)
        assert taken["mode"] == "disk" and taken["expiresAt"] > taken["createdAt"]
        async with await face.create(snapshot=taken["id"]) as fresh:
            assert await fresh.files.read_text("/workspace/file") == "kept"
            assert (await fresh.processes()) == []
        # What boots has no size yet.
        async with await face.create(snapshot=taken["id"], vcpu=1, memory_mib=1024, disk_mib=8192) as small:
            assert [small.info[name] for name in ("vcpu", "memoryMiB", "diskMiB")] == [1, 1024, 8192]
            assert await small.files.read_text("/workspace/file") == "kept"
            async with await small.fork() as copy:
                assert await copy.files.read_text("/workspace/file") == "kept"
        for wrong in ({"disk_mib": 3072}, {"image": "host"}):
            with pytest.raises(InvalidRequest):
                await face.create(snapshot=taken["id"], **wrong)
        await box.delete_snapshot(taken["id"])


async def test_a_restore_keeps_the_id_and_can_be_taken_back(face: Face, world: World, disk: str) -> None:
    async with await face.create(name="one", disk=disk, env={"A": "1"}) as box:
        await box.files.write("/workspace/file", "first")
        process = await box.spawn("sleep 1000")
        taken = await box.snapshot()
        await box.files.write("/workspace/file", "second")
        await process.kill()
        await box.restore(taken)
        assert (box.state, box.info["name"], box.info["lastSnapshot"]) == ("running", "one", taken["id"])
        assert await box.files.read_text("/workspace/file") == "first"
        assert (await process.refresh())["state"] == "running"
        assert (await box.exec("echo $A")).stdout == "1\n"
        await box.restore(box.info["undoSnapshotId"])
        assert await box.files.read_text("/workspace/file") == "second"
        assert (await process.refresh())["state"] == "killed"
        kill_keeper(world)
        assert await box.files.read_text("/workspace/file") == "second"
        for snapshot in await box.snapshots():
            await box.delete_snapshot(snapshot["id"])


async def test_a_paused_source_stays_paused(face: Face, disk: str) -> None:
    async with await face.create(disk=disk) as box:
        await box.spawn(COUNTER)
        await count(box)
        await box.pause()
        async with await box.fork() as copy:
            assert copy.state == "running" and await count(copy) > 0
        taken = await box.snapshot()
        assert (await box.refresh()).state == "paused"
        await box.delete_snapshot(taken["id"])
        assert await count(box) > 0


async def test_a_spoiled_snapshot_is_refused_and_the_running_one_goes_on(face: Face, world: World) -> None:
    async with await face.create() as box:
        await box.files.write("/workspace/file", "alive")
        taken = await box.snapshot()
        for path in world.directory.snapshot(taken["id"]).rglob("*"):
            if path.is_file() and path.name != "snapshot.json":
                path.write_bytes(path.read_bytes()[:100])
        with pytest.raises(SnapshotDamaged):
            await box.restore(taken["id"])
        with pytest.raises(TakebackError):
            await face.create(snapshot=taken["id"])
        assert await box.files.read_text("/workspace/file") == "alive"
        for snapshot in await box.snapshots():
            await box.delete_snapshot(snapshot["id"])


@pytest.mark.long
async def test_output_under_way_survives_a_copy_of_its_machine(one: Face, disk: str) -> None:
    async with await one.create(disk=disk) as box:
        whole = asyncio.create_task(box.exec("for i in $(seq 1 200); do echo line $i; sleep 0.005; done"))
        copies = []
        for _ in range(3):
            copies.append(await box.fork())
        assert (await whole).stdout == "".join(f"line {number}\n" for number in range(1, 201))
        for copy in copies:
            assert (await copy.exec("echo well")).stdout == "well\n"
            await copy.delete()


@pytest.mark.parametrize("state", ["starting", "running"])
async def test_a_fork_cut_by_a_kill_leaves_all_of_its_copies_or_none(one: Face, world: World, state: str) -> None:
    """The keeper is killed as soon as the record of one copy says so, whatever the others say."""
    async with await one.create(labels={"whose": "mine"}) as box:
        forking = asyncio.create_task(box.fork(count=3))
        folder = world.directory.sandbox(box.id).parent
        until = time.monotonic() + 30
        while not forking.done() and time.monotonic() < until:
            if any(state in record for id, record in records(folder).items() if id != box.id):
                break
            await asyncio.sleep(0.001)
        kill_keeper(world)
        with suppress(TakebackError):
            await forking
        found = await one.list(labels={"whose": "mine"})
        assert len(found) in (1, 4) and {item.state for item in found} == {"running"}
        for item in found:
            assert (await item.exec("echo whole")).stdout == "whole\n"
            if item.id != box.id:
                await item.delete()
        assert list(world.directory.forks.iterdir()) == []


async def test_copies_that_do_not_count_yet_go_when_the_keeper_was_killed(one: Face, world: World) -> None:
    async with await one.create() as box:
        copies = await box.fork(count=2)
        batches.begin(world.directory, [copy.id for copy in copies])
        kill_keeper(world)
        assert (await box.exec("echo unharmed")).stdout == "unharmed\n"
        for copy in copies:
            with pytest.raises(SandboxNotFound):
                await one.connect(copy.id)
        assert list(world.directory.forks.iterdir()) == []


def records(folder: Path) -> dict[str, str]:
    found = {}
    for path in folder.glob("*/sandbox.json"):
        with suppress(OSError, ValueError):
            record = json.loads(path.read_bytes())
            found[record["id"]] = record["state"]
    return found
