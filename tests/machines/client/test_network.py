"""What real sandboxes reach, under rules that hold at once, through copies, restores and the death of the keeper."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from takeback.errors import BadRule
from tests.machines.client.conftest import World
from tests.machines.client.faces import Face
from tests.machines.client.test_keeper import kill_keeper
from tests.machines.client.web import Server, serving

OFF = {"internet": False}


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    with serving(tmp_path) as made:
        yield made


async def fetch(box: Any, server: Server, path: str = "/hello") -> str:
    """Return what curl gets, or the code of the refusal."""
    # As a proxy's request: a loopback address is in NO_PROXY, for servers inside.
    done = await box.exec(f"curl -sSi -m 20 --noproxy '' http://{server.address}{path}")
    head, _, body = done.stdout.partition("\r\n\r\n")
    for line in head.splitlines():
        if line.lower().startswith("x-runtime-egress:"):
            return str(line.split(":")[1].strip())
    return str(body or done.stderr)


async def test_metrics_count_the_bytes_of_both_directions(one: Face, server: Server) -> None:
    async with await one.create(network={"connect": [server.address]}) as box:
        before = await box.metrics()
        assert (before["networkSentBytes"], before["networkReceivedBytes"]) == (0, 0)
        await box.exec(f"curl -sS -m 20 --noproxy '' http://{server.address}/hello -H 'X-Long: {'x' * 20_000}'")
        after = await box.metrics()
        assert 20_000 < after["networkSentBytes"] < 25_000 and 5 < after["networkReceivedBytes"] < 5_000
        used = await box.cost()
        assert (used["sentBytes"], used["receivedBytes"]) == (
            after["networkSentBytes"], after["networkReceivedBytes"],
        )  # fmt: skip
        copy = await box.fork()
        assert (await copy.metrics())["networkSentBytes"] == 0
        await copy.delete()


async def until(what: Any, patience: float = 10.0) -> None:
    """Wait until something is so."""
    for _ in range(int(patience / 0.02)):
        if what():
            return
        await asyncio.sleep(0.02)
    raise AssertionError("it did not happen")


async def test_rules_are_given_shown_replaced_and_hold(face: Face, server: Server) -> None:
    async with await face.create(network={"connect": [server.address]}) as box:
        record = await box.network.get()
        assert (record["sandboxId"], record["internet"], record["allow"], record["deny"], record["connect"]) == (
            box.id, True, [], [], [server.address],
        )  # fmt: skip
        assert (record["version"], record["enforced"], record["enforcedVersion"], record["openPorts"]) == (
            1, True, 1, True,
        )  # fmt: skip
        assert (record["connectAllowed"], record["ports"]) == (True, [80, 443]) and 25 in record["forbiddenPorts"]
        assert await fetch(box, server) == "hello"
        record = await box.network.off()
        assert (record["internet"], record["connect"], record["version"]) == (False, [], 2)
        assert await fetch(box, server) == "internet-off"
        await box.network.on()
        assert await fetch(box, server) == "rule-not-allowed"  # loopback must be named
        record = await box.network.set(internet=True, allow=["127.0.0.1"], deny=["*.example.org"])
        assert (record["allow"], record["deny"]) == (["127.0.0.1"], ["*.example.org"])
        assert await fetch(box, server) == "hello"
        with pytest.raises(BadRule):
            await box.network.set(internet=True, allow=["http://x/"])
        assert (await box.network.get())["version"] == record["version"]
        log = await box.network.log()
        assert [entry["allowed"] for entry in log] == [True, False, False, True]
        assert "curl" in log[0]["step"] and log[0]["method"] == "GET"
        assert await box.network.log(1) == log[-1:]


async def test_what_is_no_rule_makes_no_sandbox(face: Face) -> None:
    wrongs: tuple[Any, ...] = ({"internet": "no"}, {"nothing": 1}, {"allow": "example.com"}, {"connect": ["x:25"]}, [])
    for wrong in wrongs:
        with pytest.raises(BadRule):
            await face.create(network=wrong)
    assert await face.list(include_stopped=True) == []


async def test_off_cuts_an_open_connection_at_once(face: Face, server: Server) -> None:
    async with await face.create(network={"connect": [server.address]}) as box:
        process = await box.spawn(f"curl -sSN --noproxy '' http://{server.address}/slow; echo ended $?")
        while "hello" not in await output(process):  # what the server sent first has come
            pass
        await box.network.off()
        await until(lambda: server.slow == 0, 5.0)
        said = (await process.wait()).stdout
        assert "hello" in said and "ended 0" not in said and "ended" in said
        (entry,) = await box.network.log()
        assert entry["ended"].startswith("cut by new rules") and "curl" in entry["step"]


async def test_a_copy_has_the_rules_of_its_source_and_no_connection_of_it(one: Face, server: Server) -> None:
    async with await one.create(network={"allow": ["127.0.0.1"]}) as box:
        process = await box.spawn(f"curl -sS --noproxy '' http://{server.address}/slow; echo ended $?")
        await until(lambda: server.slow == 1)
        async with await box.fork() as copy, await box.fork(network=OFF) as dark:
            assert (await copy.network.get())["allow"] == ["127.0.0.1"]
            assert await fetch(copy, server) == "hello"
            assert (await dark.network.get())["internet"] is False
            assert await fetch(dark, server) == "internet-off"
            # Reset at once in the copies, untouched in the source.
            for other in (copy, dark):
                theirs = await asyncio.wait_for((await other.process(process.id)).wait(), 5)
                assert "ended 0" not in theirs.stdout
            await copy.network.off()
            assert server.slow == 1 and (await process.refresh())["state"] == "running"
            await dark.network.set(internet=True, connect=[server.address])
            assert await fetch(dark, server) == "hello"
        assert (await box.network.get())["allow"] == ["127.0.0.1"]
        await process.kill()
        await until(lambda: server.slow == 0)


async def test_a_copy_that_is_offline_never_reached_anything(one: Face, server: Server) -> None:
    asking = (
        f"while true; do curl -s -m 5 --noproxy '' -o /dev/null -w '%{{http_code}}\\n' http://{server.address}/hello"
    )
    async with await one.create(network={"connect": [server.address]}) as box:
        process = await box.spawn(f"{asking}; done")
        await asyncio.sleep(0.5)
        async with await box.fork(network=OFF) as dark:
            await asyncio.sleep(1)
            log = await dark.network.log()
            assert log and not any(entry["allowed"] for entry in log)
        await process.kill()


ASKING = """
import threading, time, urllib.request
opener = urllib.request.build_opener(urllib.request.ProxyHandler({"http": "http://127.0.0.1:10800"}))
def ask():
    while True:
        began = time.monotonic()
        try:
            opener.open("URL", timeout=60).read()
            how = "well"
        except OSError:
            how = "reset"
        print(how, time.monotonic() - began, flush=True)
        time.sleep(0.01)
