"""Inside a tunnel, another name than the one that was allowed is noticed."""

from __future__ import annotations

import asyncio
import ssl
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from takeback.machines.network.rules import read_rules
from takeback.machines.network.sniff import Named, examine
from tests.machines.network.support import Names, echo, http_server, run, sandbox, serving


def hello(name: str | None) -> bytes:
    """A real ClientHello."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    into, out = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = context.wrap_bio(into, out, server_hostname=name)
    with pytest.raises(ssl.SSLWantReadError):
        client.do_handshake()
    return out.read()


def test_the_server_name_of_a_hello_is_read() -> None:
    assert examine(hello("www.example.com")) == Named("tls", "www.example.com")
    assert examine(hello(None)) == Named("tls", "")


def test_a_hello_in_parts_is_waited_for_and_in_many_records_is_put_together() -> None:
    whole = hello("www.example.com")
    assert all(examine(whole[:cut]) is None for cut in range(1, len(whole)))
    content = whole[5:]
    parts = [content[at : at + 50] for at in range(0, len(content), 50)]
    records = b"".join(b"\x16\x03\x01" + len(part).to_bytes(2, "big") + part for part in parts)
    assert examine(records) == Named("tls", "www.example.com")


@given(st.binary(max_size=300), st.integers(0, 299))
def test_any_bytes_are_examined_without_an_error(noise: bytes, at: int) -> None:
    examine(noise)
    whole = bytearray(b"\x16\x03\x01\x00\x50\x01\x00\x00\x4c\x03\x03" + bytes(200))
    whole[at % len(whole) :] = noise
    examine(bytes(whole))


@pytest.mark.parametrize(
    ("data", "named"),
    [
        (b"GET / HTTP/1.1\r\nHost: a.test\r\n\r\n", Named("http", "a.test")),
        (b"GET / HTTP/1.1\nhost:a.test\n\n", Named("http", "a.test")),
        (b"FOO / HTTP/1.1\r\nHost: a.test\r\n\r\n", Named("http", "a.test")),
        (b"GET / HTTP/1.0\r\n\r\n", Named("http")),
        (b"GET / HTTP/1.1\r\nHost: a.test", None),
        (b"GET / HT", None),
        (b"G", None),
        (b"GET key\r\n", Named("other")),
        (b"SSH-2.0-x\r\n", Named("other")),
        (b"\x00\x00\x00\x08\x04\xd2\x16\x2f", Named("other")),
    ],
)
def test_plain_http_is_read(data: bytes, named: Named | None) -> None:
    assert examine(data) == named


@pytest.mark.parametrize(
    "data",
    [
        b"GET / HTTP/1.1\r\nHost: a.test\r\nHost: b.test\r\n\r\n",
        b"GET http://b.test/ HTTP/1.1\r\nHost: a.test\r\n\r\n",
        b"GET / HTTP/1.1\r\nX: y\r\n Host: b.test\r\nHost: a.test\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    ],
)
def test_http_that_names_two_hosts_is_a_problem(data: bytes) -> None:
    named = examine(data)
    assert named is not None and named.problem


RULES = read_rules(allow=["good.test", "also.test", "127.0.0.1"])
NAMES = Names({"good.test": ["127.0.0.1"]})


@pytest.mark.parametrize(
    ("name", "passes"), [("good.test", True), ("also.test", True), (None, True), ("evil.test", False)]
)
def test_the_name_in_tls_must_be_one_the_rules_allow(
    name: str | None, passes: bool, tmp_path: Path, init: Path
) -> None:
    async def work() -> None:
        async with serving(echo) as port, sandbox(tmp_path, init, RULES, names=NAMES) as box:
            _, reader, writer = await box.connect(f"good.test:{port}")
            sent = hello(name)
            for byte in sent[:20]:  # in the smallest pieces
                writer.write(bytes([byte]))
                await writer.drain()
            writer.write(sent[20:])
            if passes:
                assert await reader.readexactly(len(sent)) == sent
            else:
                with pytest.raises(ConnectionResetError):
                    await reader.read()
                assert "TLS server name names evil.test" in box.log(allowed=False)[0].why
            writer.transport.abort()

    run(work())


def test_the_host_of_plain_http_in_a_tunnel_must_be_one_the_rules_allow(tmp_path: Path, init: Path) -> None:
    async def work() -> None:
        async with http_server() as server, sandbox(tmp_path, init, RULES, names=NAMES) as box:
            _, reader, writer = await box.connect(f"good.test:{server.port}")
            writer.write(b"GET / HTTP/1.1\r\nHost: evil.test\r\n\r\n")
            answer = await reader.read()
            assert b" 403 " in answer and b"HTTP Host names evil.test" in answer
            assert server.heads == []
            writer.transport.abort()

    run(work())


def test_new_rules_cut_a_tunnel_in_which_a_host_is_named_that_they_refuse(tmp_path: Path, init: Path) -> None:
    async def work() -> None:
        async with http_server() as server, sandbox(tmp_path, init, RULES, names=NAMES) as box:
            _, reader, writer = await box.connect(f"good.test:{server.port}")
            writer.write(b"GET / HTTP/1.1\r\nHost: also.test\r\n\r\n")
            assert b" 200 " in await reader.readuntil(b"hello")
            assert box.broker.set_rules(read_rules(allow=["good.test", "127.0.0.1"])) == 1
            with pytest.raises(ConnectionResetError):
                await reader.read()
            writer.transport.abort()

    run(work())


def test_a_server_that_speaks_first_is_heard(tmp_path: Path, init: Path) -> None:
    async def work() -> None:
        async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(b"220 ready\r\n")
            assert await reader.readline() == b"QUIT\r\n"
            writer.write(b"221 bye\r\n")
            await writer.drain()

        async with serving(handler) as port, sandbox(tmp_path, init) as box:
            _, reader, writer = await box.connect(f"127.0.0.1:{port}")
            assert await reader.readline() == b"220 ready\r\n"
            writer.write(b"QUIT\r\n")
            assert await reader.readline() == b"221 bye\r\n"
            writer.transport.abort()

    run(work())


def test_each_side_may_end_before_the_other(tmp_path: Path, init: Path) -> None:
    async def work() -> None:
        async def count(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(str(len(await reader.read())).encode())
            await writer.drain()

        async with serving(count) as port, sandbox(tmp_path, init) as box:
            _, reader, writer = await box.connect(f"127.0.0.1:{port}")
            writer.write(b"x" * 300_000)
            writer.write_eof()
            assert await reader.read() == b"300000"
            writer.transport.abort()
            await asyncio.sleep(0.1)
            assert box.broker.open_connections == 0 and len(box.broker.relay) == 0

    run(work())
