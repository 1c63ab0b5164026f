"""Stdin with back-pressure, and terminals."""

from __future__ import annotations

import asyncio
import errno
import os

import pytest

from takeback.errors import MachineRefused
from takeback.machines.channel.flows import STDIN_AHEAD
from takeback.machines.channel.link import Link
from takeback.machines.channel.messages import Command, Output
from tests.support.guest import ENV, Guest, collect, run


def test_what_is_written_arrives_whole_and_its_end_too(guest: Guest) -> None:
    data = os.urandom(3_000_000)

    async def body(link: Link) -> None:
        started = await link.spawn(Command(["cat"], env=ENV, stdin=True))
        reading = asyncio.create_task(collect(started.output))
        assert await link.write_stdin(started.id, data[:10]) == 10
        assert await link.write_stdin(started.id, data[10:], eof=True, taken=True) == len(data)
        assert (await reading).out == data

    guest.run(body)


def test_a_writer_waits_for_a_process_that_does_not_read(guest: Guest) -> None:
    async def body(link: Link) -> None:
        started = await link.spawn(Command(["sh", "-c", "read go; cat | wc -c"], env=ENV, stdin=True))
        await asyncio.sleep(0.1)
        stopped = await link.spawn(Command(["sleep", "99"], env=ENV, stdin=True))
        writing = asyncio.create_task(link.write_stdin(stopped.id, b"x" * 2_000_000))
        await asyncio.sleep(0.3)
        assert not writing.done()
        (listed,) = [one for one in await link.list() if one.id == stopped.id]
        assert STDIN_AHEAD <= listed.stdin_total <= STDIN_AHEAD + 64 * 1024
        await link.write_stdin(started.id, b"\n" + b"y" * 1_000_000, eof=True)
        assert (await collect(started.output)).out.strip() == b"1000000"
        await link.signal(stopped.id, 9)
        with pytest.raises(MachineRefused):
            await writing

    guest.run(body)


def test_a_new_host_knows_how_much_was_taken(guest: Guest) -> None:
    async def body(link: Link) -> None:
        started = await link.spawn(Command(["sh", "-c", "sleep 0.5; wc -c"], env=ENV, stdin=True))
        await link.write_stdin(started.id, b"x" * 200_000)
        link.close("gone")
        async with guest.attached() as second:
            (listed,) = await second.list()
            assert listed.stdin_total == 200_000 and listed.stdin_open
            output = second.follow(started.id)
            assert await second.write_stdin(started.id, b"y" * 500_000, eof=True) == 700_000
            assert (await collect(output)).out.strip() == b"700000"

    guest.run(body)


def test_a_closed_stdin_is_told_to_the_writer(guest: Guest) -> None:
    async def body(link: Link) -> None:
        started = await link.spawn(Command(["sh", "-c", "exec <&-; sleep 99"], env=ENV, stdin=True))
        await asyncio.sleep(0.2)
        with pytest.raises(MachineRefused) as caught:
            for _ in range(50):
                await link.write_stdin(started.id, b"x" * 100_000, taken=True)
        assert caught.value.fields["errno"] == errno.EPIPE
        without = await link.spawn(Command(["sleep", "99"], env=ENV))
        with pytest.raises(MachineRefused):
            for _ in range(50):
                await link.write_stdin(without.id, b"x", taken=True)

    guest.run(body)


def test_a_terminal_has_its_size_its_name_and_is_the_controlling_one(guest: Guest) -> None:
    async def body(link: Link) -> None:
        text = "tty; stty size; test -t 0 -a -t 1 -a -t 2 && echo all; : > /dev/tty && echo controlling"
        done = await run(link, ["bash", "-c", text], pty=(97, 31))
        lines = done.out.decode().split()
        assert lines[0].startswith("/dev/pts/") and lines[1:] == ["31", "97", "all", "controlling"]
        assert (await link.list())[0].pty

    guest.run(body)


def test_a_terminal_can_be_resized_and_typed_into(guest: Guest) -> None:
    async def body(link: Link) -> None:
        text = "trap 'stty size' WINCH; echo ready; while ! read -t 0.1 word; do :; done; echo got $word"
        started = await link.spawn(Command(["bash", "-c", text], env=ENV, pty=(80, 24)))
        output = started.output
        assert output is not None
        said = b""
        resized = typed = False
        async for told in output:
            if isinstance(told, Output):
                said += told.data
            if b"ready" in said and not resized:
                resized = True
                await link.resize(started.id, 120, 40)
            if b"40 120" in said and not typed:
                typed = True
                await link.write_stdin(started.id, b"hello\r")
        assert b"got hello" in said
        plain = await link.spawn(Command(["sleep", "99"], env=ENV))
        with pytest.raises(MachineRefused):
            await link.resize(plain.id, 1, 1)

    guest.run(body)


def test_control_c_interrupts_what_is_in_the_foreground(guest: Guest) -> None:
    async def body(link: Link) -> None:
        started = await link.spawn(
            Command(["bash", "-ic", "echo ready; sleep 99; echo over $?"], env=ENV, pty=(80, 24))
        )
        assert started.output is not None
        said = b""
        async for told in started.output:
            if isinstance(told, Output):
                said += told.data
                if b"ready" in said and b"^C" not in said:
                    await asyncio.sleep(0.1)
                    await link.write_stdin(started.id, b"\x03")
                    said += b"^C"
        assert b"ready" in said

    guest.run(body)


def test_the_end_of_input_reaches_a_terminal_program(guest: Guest) -> None:
    async def body(link: Link) -> None:
        started = await link.spawn(Command(["cat"], env=ENV, pty=(80, 24)))
        await link.write_stdin(started.id, b"word\n", eof=True)
        done = await collect(started.output)
        assert done.out.count(b"word") == 2 and done.ended is not None and done.ended.status == 0

    guest.run(body)


def test_the_last_words_on_a_terminal_are_not_lost(guest: Guest) -> None:
    async def body(link: Link) -> None:
        for _ in range(30):
            done = await run(link, ["sh", "-c", "seq 2000; echo last"], pty=(80, 24))
            assert done.out.endswith(b"2000\r\nlast\r\n")

    guest.run(body)


@pytest.mark.skipif(os.getuid() != 0, reason="only root can start processes of other users")
def test_a_terminal_belongs_to_its_user(guest: Guest) -> None:
    done = guest.run(lambda link: run(link, ["sh", "-c", "stat -c %u $(tty)"], pty=(80, 24), uid=1234, gid=1234))
    assert done.out.strip() == b"1234"
