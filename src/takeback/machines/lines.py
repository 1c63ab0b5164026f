"""One end of a connection in an event loop: frames in, frames out, both held back when the other side is slow.

Used by the keeper and by the asyncio face. Does not cover: what is said (`wire`).
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

from takeback.errors import TakebackError
from takeback.machines import wire

_HELD = 1 << 20  # bytes that may wait to be received before the other end is held back
_WRITTEN = 1 << 20  # bytes that may wait to be sent


class Line(asyncio.Protocol):
    """A connection; `lost` is called once when the other end has gone."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._parser = wire.Parser()
        self._frames: deque[wire.Frame] = deque()
        self._held = 0
        self._reading = True
        self._unlimited = False
        self._receiver: asyncio.Future[None] | None = None
        self._writer: asyncio.Future[None] | None = None
        self._blocked = False
        self.ended = False
        self.broken = ""
        self.on_lost: Callable[[], object] | None = None

    # -- asyncio ---------------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        transport.set_write_buffer_limits(high=_WRITTEN)

    def data_received(self, data: bytes) -> None:
        try:
            frames = self._parser.feed(data)
        except TakebackError as error:
            self.broken = str(error)
            self.close()
            return
        for frame in frames:
            self._held += len(frame[1])
            self._frames.append(frame)
        if self._held > _HELD and not self._unlimited:
            self._read(False)
        if frames:
            _wake(self._receiver)

    def eof_received(self) -> bool:
        # Neither side ever closes one direction only: the end of input has a frame of its own.
        return False

    def connection_lost(self, error: Exception | None) -> None:
        self.ended = True
        _wake(self._receiver)
        _wake(self._writer)
        if self.on_lost is not None:
            self.on_lost()

    def pause_writing(self) -> None:
        self._blocked = True

    def resume_writing(self) -> None:
        self._blocked = False
        _wake(self._writer)

    # -- for the owner ---------------------------------------------------------------------------------------------

    @property
    def transport(self) -> asyncio.Transport:
        assert self._transport is not None
        return self._transport

    @property
    def blocked(self) -> bool:
        """Whether more than a megabyte waits to be sent."""
        return self._blocked

    def write(self, frame: bytes) -> None:
        """Send without waiting; after the end it goes nowhere."""
        if not self.ended and self._transport is not None and not self._transport.is_closing():
            self._transport.write(frame)

    async def send(self, frame: bytes, *, keep_reading: bool = False) -> None:
        """Send, waiting while much is unsent; with `keep_reading` any amount may arrive meanwhile."""
        self.write(frame)
        if not self._blocked or self.ended:
            return
        if keep_reading:
            self._unlimited = True
            self._read(True)
        try:
            while self._blocked and not self.ended:
                self._writer = asyncio.get_running_loop().create_future()
                await self._writer
        finally:
            self._unlimited = False

    async def receive(self) -> wire.Frame | None:
        """Return the next frame, or None after the last one."""
        while not self._frames:
            if self.ended:
                return None
            self._receiver = asyncio.get_running_loop().create_future()
            await self._receiver
        frame = self._frames.popleft()
        self._held -= len(frame[1])
        if not self._reading and self._held <= _HELD // 2:
            self._read(True)
        return frame

    def close(self) -> None:
        """Close after what was written has gone out."""
        if self._transport is not None:
            self._transport.close()

    def _read(self, reading: bool) -> None:
        if reading != self._reading and not self.ended and self._transport is not None:
            self._reading = reading
            if reading:
                self._transport.resume_reading()
            else:
                self._transport.pause_reading()


def _wake(future: asyncio.Future[None] | None) -> None:
    if future is not None and not future.done():
        future.set_result(None)