for _ in range(4):
    threading.Thread(target=ask).start()
"""


HOOK = "#!/bin/sh\nsleep 1\n"


@pytest.mark.long
async def test_a_program_that_connects_while_a_copy_begins_gets_an_answer(one: Face, server: Server) -> None:
    """The copy's programs run before its network is, for as long as its hook takes; a connection must not hang then."""
    async with await one.create(network={"connect": [server.address]}) as box:
        await box.exec("mkdir /etc/takeback; install /dev/stdin /etc/takeback/on-copy", user="root", stdin=HOOK)
        source = ASKING.replace("URL", f"http://{server.address}/hello")
        process = await box.spawn(["python3", "-c", source], env={"NO_PROXY": "", "no_proxy": ""})
        await asyncio.sleep(1)
        for _ in range(2):
            async with await box.fork() as copy:
                await asyncio.sleep(2)
                theirs = await copy.process(process.id)
                lines = [line.split() for line in (await output(theirs)).splitlines()]
                # What was open is reset, everything after it is answered, and nobody waits for long.
                assert [how for how, _ in lines[-20:]] == ["well"] * 20
                assert max(float(seconds) for _, seconds in lines) < 4
        await process.kill()


# A pool of one: a connection that is kept open between requests, and made anew when it was lost.
POOL = """
import http.client, sys, time
pool = http.client.HTTPConnection("127.0.0.1", 10800, timeout=60)
pool.set_tunnel("127.0.0.1", PORT)
for line in sys.stdin:
    began = time.monotonic()
    try:
        pool.request("GET", "/kept")
        said = "on " + pool.getresponse().read().decode()
    except (OSError, http.client.HTTPException) as error:
        pool.close()
        said = type(error).__name__
    print(said, "after", time.monotonic() - began, flush=True)
"""


