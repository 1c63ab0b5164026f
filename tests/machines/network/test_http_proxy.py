"""The plain HTTP proxy: connections stay open across hosts, and nothing is smuggled past a decision."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest

from takeback.machines.network.messages import BadMessage, read_request, read_response
from takeback.machines.network.rules import read_rules
from tests.machines.network.support import Names, http_server, run, sandbox, serving


def get(where: str, *fields: str, method: str = "GET", body: bytes = b"", path: str = "/") -> bytes:
    lines = [f"{method} http://{where}{path} HTTP/1.1", f"Host: {where}", *fields, "", ""]
    return "\r\n".join(lines).encode() + body


def test_a_kept_connection_may_change_hosts_and_each_request_is_decided(tmp_path: Path, init: Path) -> None:
    async def work() -> None:
        async with http_server(b"one") as a, http_server(b"two") as b, sandbox(tmp_path, init) as box:
            reader, writer = await box.client()
            for where, wanted in ((a.port, b"one"), (b.port, b"two"), (a.port, b"one")):
                writer.write(get(f"127.0.0.1:{where}"))
                head = await reader.readuntil(b"\r\n\r\n")
                assert b"Connection: keep-alive" in head
                assert await reader.readexactly(3) == wanted
            writer.write(get("evil.test"))
            head = await reader.readuntil(b"\r\n\r\n")
            assert b" 403 " in head and b"keep-alive" in head
            writer.transport.abort()
            assert (len(a.heads), len(b.heads)) == (2, 1)

    run(work())


def test_pipelined_requests_are_answered_in_order_and_decided_one_by_one(tmp_path: Path, init: Path) -> None:
    async def work() -> None:
        async with http_server(b"one") as a, http_server(b"deux") as b, sandbox(tmp_path, init) as box:
            wanted = get(f"127.0.0.1:{a.port}") + get("evil.test") + get(f"127.0.0.1:{b.port}", "Connection: close")
            answer = await box.ask(wanted)
            assert re.findall(rb"HTTP/1.1 (\d+)", answer) == [b"200", b"403", b"200"]
            assert answer.index(b"one") < answer.index(b"evil.test") < answer.index(b"deux")

    run(work())


def test_the_host_sent_on_is_the_one_that_was_decided_upon(tmp_path: Path, init: Path) -> None:
    async def work() -> None:
        names = Names({"good.test": ["127.0.0.1"], "also.test": ["127.0.0.1"]})
        rules = read_rules(allow=["good.test", "also.test", "127.0.0.1"])
        async with http_server() as server, sandbox(tmp_path, init, rules, names=names) as box:
            line = f"GET http://good.test:{server.port}/x HTTP/1.1"
            answer = await box.ask(f"{line}\r\nHost: also.test\r\nConnection: close\r\n\r\n".encode())
            assert b" 200 " in answer
            assert f"Host: good.test:{server.port}\r\n".encode() in server.heads[0]
            assert b"also.test" not in server.heads[0]
            answer = await box.ask(
                f"GET http://good.test:{server.port}/x HTTP/1.1\r\nHost: evil.test\r\n\r\n".encode(), eof=True
            )
            assert b" 403 " in answer and b"HTTP Host names evil.test" in answer
            assert len(server.heads) == 1

    run(work())


def test_hop_by_hop_fields_are_not_passed_on(tmp_path: Path, init: Path) -> None:
    async def work() -> None:
        async with http_server() as server, sandbox(tmp_path, init) as box:
            fields = ("Proxy-Authorization: x", "Connection: X-Mine, close", "X-Mine: 1", "X-Kept: 2", "Upgrade: h2c")
            await box.ask(get(f"127.0.0.1:{server.port}", *fields))
            head = server.heads[0]
            assert b"X-Kept: 2" in head and b"Connection: close" in head
            assert not any(word in head for word in (b"X-Mine", b"Proxy-", b"Upgrade"))

    run(work())


_H = "Host: 127.0.0.1"
_SMUGGLED = {
    "length and chunks": [_H, "Content-Length: 5", "Transfer-Encoding: chunked"],
    "two lengths": [_H, "Content-Length: 5", "Content-Length: 6"],
    "a list of lengths": [_H, "Content-Length: 5, 5"],
    "a signed length": [_H, "Content-Length: +5"],
    "odd coding": [_H, "Transfer-Encoding: xchunked"],
    "coding twice": [_H, "Transfer-Encoding: chunked", "Transfer-Encoding: identity"],
    "space before the colon": [_H, "Content-Length : 5"],
    "a folded line": [_H, "X: a", " b: c"],
    "two hosts": [_H, "Host: evil.test"],
    "no host": [],
    "a bare line feed": [_H, "X: a\nHost: evil.test"],
    "a bare carriage return": [_H, "X: a\rHost: evil.test"],
    "a NUL": [_H, "X: a\x00b"],
    "no colon": [_H, "nothing"],
}


@pytest.mark.parametrize("fields", _SMUGGLED.values(), ids=_SMUGGLED.keys())
def test_a_head_that_can_be_read_in_two_ways_is_refused(fields: list[str]) -> None:
    with pytest.raises(BadMessage):
        read_request("\r\n".join(["POST http://127.0.0.1/ HTTP/1.1", *fields, "", ""]).encode("latin-1"))


@pytest.mark.parametrize(
    "line",
    [
        "GET /",
        "GET  / HTTP/1.1",
        "GET / HTTP/1.1 ",
        "GET / HTTP/2.0",
        "GET / http/1.1",
        "G T / HTTP/1.1",
        " GET / HTTP/1.1",
        "GET http://a\tb/ HTTP/1.1",
        "GET / HTTP/1.1\x0b",
    ],
)
def test_a_malformed_request_line_is_refused(line: str) -> None:
    with pytest.raises(BadMessage):
        read_request(f"{line}\r\nHost: a\r\n\r\n".encode())


def test_a_response_with_length_and_chunks_is_refused() -> None:
    with pytest.raises(BadMessage):
        read_response(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", "GET")


def test_a_request_hidden_in_a_body_never_becomes_a_request(tmp_path: Path, init: Path) -> None:
    async def work() -> None:
        async with http_server() as server, sandbox(tmp_path, init) as box:
            where = f"127.0.0.1:{server.port}"
            hidden = b"0\r\n\r\n" + get("evil.test", path="/hidden")
            request = get(where, "Transfer-Encoding: chunked", "Content-Length: 4", method="POST", body=hidden)
            answer = await box.ask(request)
            assert b" 400 " in answer and server.heads == []
            answer = await box.ask(get(where, f"Content-Length: {len(hidden)}", method="POST", body=hidden), eof=True)
            assert answer.count(b"HTTP/1.1") == 1 and b" 200 " in answer

    run(work())


@pytest.mark.parametrize(
    "target",
    [
        *("https://127.0.0.1/", "http://user@127.0.0.1/", "http://127.0.0.1@evil.test/", "http:///x", "/relative"),
        *("*", "http://127.0.0.1\\@evil.test/", "http://[::1/", "http://127.0.0.1:99999/", "ftp://127.0.0.1/"),
    ],
)
def test_a_target_that_is_not_a_plain_url_is_refused(target: str, tmp_path: Path, init: Path) -> None:
    async def work() -> None:
        async with sandbox(tmp_path, init) as box:
            answer = await box.ask(f"GET {target} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())
            assert b" 400 " in answer

    run(work())


def test_chunks_are_carried_both_ways_and_written_anew(tmp_path: Path, init: Path) -> None:
    async def work() -> None:
        got = bytearray()

        async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            got.extend(await reader.readuntil(b"0\r\n\r\n"))
            writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
            writer.write(b"3;ext=1\r\nabc\r\n0003\r\ndef\r\n0\r\nX-Trailer: 1\r\n\r\n")
            await writer.drain()

        async with serving(handler) as port, sandbox(tmp_path, init) as box:
            body = b"5;a\r\nhello\r\n0\r\nHost: evil.test\r\n\r\n"
            request = get(
                f"127.0.0.1:{port}", "Transfer-Encoding: chunked", "Connection: close", method="POST", body=body
            )
            answer = await box.ask(request)
            assert bytes(got) == b"5\r\nhello\r\n0\r\n\r\n"
            assert answer.endswith(b"\r\n\r\n3\r\nabc\r\n3\r\ndef\r\n0\r\n\r\n")

    run(work())


def test_a_response_that_breaks_off_does_not_look_whole(tmp_path: Path, init: Path) -> None:
    async def work() -> None:
        async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf")
            await writer.drain()

        async with serving(handler) as port, sandbox(tmp_path, init) as box:
            reader, writer = await box.client()
            writer.write(get(f"127.0.0.1:{port}"))
            with pytest.raises((ConnectionResetError, asyncio.IncompleteReadError)):
                await reader.readuntil(b"\r\n\r\n")
                await reader.readexactly(100)
            writer.transport.abort()

    run(work())


def test_continue_and_an_answer_before_the_body_is_sent(tmp_path: Path, init: Path) -> None:
    async def work() -> None:
        async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            assert await reader.readexactly(4) == b"body"
            writer.write(b"HTTP/1.1 201 Created\r\nContent-Length: 0\r\n\r\n")
            await writer.drain()

        async with serving(handler) as port, sandbox(tmp_path, init) as box:
            reader, writer = await box.client()
            writer.write(get(f"127.0.0.1:{port}", "Expect: 100-continue", "Content-Length: 4", method="PUT"))
            assert b"100 Continue" in await reader.readuntil(b"\r\n\r\n")
            writer.write(b"body")
            assert b"201 Created" in await reader.readuntil(b"\r\n\r\n")
            writer.transport.abort()

    run(work())


def test_a_body_up_to_the_end_of_the_connection_and_one_without(tmp_path: Path, init: Path) -> None:
    async def work() -> None:
        async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            head = await reader.readuntil(b"\r\n\r\n")
            if head.startswith(b"HEAD"):
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\n")
            else:
                writer.write(b"HTTP/1.1 200 OK\r\n\r\nall of it")
            await writer.drain()

        async with serving(handler) as port, sandbox(tmp_path, init) as box:
            reader, writer = await box.client()
            writer.write(get(f"127.0.0.1:{port}", method="HEAD"))
            head = await reader.readuntil(b"\r\n\r\n")
            assert b"Content-Length: 7" in head and b"keep-alive" in head
            writer.write(get(f"127.0.0.1:{port}"))
            assert b"Connection: close" in await reader.readuntil(b"\r\n\r\n")
            assert await reader.read() == b"all of it"
            writer.transport.abort()

    run(work())


def test_nobody_there_is_a_bad_gateway_and_logged(tmp_path: Path, init: Path) -> None:
    async def work() -> None:
        async with sandbox(tmp_path, init) as box:
            answer = await box.ask(get("127.0.0.1:1", "Connection: close"))
            assert b" 502 " in answer
            (entry,) = box.log()
            assert entry.allowed and entry.ended.startswith("unreachable")

    run(work())


@pytest.mark.parametrize("data", [b"\x16\x03\x01\x00\x05hello", b"\x04\x01\x00\x50", b"\x00" * 100, b"x" * 100_000])
def test_what_is_neither_http_nor_socks_is_closed(data: bytes, tmp_path: Path, init: Path) -> None:
    async def work() -> None:
        async with sandbox(tmp_path, init) as box:
            answer = await box.ask(data, eof=True)
            assert not answer or b" 400 " in answer or answer == b"(reset)"

    run(work())
