"""A port of this machine's loopback that leads to a port inside: `forward_port`, and previews.

Nothing inside listens for it: the supervisor connects to 127.0.0.1:PORT for each connection made here.

Does not cover: what may be reached outside (`broker`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, nullcontext

from takeback.errors import PortInUse
from takeback.machines.network.flow import both
from takeback.machines.network.relay import GuestStream

_BUFFER = 64 * 1024


class Forward:
    """A listener on 127.0.0.1; `address` is (host, port) once it is started.

    `dial` connects to a port inside (`broker.relay.dial`); whoever gives it may wake the sandbox first, or find the
    broker of the machine that took its place. `using` is entered for as long as a connection is open.
    """

    def __init__(
        self,
        dial: Callable[[int], Awaitable[GuestStream]],
        inside: int,
        using: Callable[[], AbstractAsyncContextManager[object]] = nullcontext,
    ) -> None:
        self.inside = inside
        self._dial = dial
        self._using = using
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self.address = ("127.0.0.1", 0)

    async def start(self, port: int = 0) -> int:
        """Listen on 127.0.0.1:port, 0 for any free one, and return it. Raises PortInUse."""
        try:
            self._server = await asyncio.start_server(self._accepted, "127.0.0.1", port, limit=_BUFFER)
        except OSError as error:
            raise PortInUse(address=f"127.0.0.1:{port}", why=error.strerror or str(error)) from error
        self.address = self._server.sockets[0].getsockname()[:2]
        return self.address[1]

    async def close(self) -> None:
        """Stop listening and end the connections that were made."""
        if self._server is not None:
            self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        guest: GuestStream | None = None
        try:
            async with self._using():
                guest = await self._dial(self.inside)
                await both(
                    asyncio.create_task(_in(reader, guest)),
                    asyncio.create_task(_out(guest, writer)),
                )
            writer.close()
        except (OSError, TimeoutError, asyncio.CancelledError):
            writer.transport.abort()
        finally:
            if guest is not None:
                guest.abort()
            self._tasks.discard(task)


async def _in(reader: asyncio.StreamReader, guest: GuestStream) -> None:
    while data := await reader.read(_BUFFER):
        await guest.write(data)
    guest.write_eof()


async def _out(guest: GuestStream, writer: asyncio.StreamWriter) -> None:
    while data := await guest.read(_BUFFER):
        writer.write(data)
        await writer.drain()
    if writer.can_write_eof():
        writer.write_eof()
