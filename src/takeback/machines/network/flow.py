"""One connection to the outside that was allowed, and the errors of those that were not.

Does not cover: deciding and dialling (`broker`).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from takeback.machines.network.addresses import Address, Host
from takeback.machines.network.outside import Pipe, Proxy
from takeback.machines.network.rules import Decision

_LINGER_S = 30.0


class RefusedByRule(Exception):
    """The rules refuse a destination."""

    def __init__(self, decision: Decision, where: str) -> None:
        super().__init__(decision.why)
        self.decision = decision
        self.where = where


class Unreachable(Exception):
    """The rules allow it but nobody answers there; `refused` when it said so itself."""

    def __init__(self, why: str, *, refused: bool = False) -> None:
        super().__init__(why)
        self.refused = refused


@dataclass
class Traffic:
    """Bytes that a sandbox sent outside and received from there, since they were taken last."""

    sent: int = 0
    received: int = 0

    def take(self) -> tuple[int, int]:
        """Return (sent, received), and begin at 0 again."""
        taken = (self.sent, self.received)
        self.sent = self.received = 0
        return taken


class Flow:
    """Bytes to and from one destination, counted. `cut` ends it at once, whoever is reading or writing."""

    def __init__(
        self, id: int, host: Host, port: int, address: Address | None, pipe: Pipe, traffic: Traffic | None = None
    ) -> None:
        self.id = id
        self.host = host
        self.port = port
        self.address = address
        self.proxy: Proxy | None = None  # plain HTTP goes to it in absolute form
        self.named: set[tuple[Host, int]] = set()  # other hosts named inside, which the rules must allow too
        self.up = self.down = 0
        self.began = self.last = time.monotonic()
        self.half = False
        self.ended = ""
        self.on_cut: Callable[[str], None] = lambda why: None
        self._reader, self._writer = pipe
        self._traffic = traffic or Traffic()

    async def read(self, limit: int = 65536) -> bytes:
        """Return what came from outside; empty at the end. Raises ConnectionError."""
        data = await self._reader.read(limit)
        self._alive()
        self.down += len(data)
        self._traffic.received += len(data)
        self.last = time.monotonic()
        self.half = self.half or not data
        return data

    async def write(self, data: bytes) -> None:
        """Send to the outside, waiting while it takes no more. Raises ConnectionError."""
        self._alive()
        self._writer.write(data)
        self.up += len(data)
        self._traffic.sent += len(data)
        await self._writer.drain()
        self.last = time.monotonic()

    def write_eof(self) -> None:
        self.half = True
        if not self.ended:
            try:
                self._writer.write_eof()
            except OSError:
                pass

    def cut(self, why: str) -> None:
        """End it now with a reset on both sides, and say why in the log."""
        if not self.ended:
            self.ended = why
            self._writer.transport.abort()
            self.on_cut(why)

    def close(self, why: str = "closed") -> None:
        if not self.ended:
            self.ended = why
            transport = self._writer.transport
            if why != "closed":
                transport.abort()
            else:
                self._writer.close()  # what is still to be written goes out, unless nobody reads it
                asyncio.get_running_loop().call_later(_LINGER_S, transport.abort)

    def _alive(self) -> None:
        if self.ended:
            raise ConnectionAbortedError(self.ended)


class Session(Protocol):
    """What the protocols ask of the broker, for one connection of a program inside."""

    async def open(self, host: Host, port: int, method: str, *, plain: bool = False) -> Flow:
        """Decide, look up, dial. Raises RefusedByRule, Unreachable."""

    def check_named(self, flow: Flow | None, host: Host, port: int, how: str) -> None:
        """Check another host that is named inside a connection. Raises RefusedByRule."""

    def done(self, flow: Flow, why: str = "closed") -> None:
        """Close a connection and log its end."""


async def both(first: asyncio.Task[None], second: asyncio.Task[None]) -> None:
    """Wait for two directions; when one fails the other is ended. Raises what the first to fail raised."""
    try:
        done, _ = await asyncio.wait((first, second), return_when=asyncio.FIRST_EXCEPTION)
        for task in done:
            task.result()
    finally:
        for task in (first, second):
            task.cancel()
        await asyncio.gather(first, second, return_exceptions=True)
