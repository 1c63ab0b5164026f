"""Byte streams between host and guest over the channel: frames 32-36 and 96-100 of docs/formats/channel.md.

Each stream has a window of 256 KiB each way, so one that nobody reads holds up no other, and takes no more memory.

Does not cover: what is in the bytes (`http`, `socks`), how frames travel (`channel`).
"""

from __future__ import annotations

import asyncio
import errno
import os
import struct
from collections import deque
from collections.abc import Callable
from typing import Protocol

WINDOW = 256 * 1024
_TELL = WINDOW // 4
_PAYLOAD = 4088
_EOF = 2
_BY_GUEST = 1 << 31
_CONNECTIONS_MAX = 1024
_PORT, _TOTAL, _ERRNO = 44, 19, 28

LISTEN, DIAL, BYTES, TAKEN, HANGUP = range(32, 37)
ACCEPTED, FROM_GUEST, TAKEN_BY_GUEST, HUNG_UP, DIALLED = range(96, 101)


class Channel(Protocol):
    """The host's end of the channel, as far as relaying needs it."""

    async def send(self, kind: int, ident: int, payload: bytes = b"", flags: int = 0) -> None:
        """Send one frame in order, waiting while the guest takes no more. Raises ConnectionError when it is gone."""


def _field(tag: int, value: int) -> bytes:
    return struct.pack("<BIQ", tag, 8, value)


def _read_field(tag: int, body: bytes) -> int:
    at = 0
    while at + 5 <= len(body):
        found, length = struct.unpack_from("<BI", body, at)
        at += 5
        if found == tag and length == 8 and at + 8 <= len(body):
            return int(struct.unpack_from("<Q", body, at)[0])
        at += length
    return 0


class GuestStream:
    """One connection with a program inside. One reader and one writer at a time."""

    def __init__(self, relay: Relay, ident: int) -> None:
        self.id = ident
        self._relay = relay
        self._chunks: deque[bytes] = deque()
        self._held = 0  # bytes in _chunks
        self._read = self._told = 0
        self._sent = self._taken = 0
        self._eof = self._eof_sent = False
        self._error: Exception | None = None
        self._readable = asyncio.Event()
        self._writable = asyncio.Event()
        self.opened = asyncio.Event()

    @property
    def over(self) -> bool:
        """Whether nothing more can come or go."""
        return self._error is not None or (self._eof and self._eof_sent)

    async def read(self, limit: int = 65536) -> bytes:
        """Return what has come, at most `limit` bytes; empty at the end. Raises ConnectionError when it was reset."""
        while not self._chunks:
            if self._error is not None:
                raise self._error
            if self._eof:
                return b""
            self._readable.clear()
            await self._readable.wait()
        data = self._chunks.popleft()
        if len(data) > limit:
            self._chunks.appendleft(data[limit:])
            data = data[:limit]
        self._held -= len(data)
        self._read += len(data)
        if self._read - self._told >= _TELL and not self._eof and self._error is None:
            self._told = self._read
            await self._relay.send(TAKEN, self.id, _field(_TOTAL, self._read))
        return data

    async def write(self, data: bytes) -> None:
        """Send bytes, waiting while 256 KiB are on the way. Raises ConnectionError when it was reset."""
        view = memoryview(data)
        while view:
            if self._error is not None:
                raise self._error
            room = WINDOW - (self._sent - self._taken)
            if room <= 0:
                self._writable.clear()
                await self._writable.wait()
                continue
            part = bytes(view[: min(room, _PAYLOAD)])
            self._sent += len(part)
            await self._relay.send(BYTES, self.id, part)
            view = view[len(part) :]

    async def write_eof(self) -> None:
        """Say that nothing more will be written; what comes from inside can still be read."""
        if self._error is None and not self._eof_sent:
            self._eof_sent = True
            await self._relay.send(BYTES, self.id, b"", _EOF)
            self._relay.settle(self)

    def abort(self, why: str = "cut") -> None:
        """Reset it now, from our side."""
        if not self.over:
            self._relay.hang_up(self.id)
        self.fail(ConnectionAbortedError(errno.ECONNABORTED, why))

    # What the relay tells.

    def took(self, data: bytes, eof: bool) -> None:
        if self._error is not None or self._eof:
            return
        if self._held + len(data) > WINDOW:
            self.abort("the guest sent more than its window")
            return
        if data:
            self._chunks.append(data)
            self._held += len(data)
        self._eof = eof
        self._readable.set()
        self._relay.settle(self)

    def credited(self, total: int) -> None:
        if self._taken < total <= self._sent:
            self._taken = total
            self._writable.set()

    def fail(self, error: Exception) -> None:
        if self._error is None:
            self._error = error
            self._chunks.clear()
            self._held = 0
        for event in (self._readable, self._writable, self.opened):
            event.set()
        self._relay.settle(self)

    def check(self) -> None:
        if self._error is not None:
            raise self._error


