"""SOCKS5: by name, IPv4 and IPv6; what it could do beyond connecting is refused."""

from __future__ import annotations

import asyncio
import ipaddress
from pathlib import Path

import pytest

from takeback.machines.network.rules import read_rules
from tests.machines.network.support import Names, Sandbox, echo, run, sandbox, serving


def request(host: str, port: int, command: int = 1) -> bytes:
    try:
        address = ipaddress.ip_address(host)
        where = bytes([1 if address.version == 4 else 4]) + address.packed
    except ValueError:
        where = bytes([3, len(host)]) + host.encode()
    return bytes([5, command, 0]) + where + port.to_bytes(2, "big")


async def ask(box: Sandbox, wanted: bytes) -> tuple[int, asyncio.StreamReader, asyncio.StreamWriter]:
    """Return the code of the answer."""
    reader, writer = await box.client()
    writer.write(b"\x05\x01\x00")
    assert await reader.readexactly(2) == b"\x05\x00"
    writer.write(wanted)
    answer = await reader.readexactly(10)
    return answer[1], reader, writer


@pytest.mark.parametrize("host", ["127.0.0.1", "good.test", "GOOD.test.", "localhost", "2130706433"])
def test_what_is_allowed_is_reached(host: str, tmp_path: Path, init: Path) -> None:
    async def work() -> None:
        names = Names({"good.test": ["127.0.0.1"]})
        rules = read_rules(allow=["good.test", "127.0.0.1"])
        async with serving(echo) as port, sandbox(tmp_path, init, rules, names=names) as box:
            code, reader, writer = await ask(box, request(host, port))
            assert code == 0
            writer.write(b"ping")
            assert await reader.readexactly(4) == b"ping"
            writer.transport.abort()

    run(work())


def test_ipv6_is_reached_when_it_is_named(tmp_path: Path, init: Path) -> None:
    async def work() -> None:
        async with serving(echo, "::1") as port, sandbox(tmp_path, init, read_rules(allow=["::1"])) as box:
            code, reader, writer = await ask(box, request("::1", port))
            assert code == 0
            writer.write(b"ping")
            assert await reader.readexactly(4) == b"ping"
            writer.transport.abort()

    run(work())


@pytest.mark.parametrize(
    ("wanted", "code"),
    [
        (request("evil.test", 80), 2),
        (request("10.0.0.1", 80), 2),
        (request("::1", 80), 2),
        (request("::ffff:10.0.0.1", 80), 2),
        (request("127.0.0.1", 25), 2),
        (request("127.0.0.1", 1), 5),
        (request("127.0.0.1", 0), 1),
        (request("unknown.good.test", 80), 4),
        (request("bad name", 80), 1),
        (request("127.0.0.1", 80, command=2), 7),
        (request("127.0.0.1", 80, command=3), 7),
    ],
    ids=["name", "private", "ipv6", "mapped", "mail", "nobody", "port 0", "unknown", "no name", "BIND", "UDP"],
)
def test_the_answer_says_why_not(wanted: bytes, code: int, tmp_path: Path, init: Path) -> None:
    async def work() -> None:
        async with sandbox(tmp_path, init, read_rules(allow=["*.good.test", "127.0.0.1"])) as box:
            got, reader, writer = await ask(box, wanted)
            assert got == code
            assert await reader.read() == b""
            writer.transport.abort()

    run(work())


def test_a_client_that_insists_on_a_password_is_sent_away(tmp_path: Path, init: Path) -> None:
    async def work() -> None:
        async with sandbox(tmp_path, init) as box:
            assert await box.ask(b"\x05\x01\x02") == b"\x05\xff"

    run(work())


def test_bytes_after_a_refusal_are_not_taken_for_a_request(tmp_path: Path, init: Path) -> None:
    async def work() -> None:
        async with serving(echo) as port, sandbox(tmp_path, init) as box:
            after = f"CONNECT 127.0.0.1:{port} HTTP/1.1\r\nHost: x\r\n\r\n".encode()
            answer = await box.ask(b"\x05\x01\x00" + request("evil.test", 80) + after, eof=True)
            assert len(answer) == 12 and b"HTTP" not in answer

    run(work())