async def asked(process: Any) -> str:
    """Have the pool ask once, and return what came of it, which must come soon."""
    before = len((await output(process)).splitlines())
    await process.write("\n")
    for _ in range(8):
        lines = (await output(process)).splitlines()
        if len(lines) > before:
            said, _, seconds = lines[-1].partition(" after ")
            assert float(seconds) < 4
            return str(said)
    raise AssertionError("it waits for an answer that never comes")


@pytest.mark.long
@pytest.mark.parametrize("disk", ["layers", pytest.param("memory", marks=pytest.mark.long)])
async def test_what_was_open_is_reset_at_once_by_a_restore_in_place_and_in_what_is_started_from_a_snapshot(
    one: Face, server: Server, disk: str
) -> None:
    async with await one.create(network={"connect": [server.address]}, disk=disk) as box:
        source = POOL.replace("PORT", str(server.port))
        pool = await box.spawn(["python3", "-c", source], stdin=True)
        loading = await box.spawn(f"curl -sS --noproxy '' http://{server.address}/slow; echo ended $?")
        await until(lambda: server.slow == 1)
        assert [await asked(pool), await asked(pool)] == ["on 1", "on 1"]
        taken = await box.snapshot()
        # Saving it has reset nothing.
        assert await asked(pool) == "on 1" and server.slow == 1

        async def begins_anew(other: Any) -> None:
            theirs = await asyncio.wait_for((await other.process(loading.id)).wait(), 5)
            assert "ended 0" not in theirs.stdout and "ended" in theirs.stdout
            there = await other.process(pool.id)
            assert not (await asked(there)).startswith("on ")
            fresh = await asked(there)
            assert fresh == f"on {server.kept}" and await asked(there) == fresh

        async with await one.create(snapshot=taken["id"]) as started, await box.fork() as copy:
            await begins_anew(started)
            await begins_anew(copy)
            assert server.kept == 3
        assert await asked(pool) == "on 1" and server.slow == 1
        await box.restore(taken["id"])
        await until(lambda: server.slow == 0)
        await begins_anew(box)
        assert server.kept == 4
        for snapshot in await box.snapshots():
            await box.delete_snapshot(snapshot["id"])


async def output(process: Any) -> str:
    """Return what a process has written so far."""
    events = [event async for event in process.output(timeout_seconds=0.5)]
    return "".join(event["data"] for event in events if event["type"] == "stdout")


async def test_rules_go_with_snapshots_unless_others_are_given(face: Face, server: Server) -> None:
    async with await face.create(network={"connect": [server.address]}) as box:
        await box.network.set(internet=True, allow=["127.0.0.1"])
        taken = await box.snapshot()
        await box.network.off()
        # A restore puts back the machine, not what its user has forbidden since.
        await box.restore(taken["id"])
        assert await fetch(box, server) == "internet-off"
        await box.network.set(internet=True, connect=[server.address])
        assert await fetch(box, server) == "hello"
    async with await face.create(snapshot=taken["id"]) as again:
        assert (await again.network.get())["allow"] == ["127.0.0.1"]
        assert await fetch(again, server) == "hello"
    async with await face.create(snapshot=taken["id"], network=OFF) as dark:
        assert await fetch(dark, server) == "internet-off"
    await dark.delete_snapshot(taken["id"])


