"""The keeper comes and goes: started by the first use, killed at any moment, replaced, ended by itself."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from takeback.errors import KeeperFailed, SandboxStopped, TakebackError
from takeback.machines import wire
from takeback.machines.client.sandbox import Sandbox
from takeback.machines.client.snapshots import Snapshots
from takeback.machines.keeper.log import LARGEST
from tests.machines.client import leaks
from tests.machines.client.conftest import World
from tests.machines.client.faces import Face


def kill_keeper(world: World) -> None:
    leaks.end_keeper(world.data, signal.SIGKILL)


async def test_a_killed_keeper_is_replaced_and_finds_everything_again(face: Face, world: World) -> None:
    box = await face.create(name="kept", labels={"a": "1"}, env={"A": "1"})
    still = await face.create()
    await still.pause()
    process = await box.spawn("echo before; while read line; do echo got $line; done; exit 5")
    await box.files.write("/workspace/file", "content")
    await process.write("one\n")
    kill_keeper(world)
    again = await face.connect(box.id)
    assert (again.state, again.info["name"], again.info["labels"]) == ("running", "kept", {"a": "1"})
    assert await again.files.read("/workspace/file") == b"content"
    await process.write("two\n")
    await process.write("", eof=True)
    result = await process.wait()
    assert (result.exit_code, result.stdout) == (5, "before\ngot one\ngot two\n")
    assert (await again.exec("echo $A")).stdout == "1\n"
    assert (await still.refresh()).state == "paused"
    assert (await still.exec("echo awake")).stdout == "awake\n"
    await box.delete()
    await still.delete()


async def test_a_command_goes_on_while_its_keeper_is_replaced(one: Face, world: World) -> None:
    async with await one.create() as box:
        script = "for i in 1 2 3 4 5 6; do echo line $i; sleep 0.3; done; exit 3"
        watched: list[str] = []
        whole = asyncio.create_task(box.exec(script))
        called = asyncio.create_task(box.exec(script, on_stdout=watched.append))
        streamed = asyncio.create_task(collect(box, script))
        await asyncio.sleep(0.8)
        kill_keeper(world)
        expected = "".join(f"line {number}\n" for number in range(1, 7))
        for result in (await whole, await called):
            assert (result.exit_code, result.stdout, result.stdout_truncated) == (3, expected, False)
        assert "".join(watched) == expected
        events = await streamed
        assert "".join(event["data"] for event in events if event["type"] == "stdout") == expected
        assert events[-1]["exitCode"] == 3


async def collect(box: object, script: str) -> list[dict[str, object]]:
    return [event async for event in box.exec_stream(script)]  # type: ignore[attr-defined]


async def test_a_sandbox_killed_while_no_keeper_looked_is_lost_with_the_reason(face: Face, world: World) -> None:
    box = await face.create()
    kill_keeper(world)
    for pid, words in leaks.processes(world.data).items():
        if "takeback.machines.keeper" not in words:
            os.kill(pid, signal.SIGKILL)
    await box.refresh()
    assert box.state == "stopped" and box.info["stopReason"] == "lost" and box.info["lost"]
    with pytest.raises(SandboxStopped, match="when a keeper looked"):
        await box.exec("true")
    await box.delete()


async def test_a_keeper_that_is_asked_to_end_leaves_sandboxes_running(face: Face, world: World) -> None:
    async with await face.create() as box:
        process = await box.spawn("sleep 1000")
        leaks.end_keeper(world.data)
        assert not world.directory.socket.exists()
        assert (await process.refresh())["state"] == "running"


async def test_a_killed_program_leaves_its_command_running_and_nothing_waiting(one: Face, world: World) -> None:
    async with await one.create() as box:
        source = (
            "import sys; from pathlib import Path\n"
            "from takeback.machines.client.connect import Client\n"
            "from takeback.machines.client.sandbox import Sandbox\n"
            f"box = Sandbox.connect({box.id!r}, client=Client(Path({str(world.data)!r})))\n"
            "script = 'echo up; sleep 0.8; echo done > finished; yes | head -c 3000000'\n"
            "box.exec(script, on_stdout=lambda text: print(text, flush=True))\n"
        )
        program = subprocess.Popen([sys.executable, "-c", source], stdout=subprocess.PIPE)
        assert program.stdout is not None
        assert program.stdout.readline() == b"up\n"
        program.kill()
        program.wait()
        program.stdout.close()
        for _ in range(100):
            records = await box.processes()
            if records[0]["state"] != "running":
                break
            await asyncio.sleep(0.05)
        # It was not held back for a reader who has gone.
        assert (records[0]["exitCode"], records[0]["outputBytes"]) == (0, 3_000_003)
        assert await box.files.exists("/workspace/finished")


async def test_it_ends_by_itself_when_there_is_nothing_to_keep(world: World) -> None:
    world.client.idle_seconds = 0.5
    one = Face(world.client, blocking=False)
    box = await one.create()
    await asyncio.sleep(2.5)
    assert len(leaks.keepers(world.data)) == 1
    await box.delete()
    for _ in range(200):
        if not leaks.keepers(world.data):
            break
        await asyncio.sleep(0.05)
    assert leaks.keepers(world.data) == [] and not world.directory.socket.exists()
    assert await one.list() == []


async def test_many_programs_at_once_start_one_keeper(world: World) -> None:
    source = (
        "from pathlib import Path\n"
        "from takeback.machines.client.connect import Client\n"
        "from takeback.machines.client.sandbox import Sandbox\n"
        f"print(len(Sandbox.list(client=Client(Path({str(world.data)!r})))))\n"
    )
    programs = [subprocess.Popen([sys.executable, "-c", source], stdout=subprocess.PIPE) for _ in range(6)]
    for program in programs:
        assert program.communicate()[0] == b"0\n"
    # Those that came second say so and end.
    until = time.monotonic() + 10
    while len(leaks.keepers(world.data)) > 1 and time.monotonic() < until:
        await asyncio.sleep(0.02)
    assert len(leaks.keepers(world.data)) == 1


async def test_a_keeper_of_another_version_with_nothing_to_keep_makes_room(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert Sandbox.list(client=world.client) == []
    first = leaks.keepers(world.data)
    signed = world.client.signed
    # Until a keeper of "its" version is there: the one started anew is of this version again.
    monkeypatch.setattr(
        world.client,
        "signed",
        lambda asked: signed(asked) | ({"version": "9"} if leaks.keepers(world.data) == first else {}),
    )
    assert Sandbox.list(client=world.client) == []
    assert leaks.keepers(world.data) != first


async def test_a_keeper_of_another_version_with_sandboxes_is_used_when_it_speaks_alike(
    one: Face, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    from takeback.errors import OtherKeeper

    async with await one.create() as box:
        signed = world.client.signed
        monkeypatch.setattr(world.client, "signed", lambda asked: signed(asked) | {"version": "9"})
        assert (await box.exec("true")).exit_code == 0
        monkeypatch.setattr(world.client, "signed", lambda asked: signed(asked) | {"version": "9", "protocol": 9})
        with pytest.raises(OtherKeeper) as caught:
            await box.exec("true")
        assert "1 running" in str(caught.value)
        monkeypatch.undo()


async def test_a_keeper_that_cannot_start_says_why(world: World) -> None:
    world.directory.root.mkdir(parents=True)
    world.directory.socket.mkdir()
    with pytest.raises(KeeperFailed) as caught:
        Sandbox.list(client=world.client)
    assert "keeper.sock" in str(caught.value) and caught.value.hint_text
    world.directory.socket.rmdir()
    world.directory.log.unlink()


async def test_a_log_that_cannot_be_written_is_what_it_says(world: World) -> None:
    world.directory.log.mkdir(parents=True)
    with pytest.raises(KeeperFailed, match="its log cannot be written: Is a directory"):
        Sandbox.list(client=world.client)
    world.directory.log.rmdir()


async def test_its_record_and_log_are_there_and_bounded(one: Face, world: World) -> None:
    async with await one.create():
        noted = json.loads(world.directory.keeper.read_bytes())
        assert noted["version"] and noted["namespaces"]["mnt"] != os.readlink("/proc/self/ns/mnt")
        with open(world.directory.log, "ab") as log:
            log.write(b"x" * (LARGEST + 10))
        leaks.end_keeper(world.data)
        await one.list()
        assert world.directory.log.stat().st_size < LARGEST


async def test_a_record_that_cannot_be_read_does_no_harm_to_the_others(one: Face, world: World) -> None:
    async with await one.create() as box:
        spoiled = world.directory.root / "sandboxes" / "11111111-1111-4111-8111-111111111111"
        spoiled.mkdir()
        (spoiled / "sandbox.json").write_text('{"format": 1, "id"')
        (world.directory.root / "sandboxes" / "22222222-2222-4222-8222-222222222222").mkdir()
        strays = [world.directory.root / name / ".stray" for name in ("sandboxes", "snapshots", "pool")]
        for stray in strays:
            stray.parent.mkdir(exist_ok=True)
            stray.touch()
        kill_keeper(world)
        assert (await box.exec("true")).exit_code == 0
        found = {other.id: other for other in await one.list()}
        assert found.keys() == {box.id, spoiled.name} and spoiled.name in world.log()
        lost = found[spoiled.name]
        assert lost.state == "stopped" and "its record cannot be read" in lost.info["lost"]
        for call in (lost.restart(), lost.update(name="x"), lost.exec("true")):
            with pytest.raises(TakebackError, match="sandbox"):
                await call
        await lost.delete()
        for stray in strays:
            stray.unlink(missing_ok=True)


async def test_only_its_own_user_may_speak_to_it(one: Face, world: World) -> None:
    if os.getuid() != 0:
        pytest.skip("only root can be another user")
    await one.list()
    os.chmod(world.data, 0o755)
    os.chmod(world.directory.root, 0o755)
    os.chmod(world.directory.socket, 0o777)
    source = (
        "import os, socket; os.setuid(65534); s = socket.socket(socket.AF_UNIX)\n"
        f"s.connect({str(world.directory.socket)!r})\n"
        "try: print(s.recv(10))\nexcept ConnectionResetError: print(b'')"
    )
    done = subprocess.run([sys.executable, "-c", source], capture_output=True, check=True)
    assert done.stdout == b"b''\n"
    assert "refused a connection of user 65534" in world.log()


async def test_idle_sandboxes_pause_and_leases_end(one: Face, world: World) -> None:
    box = await one.create()
    leased = await one.create(on_lease_end="delete")
    # As if time had passed: nobody waits a minute for this.
    for sandbox, changes in ((box, {"idle_pause_seconds": 1}), (leased, {"lease_ns": 1})):
        path = Path(world.directory.sandbox(sandbox.id)) / "sandbox.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | changes | {"active_ns": time.time_ns() - 10**10}))
    kill_keeper(world)
    for _ in range(200):
        infos = {found.id: found.state for found in await one.list(include_stopped=True)}
        if infos == {box.id: "paused"}:
            break
        await asyncio.sleep(0.05)
    assert infos == {box.id: "paused"}
    await box.delete()


async def test_a_keeper_killed_at_any_moment_of_a_life_leaves_nothing_that_cannot_be_removed(
    one: Face, world: World
) -> None:
    for pause in (0.02, 0.05, 0.1, 0.15):
        task = asyncio.create_task(one.create(name="twice"))
        await asyncio.sleep(pause)
        kill_keeper(world)
        try:
            box = await task
        except TakebackError:
            (box,) = await one.list(include_stopped=True) or [None]
        if box is not None:
            await box.refresh()
            assert box.state in ("running", "stopped")
            deleting = asyncio.create_task(box.delete())
            await asyncio.sleep(pause / 2)
            kill_keeper(world)
            try:
                await deleting
            except TakebackError:
                pass
        fresh = await one.get_or_create("twice")
        assert (await fresh.exec("true")).exit_code == 0
        await fresh.delete()


@pytest.mark.long
async def test_a_keeper_killed_while_a_sandbox_stops_or_pauses_finds_it_as_it_is(one: Face, world: World) -> None:
    for operation in ("stop", "pause"):
        for pause in (0.0, 0.01, 0.03, 0.1):
            box = await one.create()
            task = asyncio.create_task(getattr(box, operation)())
            await asyncio.sleep(pause)
            kill_keeper(world)
            try:
                await task
            except TakebackError:
                pass
            await box.refresh()
            if box.state == "stopped" and box.info["diskKept"]:
                await box.restart()
            if box.state != "stopped":
                assert (await box.exec("echo well")).stdout == "well\n"
            else:
                assert box.info["lost"]
            await box.delete()


def test_a_caller_that_is_slow_to_end_its_input_still_gets_the_answer(world: World) -> None:
    with Sandbox.create(client=world.client) as box, world.client.connect() as connection:
        request = {"op": "file-write", "sandbox": box.id, "path": "/workspace/empty", "size": 0, "mode": None}
        connection.sendall(wire.pack_json(world.client.signed(request)))
        time.sleep(1)  # an empty file is written by then
        connection.sendall(wire.pack(wire.Type.EOF))
        parser = wire.Parser()
        frames: list[wire.Frame] = []
        while len(frames) < 2:
            frames += parser.feed(connection.recv(4096))
        assert [frame[0] for frame in frames] == [wire.Type.HELLO, wire.Type.JSON]
        assert "ok" in wire.unpack_json(frames[1][1])


async def test_sweeping_goes_on_beside_records_that_cannot_be_read(one: Face, world: World) -> None:
    """What they may need stays; they can be seen and deleted, and then that goes too."""
    box, other = await one.create(disk="layers"), await one.create(disk="layers")
    await box.files.write("/workspace/file", "x")
    taken = await box.snapshot()
    await other.stop()
    for path in (world.directory.sandbox(box.id) / "sandbox.json", world.directory.sandbox(other.id) / "sandbox.json"):
        path.write_text("")
    (world.directory.snapshot(taken["id"]) / "snapshot.json").write_text('{"format": 1')
    needed = set(os.listdir(world.directory.layers))
    kill_keeper(world)
    third = await one.create(disk="layers")
    await third.files.write("/workspace/file", "x")
    assert set(os.listdir(world.directory.layers)) > needed
    await third.delete()
    await until(lambda: set(os.listdir(world.directory.layers)) == needed)
    (snapshot,) = Snapshots(world.client).list()
    assert (snapshot["id"], snapshot["state"]) == (taken["id"], "failed") and snapshot["error"]
    with pytest.raises(TakebackError, match="record of snapshot"):
        await one.create(snapshot=taken["id"])
    await box.delete_snapshot(taken["id"])
    for lost in (box, other):
        await lost.delete()
    await until(lambda: os.listdir(world.directory.layers) == [])


async def until(true: Callable[[], bool]) -> None:
    end = time.monotonic() + 20
    while not true():
        assert time.monotonic() < end
        await asyncio.sleep(0.05)


@pytest.mark.long
@pytest.mark.parametrize("name", ["in", "engine.json"])
async def test_a_sandbox_whose_files_are_gone_is_lost_alone_and_leaves_no_process(
    one: Face, world: World, name: str
) -> None:
    async with await one.create() as box:
        damaged = await one.create()
        folder = world.directory.sandbox(damaged.id)
        left = folder / ".tmp-left"
        left.touch()
        kill_keeper(world)
        (folder / name).unlink()
        assert (await box.exec("true")).exit_code == 0
        assert not left.exists()
        await damaged.refresh()
        assert damaged.state == "stopped" and damaged.info["lost"]
        await damaged.delete()
        running = {record.id for record in await one.list()}
        assert running == {box.id}
