"""The host's end of the channel when several use it, when answers fail to come, and when it is given up."""

from __future__ import annotations

import asyncio
import os
import signal

import pytest

from takeback.errors import MachineRefused, MachineSilent, TimedOut
from takeback.machines.channel.link import Link
from takeback.machines.channel.messages import Command, Ended
from tests.support.guest import ENV, Guest, collect, shell


def test_several_users_at_once_each_get_their_own_answers(guest: Guest) -> None:
    async def user(link: Link, number: int) -> None:
        for turn in range(10):
            done = await shell(link, f"echo {number} {turn}; exit {number}")
            assert done.out == f"{number} {turn}\n".encode()
            assert done.ended is not None and done.ended.status == number
            await link.ping()
            assert any(listed.argv[-1].startswith(b"echo") for listed in await link.list())

    async def body(link: Link) -> None:
        await asyncio.gather(*(user(link, number) for number in range(8)))

    guest.run(body)


def test_a_supervisor_that_stands_still_is_noticed_and_so_is_its_return(guest: Guest) -> None:
    async def body(link: Link) -> None:
        guest.process.send_signal(signal.SIGSTOP)
        with pytest.raises(TimedOut):
            await link.ping(0.2)
        with pytest.raises(TimedOut):
            await link.spawn(Command(["true"], env=ENV), limit=0.2)
        with pytest.raises(TimedOut):
            await link.quiesce(0.2)
        guest.process.send_signal(signal.SIGCONT)
        await link.ping()
        assert (await shell(link, "echo again")).out == b"again\n"

    guest.run(body)


def test_a_dead_supervisor_fails_everyone_once_the_owner_closes(guest: Guest) -> None:
    async def body(link: Link) -> None:
        started = await link.spawn(Command(["sleep", "99"], env=ENV, stdin=True))
        writing = asyncio.create_task(link.write_stdin(started.id, b"x" * 1_000_000))
        waiting = asyncio.create_task(link.wait(started.id))
        await asyncio.sleep(0.1)
        guest.process.kill()
        guest.process.wait()
        os.kill(started.pid, signal.SIGKILL)
        guest.process.returncode = 0
        with pytest.raises(TimedOut):
            await link.ping(0.2)
        link.close("its supervisor is dead")
        for task in (writing, waiting):
            with pytest.raises((MachineSilent, MachineRefused)):
                await task
        assert link.closed
        for call in (link.ping(), link.list(), link.spawn(Command(["true"])), link.signal(1, 9), link.attach()):
            with pytest.raises(MachineSilent):
                await call
        with pytest.raises(MachineSilent):
            link.follow(1)
        link.go()
        link.close()

    guest.run(body)


def test_every_end_is_told_to_the_owner_once(guest: Guest) -> None:
    async def body(link: Link) -> None:
        ends: list[tuple[int, Ended]] = []
        link.on_end(lambda ident, ended: ends.append((ident, ended)))
        started = [await link.spawn(Command(["sh", "-c", f"exit {code}"], env=ENV), follow=False) for code in range(5)]
        for one in started:
            await link.wait(one.id)
            await link.wait(one.id)
        assert sorted((ident, ended.status) for ident, ended in ends) == [
            (one.id, at) for at, one in enumerate(started)
        ]
        with pytest.raises(MachineRefused):
            await link.wait(4711)

    guest.run(body)


def test_attaching_again_finds_ends_and_new_numbers(guest: Guest) -> None:
    async def body(link: Link) -> None:
        old = await shell(link, "exit 3")
        assert old.ended is not None
        running = await link.spawn(Command(["sh", "-c", "sleep 0.5; exit 4"], env=ENV))
        await link.attach()
        with pytest.raises(MachineSilent):
            await collect(running.output)
        (ended, _) = await link.list()
        assert (await link.wait(ended.id)).status == 3
        assert (await link.wait(running.id)).status == 4
        fresh = await link.spawn(Command(["true"], env=ENV))
        assert fresh.id > running.id

    guest.run(body)


def test_a_cancelled_reader_leaves_nothing_hanging(guest: Guest) -> None:
    async def body(link: Link) -> None:
        started = await link.spawn(Command(["sh", "-c", "sleep 0.3; echo word"], env=ENV))
        reading = asyncio.create_task(collect(started.output))
        await asyncio.sleep(0.05)
        reading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reading
        assert (await collect(started.output)).out == b"word\n"  # nothing was lost with the task

    guest.run(body)