async def test_rules_hold_when_the_keeper_was_killed_or_it_was_paused(face: Face, world: World, server: Server) -> None:
    async with await face.create(network={"allow": ["127.0.0.1"]}) as box, await face.create(network=OFF) as dark:
        process = await box.spawn(f"curl -sS --noproxy '' http://{server.address}/slow; echo ended $?")
        await until(lambda: server.slow == 1)
        kill_keeper(world)
        await until(lambda: server.slow == 0)
        assert await fetch(box, server) == "hello" and await fetch(dark, server) == "internet-off"
        assert "ended 0" not in (await process.wait()).stdout
        await box.pause()
        kill_keeper(world)
        assert await fetch(box, server) == "hello"
        record = await box.network.get()
        assert (record["allow"], record["version"]) == (["127.0.0.1"], 1)
        await box.stop()
        assert (await box.network.off())["version"] == 2
        await box.restart()
        assert await fetch(box, server) == "internet-off"


async def test_a_sandbox_whose_rules_are_spoiled_reaches_nothing(one: Face, world: World, server: Server) -> None:
    async with await one.create(network={"allow": ["127.0.0.1"]}) as box:
        file = world.directory.sandbox(box.id) / "network.json"
        kill_keeper(world)
        file.write_text(json.dumps({"format": 1, "internet": "yes"}))
        assert await fetch(box, server) == "internet-off"
        assert (await box.network.get())["internet"] is False
        await box.network.set(internet=True, allow=["127.0.0.1"])
        assert await fetch(box, server) == "hello"


async def test_processes_know_the_way_and_the_users_own_word_wins(face: Face) -> None:
    async with await face.create(env={"NO_PROXY": "mine.test"}) as box:
        shown = 'echo "$HTTP_PROXY $https_proxy $ALL_PROXY $NO_PROXY $NODE_USE_ENV_PROXY"'
        expected = "http://127.0.0.1:10800 http://127.0.0.1:10800 socks5h://127.0.0.1:10800 mine.test 1\n"
        assert (await box.exec(shown)).stdout == expected
        assert (await (await box.spawn(shown)).wait()).stdout == expected
        assert (await box.exec("echo $https_proxy", env={"https_proxy": "x"})).stdout == "x\n"
        assert (await box.exec("sudo sh -c 'echo $HTTPS_PROXY $NODE_USE_ENV_PROXY'")).stdout.split() == [
            "http://127.0.0.1:10800",
            "1",
        ]


async def test_login_shells_and_clean_environments_know_the_way_too(one: Face) -> None:
    async with await one.create() as box:
        shown = "env -i NO_PROXY=mine.test bash -lc 'echo $PATH; echo $https_proxy $NO_PROXY'"
        path, proxies = (await box.exec(shown)).stdout.splitlines()
        assert path.startswith("/workspace/.local/bin:") and "/usr/bin" in path.split(":")
        assert proxies == "http://127.0.0.1:10800 mine.test"


async def test_the_users_own_proxy_is_used(one: Face, world: World, server: Server) -> None:
    world.client.environ = {"http_proxy": f"http://{server.address}"}
    async with await one.create(network={"allow": ["far.test"]}) as box:
        assert (await box.exec("curl -sS http://far.test/hello")).stdout == "hello"
        assert "rule-not-allowed" in (await box.exec("curl -sSi http://other.test/hello")).stdout


async def test_only_the_one_command_that_can_have_caused_it_is_named(one: Face, server: Server, world: World) -> None:
    async with await one.create(network={"connect": [server.address]}) as box:
        assert await fetch(box, server) == "hello"
        sleeping = await box.spawn("sleep 1000")
        assert await fetch(box, server) == "hello"
        kill_keeper(world)  # the next one asks what runs
        assert await fetch(box, server) == "hello"
        async with await box.fork() as copy:
            assert await fetch(copy, server) == "hello"
            (theirs,) = await copy.network.log()
        await sleeping.kill()
        await sleeping.wait()
        assert await fetch(box, server) == "hello"
        steps = [entry["step"] for entry in await box.network.log()]
        alone, both = steps[0], f"one of: sleep 1000 | {steps[0]}"
        assert alone.startswith("curl") and steps == [alone, both, both, alone] and theirs["step"] == both
