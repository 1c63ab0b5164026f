"""Relayed connections: bytes both ways, windows, ends and resets."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
from collections import defaultdict

import pytest

from takeback.machines.channel.frames import PAYLOAD_MAX, Fields, Flag, Frame, Tag, Type, encode_fields, encode_frame
from takeback.machines.channel.link import Link
from tests.support.guest import Guest, shell, until

WINDOW = 256 * 1024


class Host:
    """The host's side of relayed connections, as little of it as a test needs."""

    def __init__(self, link: Link, *, taking: bool = True) -> None:
        self.link = link
        self.taking = taking
        self.data: dict[int, bytearray] = defaultdict(bytearray)
        self.eof: set[int] = set()
        self.taken: dict[int, int] = defaultdict(int)
        self.hangups: dict[int, int] = {}
        self.dialled: set[int] = set()
        self.accepted: list[int] = []
        link.on_connection(self.on_frame)

    def on_frame(self, frame: Frame) -> None:
        kind, flags, ident, payload = frame
        if kind == Type.GUEST_BYTES:
            self.data[ident] += payload
            if flags & Flag.EOF:
                self.eof.add(ident)
            if self.taking:
                self.take(ident)
        elif kind == Type.GUEST_TAKEN:
            self.taken[ident] = Fields(payload).number(Tag.TOTAL)
        elif kind == Type.GUEST_HANGUP:
            self.hangups[ident] = Fields(payload).number(Tag.ERRNO)
        elif kind == Type.DIALLED:
            self.dialled.add(ident)
        elif kind == Type.ACCEPTED_CONNECTION:
            self.accepted.append(ident)

    def take(self, ident: int) -> None:
        self.send(Type.TAKEN, ident, encode_fields([(Tag.TOTAL, len(self.data[ident]))]))

    def send(self, kind: int, ident: int, body: bytes = b"", flags: int = 0) -> None:
        self.link.send_frames([encode_frame(kind, ident, body, flags)])

    def dial(self, ident: int, port: int) -> None:
        self.send(Type.DIAL, ident, encode_fields([(Tag.PORT, port)]))

    def listen(self, port: int) -> None:
        self.send(Type.LISTEN, 0, encode_fields([(Tag.PORT, port)]))


async def closed(writer: asyncio.StreamWriter) -> None:
    writer.close()
    try:
        await writer.wait_closed()
    except OSError:
        pass  # it was reset


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def test_a_port_inside_is_dialled_and_bytes_go_both_ways(guest: Guest) -> None:
    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
        await closed(writer)

    async def body(link: Link) -> None:
        host = Host(link)
        server = await asyncio.start_server(echo, "127.0.0.1", 0)
        data = os.urandom(2_000_000)
        host.dial(5, server.sockets[0].getsockname()[1])
        await until(lambda: 5 in host.dialled)
        for at in range(0, len(data), PAYLOAD_MAX):
            await until(lambda at=at: at - host.taken[5] < WINDOW - PAYLOAD_MAX)  # type: ignore[misc]
            host.send(Type.BYTES, 5, data[at : at + PAYLOAD_MAX])
        host.send(Type.BYTES, 5, b"", Flag.EOF)
        await until(lambda: 5 in host.eof)
        assert bytes(host.data[5]) == data and host.taken[5] == len(data)
        server.close()
        host.dial(5, free_port())  # both ends came: the number is free again
        await until(lambda: 5 in host.hangups)
        assert host.hangups[5] == errno.ECONNREFUSED

    guest.run(body)


def test_who_connects_inside_is_told_to_the_host(guest: Guest) -> None:
    port = free_port()

    async def body(link: Link) -> None:
        host = Host(link)
        host.listen(port)
        await link.ping()
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"question")
        await until(lambda: bool(host.accepted) and host.data[host.accepted[0]] == b"question")
        (ident,) = host.accepted
        assert ident >> 31
        host.send(Type.BYTES, ident, b"answer", Flag.EOF)
        assert await reader.read() == b"answer"
        await closed(writer)
        await until(lambda: ident in host.eof)
        host.listen(0)
        await link.ping()
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection("127.0.0.1", port)

    guest.run(body)


def test_a_connection_nobody_reads_stops_at_its_window_and_only_it(guest: Guest) -> None:
    port = free_port()

    async def body(link: Link) -> None:
        host = Host(link, taking=False)
        host.listen(port)
        await link.ping()
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"x" * 20_000_000)
        await until(lambda: bool(host.accepted) and len(host.data[host.accepted[0]]) == WINDOW)
        slow = host.accepted[0]
        _, other = await asyncio.open_connection("127.0.0.1", port)
        other.write(b"y" * 1000)
        await until(lambda: len(host.accepted) == 2 and len(host.data[host.accepted[1]]) == 1000)
        assert (await shell(link, "echo well")).out == b"well\n"
        assert len(host.data[slow]) == WINDOW
        host.taking = True
        host.take(slow)
        await until(lambda: len(host.data[slow]) == 20_000_000)
        await closed(writer)
        await closed(other)

    guest.run(body)


def test_a_host_that_sends_too_far_ahead_is_cut_off(guest: Guest) -> None:
    ends: list[tuple[asyncio.Event, asyncio.StreamWriter]] = []

    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        over = asyncio.Event()
        ends.append((over, writer))
        await over.wait()
        await closed(writer)

    async def body(link: Link) -> None:
        host = Host(link)
        server = await asyncio.start_server(silent, "127.0.0.1", 0, limit=1000)
        host.dial(7, server.sockets[0].getsockname()[1])
        for _ in range(5000):
            host.send(Type.BYTES, 7, b"x" * PAYLOAD_MAX)
            await asyncio.sleep(0)
        await until(lambda: 7 in host.hangups)
        assert host.hangups[7] == errno.EPROTO
        server.close()
        for over, writer in ends:
            over.set()
            await closed(writer)

    guest.run(body)


@pytest.mark.parametrize("how", ["hangup", "identity", "attach"])
def test_resets_reach_the_program_inside(guest: Guest, how: str) -> None:
    port = free_port()

    async def body(link: Link) -> None:
        host = Host(link)
        host.listen(port)
        await link.ping()
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        await until(lambda: bool(host.accepted))
        if how == "hangup":
            host.send(Type.HANGUP, host.accepted[0])
        elif how == "identity":
            await link.identity(1, machine_id="", hostname="", seed=b"")
        else:
            await link.attach()
        with pytest.raises(ConnectionResetError):
            await reader.read()
        await closed(writer)

    guest.run(body)


def test_a_port_in_use_and_a_bad_number_are_told(guest: Guest) -> None:
    async def body(link: Link) -> None:
        host = Host(link)
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            for port, number in ((taken.getsockname()[1], errno.EADDRINUSE), (70_000, errno.EINVAL)):
                with link.answers.collect_errors(0) as errors:
                    host.listen(port)
                    await link.ping()
                assert [error.errno for error in errors] == [number]
        host.dial(3, 70_000)
        await until(lambda: host.hangups.get(3) == errno.EINVAL)

    guest.run(body)
