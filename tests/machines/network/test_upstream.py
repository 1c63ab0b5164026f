"""Where the host itself comes out only through a proxy, so does a sandbox, and the rules still decide."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from takeback.machines.network.addresses import read_host
from takeback.machines.network.outside import Proxy, Upstream, read_upstream
from takeback.machines.network.rules import read_rules
from tests.machines.network.support import Names, echo, run, sandbox, serving


@asynccontextmanager
async def proxy(answer: bytes = b"HTTP/1.1 200 OK\r\n\r\n") -> AsyncIterator[tuple[Proxy, list[bytes]]]:
    """A proxy that leads nowhere: it echoes what comes through a tunnel, and says "plain" to the rest."""
    heads: list[bytes] = []

    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        heads.append(head)
        if head.startswith(b"CONNECT"):
            writer.write(answer)
            await echo(reader, writer)
        else:
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nplain")
            await writer.drain()

    async with serving(handler) as port:
        yield Proxy("127.0.0.1", port, "Basic dTpw"), heads


def test_tunnels_and_plain_requests_go_through_it_by_name(tmp_path: Path, init: Path) -> None:
    async def work() -> None:
        async with proxy() as (other, heads):
            upstream = Upstream(other, other)
            async with sandbox(tmp_path, init, read_rules(), upstream=upstream) as box:
                _, reader, writer = await box.connect("only-the-proxy-knows.test:443")
                writer.write(b"ping")
                assert await reader.readexactly(4) == b"ping"
                writer.transport.abort()
                answer = await box.ask(
                    b"GET http://name.test/x HTTP/1.1\r\nHost: name.test\r\nConnection: close\r\n\r\n"
                )
                assert answer.endswith(b"plain")
                assert heads[0].startswith(b"CONNECT only-the-proxy-knows.test:443 HTTP/1.1\r\n")
                assert heads[1].startswith(b"GET http://name.test/x HTTP/1.1\r\nHost: name.test\r\n")
                assert all(b"Proxy-Authorization: Basic dTpw\r\n" in head for head in heads)

    run(work())


def test_the_rules_decide_before_the_proxy_hears_of_it(tmp_path: Path, init: Path) -> None:
    async def work() -> None:
        names = Names({"inside.test": ["10.0.0.1"]})
        async with proxy() as (other, heads):
            upstream = Upstream(other, other)
            async with sandbox(tmp_path, init, read_rules(deny=["evil.test"]), upstream=upstream, names=names) as box:
                for target in ("evil.test:443", "10.0.0.1:443", "inside.test:443", "name.test:25"):
                    head, _, writer = await box.connect(target)
                    writer.transport.abort()
                    assert " 403 " in head, target
                assert heads == []
                _, reader, writer = await box.connect("name.test:443")
                assert box.broker.set_rules(read_rules(deny=["name.test"])) == 1
                with pytest.raises(ConnectionResetError):
                    await reader.read()
                writer.transport.abort()

    run(work())


@pytest.mark.parametrize("answer", [b"HTTP/1.1 407 Login\r\n\r\n", b"nonsense\r\n\r\n"])
def test_what_the_proxy_refuses_is_told(answer: bytes, tmp_path: Path, init: Path) -> None:
    async def work() -> None:
        async with (
            proxy(answer) as (other, _),
            sandbox(tmp_path, init, read_rules(), upstream=Upstream(other, other)) as box,
        ):
            head, reader, writer = await box.connect("name.test:443")
            assert " 502 " in head and b"proxy said" in await reader.read()
            writer.transport.abort()

    run(work())


def test_no_proxy_goes_directly(tmp_path: Path, init: Path) -> None:
    async def work() -> None:
        names = Names({"direct.test": ["127.0.0.1"]})
        rules = read_rules(allow=["direct.test", "127.0.0.1"])
        async with proxy() as (other, heads), serving(echo) as port:
            upstream = Upstream(other, other, bypass=("direct.test",))
            async with sandbox(tmp_path, init, rules, upstream=upstream, names=names) as box:
                _, reader, writer = await box.connect(f"direct.test:{port}")
                writer.write(b"ping")
                assert await reader.readexactly(4) == b"ping" and heads == []
                writer.transport.abort()

    run(work())


@pytest.mark.parametrize(
    ("environ", "upstream"),
    [
        ({}, Upstream()),
        ({"HTTPS_PROXY": "http://p.test:3128"}, Upstream(None, Proxy("p.test", 3128))),
        ({"http_proxy": "p.test"}, Upstream(Proxy("p.test", 80))),
        ({"ALL_PROXY": "http://u:p%40@p.test:1"}, Upstream(*[Proxy("p.test", 1, "Basic dTpwQA==")] * 2)),
        ({"HTTP_PROXY": "socks5://p.test:1", "HTTPS_PROXY": "http://p.test:x"}, Upstream()),
        ({"NO_PROXY": " A.test, .b.test,,10.0.0.0/8"}, Upstream(bypass=("a.test", ".b.test", "10.0.0.0/8"))),
    ],
)
def test_the_environment_is_read_as_curl_reads_it(environ: dict[str, str], upstream: Upstream) -> None:
    assert read_upstream(environ) == upstream


@pytest.mark.parametrize(
    ("entry", "host", "bypassed"),
    [
        ("a.test", "a.test", True),
        ("a.test", "x.a.test", True),
        (".a.test", "x.a.test", True),
        ("*.a.test", "x.a.test", True),
        ("a.test", "xa.test", False),
        ("10.0.0.0/8", "10.1.1.1", True),
        ("10.0.0.0/8", "11.1.1.1", False),
        ("*", "anything.test", True),
        ("other.test", "localhost", True),
    ],
)
def test_entries_of_no_proxy(entry: str, host: str, bypassed: bool) -> None:
    upstream = Upstream(Proxy("p.test", 1), bypass=(entry,))
    assert (upstream.proxy_for(read_host(host), plain=True) is None) is bypassed
