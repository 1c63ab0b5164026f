"""The ring: held back while somebody reads, overwritten when nobody does, exact offsets always."""

from __future__ import annotations

import asyncio
import os

import pytest

from takeback.errors import MachineRefused, MachineSilent
from takeback.machines.channel.link import Link
from takeback.machines.channel.messages import Command, Gap, Output
from tests.support.guest import ENV, Guest, collect, run, shell, until

MIB = 1 << 20
COUNTER = "i=0; while [ $i -lt {} ]; do printf '%07d\\n' $i; i=$((i+1)); done"


def test_a_flood_of_200_mb_reaches_a_slow_reader_whole_and_in_bounded_memory(guest: Guest) -> None:
    async def body(link: Link) -> None:
        started = await link.spawn(Command(["head", "-c", "200000000", "/dev/zero"], env=ENV))
        assert started.output is not None
        size = 0
        reads = 0
        async for told in started.output:
            if isinstance(told, Output):
                assert told.offset == size and not told.data.strip(b"\0")
                size += len(told.data)
                reads += 1
                if reads % 500 == 0:
                    await asyncio.sleep(0.02)
                    assert guest.resident() < 80 * MIB
        assert size == 200_000_000

    guest.run(body)


def test_a_reader_that_stops_holds_the_process_back_and_nobody_else(guest: Guest) -> None:
    async def body(link: Link) -> None:
        slow = await link.spawn(Command(["sh", "-c", "yes | head -c 8000000; echo end"], env=ENV), window=1000)
        await asyncio.sleep(0.3)
        listed = {one.id: one for one in await link.list()}[slow.id]
        assert listed.ended is None and listed.total <= MIB + 1000 and listed.first <= 1000
        assert (await run(link, ["head", "-c", "3000000", "/dev/zero"])).size == 3_000_000
        done = await collect(slow.output)
        assert done.size == 8_000_004 and done.out.endswith(b"end\n") and not done.gaps

    guest.run(body)


def test_without_a_reader_the_last_mebibyte_is_kept(guest: Guest) -> None:
    async def body(link: Link) -> None:
        text = COUNTER.format(300_000)
        started = await link.spawn(Command(["bash", "-c", text], env=ENV), follow=False)
        ended = await link.wait(started.id)
        assert ended.total == 2_400_000
        (listed,) = await link.list()
        assert listed.first == 2_400_000 - MIB
        done = await collect(link.follow(started.id, 0))
        assert done.gaps == [listed.first] and done.size == MIB
        assert done.out == b"".join(b"%07d\n" % i for i in range(300_000))[-MIB:]
        middle = await collect(link.follow(started.id, 2_000_000), 2_000_000)
        assert middle.size == 400_000 and not middle.gaps

    guest.run(body)


@pytest.mark.long
def test_a_reader_ten_seconds_late_loses_output_and_is_told(guest: Guest) -> None:
    async def body(link: Link) -> None:
        started = await link.spawn(Command(["head", "-c", "30000000", "/dev/zero"], env=ENV), window=4096)
        assert started.output is not None
        ended = await link.wait(started.id)  # nobody reads: held back for ten seconds, then not
        assert ended.duration_ms > 9000 and ended.total == 30_000_000
        done = await collect(started.output)
        assert len(done.gaps) == 1 and done.size + (done.gaps[0] - 4096) == 30_000_000

    guest.run(body)


def test_leaving_lets_the_process_run_on(guest: Guest) -> None:
    async def body(link: Link) -> None:
        started = await link.spawn(Command(["head", "-c", "9000000", "/dev/zero"], env=ENV), window=1000)
        assert started.output is not None
        started.output.close()
        assert (await link.wait(started.id)).total == 9_000_000

    guest.run(body)


def test_many_may_follow_one_process_each_at_its_own_pace(guest: Guest) -> None:
    async def body(link: Link) -> None:
        started = await link.spawn(Command(["bash", "-c", COUNTER.format(100_000)], env=ENV), follow=False)
        followers = [link.follow(started.id, window=size) for size in (1, 100, 5000, 300_000, 2_000_000)]
        followers += [link.follow(started.id, window=100_000) for _ in range(5)]
        for done in await asyncio.gather(*(collect(one) for one in followers[1:])):
            assert done.size == 800_000 and done.ended is not None

    # The one with a window of a single byte is left behind: it may neither stop the others nor end them.
    guest.run(body)


