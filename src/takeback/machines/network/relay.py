"""Byte streams between host and guest over the channel: frames 32-36 and 96-100 of docs/formats/channel.md.

Each stream has a window of 256 KiB each way, so one that nobody reads holds up no other, and takes no more memory.

Does not cover: what is in the bytes (`http`, `socks`), how frames travel (`channel`).
"""

from __future__ import annotations

import asyncio
import errno
import os
from collections import deque
from collections.abc import Callable, Sequence
from typing import Protocol

from takeback.errors import TakebackError
from takeback.machines.channel.frames import (
    PAYLOAD_MAX,
    Fields,
    Flag,
    Frame,
    Malformed,
    Tag,
    Type,
    encode_fields,
    encode_frame,
)

WINDOW = 256 * 1024
CONNECTIONS_MAX = 1024
_TELL = WINDOW // 4
_BY_GUEST = 1 << 31


class Channel(Protocol):
    """The host's end of the channel, as far as relaying needs it (`channel.link.Link`)."""

    def send_frames(self, frames: Sequence[bytes]) -> None:
        """Send frames in order. Raises MachineSilent when the machine is gone."""

    async def room(self) -> None:
        """Wait until little is waiting to be sent."""


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
            self._relay.tell(Type.TAKEN, self.id, (Tag.TOTAL, self._read))
        return data

    async def write(self, data: bytes) -> None:
        """Send bytes, waiting while 256 KiB are on the way. Raises ConnectionError when it was reset."""
        view = memoryview(data)
        while view:
            await self._relay.room()
            if self._error is not None:
                raise self._error
            room = WINDOW - (self._sent - self._taken)
            if room <= 0:
                self._writable.clear()
                await self._writable.wait()
                continue
            part = bytes(view[: min(room, PAYLOAD_MAX)])
            self._sent += len(part)
            self._relay.send(encode_frame(Type.BYTES, self.id, part))
            view = view[len(part) :]

    def write_eof(self) -> None:
        """Say that nothing more will be written; what comes from inside can still be read."""
        if self._error is None and not self._eof_sent:
            self._eof_sent = True
            self._relay.send(encode_frame(Type.BYTES, self.id, b"", Flag.EOF))
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
        self._turned_away = 0  # since there was room; the supervisor accepts no more either, so that it is about none

    def __len__(self) -> int:
        return len(self._streams)

    def listen(self, port: int) -> None:
        """Ask the guest to accept on 127.0.0.1:port; 0 ends that. Raises ConnectionError."""
        self.tell(Type.LISTEN, 0, (Tag.PORT, port))

    async def dial(self, port: int, timeout: float = 10.0) -> GuestStream:
        """Connect to a port inside. Raises ConnectionError, TimeoutError."""
        if len(self._streams) >= CONNECTIONS_MAX:
            raise ConnectionRefusedError(errno.ECONNREFUSED, f"{CONNECTIONS_MAX} connections are open")
        while True:
            self._next = self._next % (_BY_GUEST - 1) + 1
            if self._next not in self._streams:
                break
        stream = self._streams[self._next] = GuestStream(self, self._next)
        try:
            self.tell(Type.DIAL, stream.id, (Tag.PORT, port))
            async with asyncio.timeout(timeout):
                await stream.opened.wait()
            stream.check()
        except BaseException:
            stream.abort("not connected")
            raise
        return stream

    def receive(self, frame: Frame) -> None:
        """Take a frame of the guest's, types 96 to 100; to be called in the order they came."""
        kind, flags, ident, payload = frame
        known = self._streams.get(ident)
        if kind == Type.ACCEPTED_CONNECTION:
            self._accept(ident)
        elif known is None:
            pass  # it ended while this was on the way
        elif kind == Type.GUEST_BYTES:
            known.took(payload, bool(flags & Flag.EOF))
        elif kind == Type.DIALLED:
            known.opened.set()
        else:
            try:
                fields = Fields(payload)
                total, number = fields.number(Tag.TOTAL), fields.number(Tag.ERRNO) or errno.ECONNRESET
            except Malformed as error:
                known.abort(str(error))
                return
            if kind == Type.GUEST_TAKEN:
                known.credited(total)
            elif kind == Type.GUEST_HANGUP:
                refused = number == errno.ECONNREFUSED
                known.fail((ConnectionRefusedError if refused else ConnectionResetError)(number, os.strerror(number)))

    def _accept(self, ident: int) -> None:
        if ident in self._streams or not ident & _BY_GUEST:
            return  # root inside can write frames of its own
        if len(self._streams) >= CONNECTIONS_MAX:
            if self._turned_away < CONNECTIONS_MAX:
                self._turned_away += 1
                self.hang_up(ident)
            return
        self._turned_away = 0
        stream = self._streams[ident] = GuestStream(self, ident)
        stream.opened.set()
        self._accepted(stream)

    def send(self, frame: bytes) -> None:
        try:
            self._channel.send_frames([frame])
        except TakebackError as error:
            raise ConnectionResetError(errno.ECONNRESET, str(error)) from error

    def tell(self, kind: Type, ident: int, field: tuple[Tag, int]) -> None:
        self.send(encode_frame(kind, ident, encode_fields([field])))

    async def room(self) -> None:
        await self._channel.room()

    def hang_up(self, ident: int) -> None:
        try:
            self.send(encode_frame(Type.HANGUP, ident))
        except ConnectionError:
            pass  # then it is gone anyway

    def settle(self, stream: GuestStream) -> None:
        if stream.over and self._streams.get(stream.id) is stream:
            del self._streams[stream.id]

    def reset(self, why: str) -> None:
        """Forget all streams without telling the guest, which has reset them itself or is gone."""
        for stream in list(self._streams.values()):
            stream.fail(ConnectionResetError(errno.ECONNRESET, why))
        self._streams.clear()