class Relay:
    """All streams of one sandbox. `accepted` is called with each connection that a program inside makes."""

    def __init__(self, channel: Channel, accepted: Callable[[GuestStream], None]) -> None:
        self._channel = channel
        self._accepted = accepted
        self._streams: dict[int, GuestStream] = {}
        self._next = 0
        self._go = asyncio.Event()
        self._go.set()
        self._hangups: set[asyncio.Task[None]] = set()
        self._sending = 0
        self._idle = asyncio.Event()
        self._idle.set()

    def __len__(self) -> int:
        return len(self._streams)

    async def listen(self, port: int) -> None:
        """Ask the guest to accept on 127.0.0.1:port; 0 ends that."""
        await self.send(LISTEN, 0, _field(_PORT, port))

    async def dial(self, port: int, timeout: float = 10.0) -> GuestStream:
        """Connect to a port inside. Raises ConnectionError, TimeoutError."""
        if len(self._streams) >= _CONNECTIONS_MAX:
            raise ConnectionRefusedError(errno.ECONNREFUSED, f"{_CONNECTIONS_MAX} connections are open")
        while True:
            self._next = self._next % (_BY_GUEST - 1) + 1
            if self._next not in self._streams:
                break
        stream = self._streams[self._next] = GuestStream(self, self._next)
        try:
            await self.send(DIAL, stream.id, _field(_PORT, port))
            async with asyncio.timeout(timeout):
                await stream.opened.wait()
            stream.check()
        except BaseException:
            stream.abort("not connected")
            raise
        return stream

    def receive(self, kind: int, flags: int, ident: int, payload: bytes) -> None:
        """Take a frame of the guest's, types 96 to 100; called in the order they came."""
        if kind == ACCEPTED:
            if ident in self._streams or not ident & _BY_GUEST or len(self._streams) >= _CONNECTIONS_MAX:
                self.hang_up(ident)
                return
            stream = self._streams[ident] = GuestStream(self, ident)
            stream.opened.set()
            self._accepted(stream)
            return
        known = self._streams.get(ident)
        if known is None:
            if kind == FROM_GUEST:
                self.hang_up(ident)  # of a keeper before this one; it would wait for ever
        elif kind == FROM_GUEST:
            known.took(payload, bool(flags & _EOF))
        elif kind == TAKEN_BY_GUEST:
            known.credited(_read_field(_TOTAL, payload))
        elif kind == DIALLED:
            known.opened.set()
        elif kind == HUNG_UP:
            number = _read_field(_ERRNO, payload) or errno.ECONNRESET
            kinds = {errno.ECONNREFUSED: ConnectionRefusedError}
            known.fail(kinds.get(number, ConnectionResetError)(number, os.strerror(number)))

    async def send(self, kind: int, ident: int, payload: bytes, flags: int = 0) -> None:
        while not self._go.is_set():
            await self._go.wait()
        self._sending += 1
        self._idle.clear()
        try:
            await self._channel.send(kind, ident, payload, flags)
        finally:
            self._sending -= 1
            if not self._sending:
                self._idle.set()

    def hang_up(self, ident: int) -> None:
        async def later() -> None:
            try:
                await self.send(HANGUP, ident, b"")
            except ConnectionError:
                pass  # then it is gone anyway

        task = asyncio.get_running_loop().create_task(later())
        self._hangups.add(task)
        task.add_done_callback(self._hangups.discard)

    def settle(self, stream: GuestStream) -> None:
        if stream.over and self._streams.get(stream.id) is stream:
            del self._streams[stream.id]

    async def pause(self) -> None:
        """Send nothing more until `resume`; returns when nothing is half sent, so that QUIESCE may follow."""
        self._go.clear()
        await self._idle.wait()

    def resume(self) -> None:
        self._go.set()

    def reset(self, why: str) -> None:
        """Forget all streams without telling the guest, which has reset them itself or is gone."""
        for stream in list(self._streams.values()):
            stream.fail(ConnectionResetError(errno.ECONNRESET, why))
        self._streams.clear()