def test_the_streams_keep_apart_however_they_alternate(guest: Guest) -> None:
    text = "i=0; while [ $i -lt 20000 ]; do printf o; printf e >&2; printf O; i=$((i+1)); done"
    done = guest.run(lambda link: run(link, ["bash", "-c", text]))
    assert done.out == b"oO" * 20_000 and done.err == b"e" * 20_000


def test_a_follower_of_an_unknown_process_is_refused(guest: Guest) -> None:
    with pytest.raises(MachineRefused):
        guest.run(lambda link: collect(link.follow(99)))


def test_a_new_host_goes_on_in_the_middle_of_a_flood(guest: Guest) -> None:
    expected = b"".join(b"%07d\n" % i for i in range(1_000_000))

    async def body(first: Link) -> None:
        text = "for (( i = 0; i < 1000000; i++ )); do printf '%07d\\n' $i; done"
        started = await first.spawn(Command(["bash", "-c", text], env=ENV))
        assert started.output is not None
        got = bytearray()
        output, link = started.output, first
        for _ in range(4):
            goal = len(got) + 700_000
            async for told in output:
                if isinstance(told, Gap):
                    # Between two hosts nobody follows, so output may go: it is told, and the offsets are right.
                    got += expected[len(got) : told.resume_at]
                if isinstance(told, Output):
                    assert told.offset == len(got)
                    got += told.data
                    if len(got) >= goal:
                        break
            # The old host is gone with frames unread and a request half answered.
            second = guest.link()
            link.close("gone")
            await second.attach()
            (listed,) = await second.list()
            assert listed.id == started.id and listed.ended is None
            output, link = second.follow(started.id, len(got)), second
        assert bytes(got) == expected[: len(got)]
        await link.signal(started.id, 9)
        link.close()

    guest.run(body)


def test_closing_a_link_wakes_everyone_with_an_error(guest: Guest) -> None:
    async def body(link: Link) -> None:
        started = await link.spawn(Command(["sleep", "99"], env=ENV))
        waiting = [asyncio.ensure_future(link.wait(started.id)), asyncio.ensure_future(collect(started.output))]
        await asyncio.sleep(0.05)
        link.close("it is over")
        for one in waiting:
            with pytest.raises(MachineSilent, match="it is over"):
                await one
        with pytest.raises(MachineSilent):
            await link.ping()

    guest.run(body)


def test_an_absent_host_stops_nothing_that_it_does_not_follow(guest: Guest) -> None:
    async def body(link: Link) -> None:
        followed = await link.spawn(Command(["head", "-c", "50000000", "/dev/zero"], env=ENV))
        free = await link.spawn(Command(["head", "-c", "50000000", "/dev/zero"], env=ENV), follow=False)
        link.close("gone")
        await asyncio.sleep(0.5)
        async with guest.attached() as second:
            listed = {one.id: one for one in await second.list()}
            assert listed[free.id].ended is not None
            # The follower went with its host, so it no longer holds the process back.
            ended = await second.wait(followed.id)
            assert ended.total == 50_000_000

    guest.run(body)


def test_output_waits_while_quiet_and_comes_after(guest: Guest) -> None:
    async def body(link: Link) -> None:
        started = await link.spawn(Command(["head", "-c", "20000000", "/dev/zero"], env=ENV))
        reading = asyncio.create_task(collect(started.output))
        for _ in range(20):
            await link.quiesce()
            pong = await link.ping()
            assert pong.wall_ns > 0
            link.go()
            await asyncio.sleep(0)
        assert (await reading).size == 20_000_000
        await link.quiesce()
        echoed = asyncio.create_task(shell(link, "echo kept"))
        await asyncio.sleep(0.1)
        assert not echoed.done()
        link.go()
        assert (await echoed).out == b"kept\n"

    guest.run(body)


def test_a_new_host_ends_the_quiet(guest: Guest) -> None:
    async def body(link: Link) -> None:
        await link.quiesce()
        link.close()
        async with guest.attached() as second:
            assert (await shell(second, "echo awake")).out == b"awake\n"

    guest.run(body)


@pytest.mark.skipif("TAKEBACK_TEST_SUPERVISOR" in os.environ, reason="sanitizers keep what was freed")
def test_memory_is_given_back(guest: Guest) -> None:
    async def body(link: Link) -> None:
        for _ in range(10):
            await asyncio.gather(*(run(link, ["head", "-c", "1500000", "/dev/zero"]) for _ in range(20)))
        for listed in await link.list():
            await link.forget(listed.id)
        await until(lambda: guest.resident() < 150 * MIB)

    guest.run(body)
