"""A supervisor as a plain process with a broker at its channel, and servers and clients to try them with."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from takeback.machines.channel.link import Link
from takeback.machines.network.addresses import Address, read_host
from takeback.machines.network.broker import Broker
from takeback.machines.network.environment import proxy_environment
from takeback.machines.network.log import DecisionLog, Entry
from takeback.machines.network.rules import Rules, read_rules

T = TypeVar("T")
Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
LOOPBACK = read_rules(allow=["127.0.0.1"])


def run(work: Awaitable[T], limit: float = 60.0) -> T:
    """Run a test's coroutine under a time limit."""

    async def limited() -> T:
        async with asyncio.timeout(limit):
            return await work

    return asyncio.run(limited())


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


class Names:
    """A resolver that answers from a table, and remembers what it was asked; a list is one answer after the other."""

    def __init__(self, table: Mapping[str, Sequence[str] | Sequence[Sequence[str]]] | None = None) -> None:
        self.table = dict(table or {})
        self.asked: list[str] = []

    async def __call__(self, name: str) -> list[Address]:
        self.asked.append(name)
        answer: Any = self.table.get(name)
        if answer is None:
            raise OSError("no such name")
        if answer and not isinstance(answer[0], str):
            answer = answer[min(self.asked.count(name), len(answer)) - 1]
        return [one for text in answer if not isinstance(one := read_host(text), str)]


@dataclass
class Sandbox:
    """One machine: `port` is where programs inside find the proxy."""

    broker: Broker
    link: Link
    port: int
    pid: int
    names: Names

    def log(self, *, allowed: bool | None = None) -> list[Entry]:
        return [entry for entry in self.broker.log.entries() if allowed is None or entry.allowed == allowed]

    def environment(self, **more: str) -> dict[str, str]:
        """What a program inside has in its environment; here it runs on the same loopback as the servers."""
        proxies = proxy_environment(self.port)
        proxies["NO_PROXY"] = proxies["no_proxy"] = ""
        return {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "LC_ALL": "C.UTF-8", **proxies, **more}

    async def client(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection("127.0.0.1", self.port)

    async def ask(self, request: bytes, *, eof: bool = False) -> bytes:
        """Send bytes to the proxy and return all that comes until it closes."""
        reader, writer = await self.client()
        try:
            writer.write(request)
            await writer.drain()
            if eof:
                writer.write_eof()
            answer = await reader.read()
        except ConnectionError:
            answer = b"(reset)"
        writer.transport.abort()
        return answer

    async def connect(self, target: str) -> tuple[str, asyncio.StreamReader, asyncio.StreamWriter]:
        """Ask for a tunnel; return the whole head of the answer."""
        reader, writer = await self.client()
        writer.write(f"CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n".encode())
        try:
            head = await reader.readuntil(b"\r\n\r\n")
        except BaseException:
            writer.transport.abort()
            raise
        return head.decode(), reader, writer


@asynccontextmanager
async def sandbox(
    folder: Path, init: Path, rules: Rules = LOOPBACK, *, names: Names | None = None, **options: Any
) -> AsyncIterator[Sandbox]:
    """Run a supervisor and its broker."""
    to_guest, from_guest = folder / "in", folder / "out"
    for path in (to_guest, from_guest):
        if not path.exists():
            os.mkfifo(path)
    ends = [os.open(path, os.O_RDWR) for path in (to_guest, from_guest)]
    popen = subprocess.Popen([str(init)], stdin=ends[0], stdout=ends[1], env={})
    for fd in ends:
        os.close(fd)
    link = Link(to_guest, from_guest)
    names = names or Names()
    broker = Broker(link, DecisionLog(folder / "network.jsonl"), rules, resolver=names, **options)
    try:
        link.on_connection(broker.receive)
        await link.attach()
        port = free_port()
        broker.start(port)
        await link.ping()
        yield Sandbox(broker, link, port, popen.pid, names)
    finally:
        await broker.close()
        link.close()
        popen.terminate()
        popen.wait(10)


@dataclass
class Server:
    """A server on loopback; `heads` are the requests it saw."""

    port: int
    heads: list[bytes] = field(default_factory=list)
    connections: int = 0


@asynccontextmanager
async def serving(handler: Handler, host: str = "127.0.0.1") -> AsyncIterator[int]:
    """Serve each connection with `handler`, closing it after; the port."""

    async def one(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await handler(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(one, host, 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()


@asynccontextmanager
async def http_server(body: bytes = b"hello", extra: str = "") -> AsyncIterator[Server]:
    """A server that answers every request with `body`."""
    seen = Server(0)

    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen.connections += 1
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            seen.heads.append(head)
            writer.write(f"HTTP/1.1 200 OK\r\nContent-Length: {len(body)}\r\n{extra}\r\n".encode() + body)
            await writer.drain()

    async with serving(handler) as port:
        seen.port = port
        yield seen


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(65536):
        writer.write(data)
        await writer.drain()


async def program(argv: Sequence[str], env: Mapping[str, str], cwd: Path | None = None) -> tuple[int, str]:
    """Run a real client; its exit code and all it wrote."""
    process = await asyncio.create_subprocess_exec(
        *argv, env=dict(env), cwd=cwd, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    out, _ = await process.communicate()
    return process.returncode or 0, out.decode(errors="replace")
