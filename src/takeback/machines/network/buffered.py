"""Reading with a look ahead, for either side of a connection.

Does not cover: writing, what the bytes mean.
"""

from __future__ import annotations

from typing import Protocol


class Source(Protocol):
    """What gives bytes: a stream of the guest's or of the host's."""

    async def read(self, limit: int = 65536) -> bytes: ...


class Truncated(ConnectionError):
    """The stream ended in the middle of something."""


class TooLong(ValueError):
    """A line or a head beyond its limit."""


class Buffered:
    """A source with what was read from it and not yet taken."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self.held = bytearray()
        self.gone = False

    async def more(self) -> bool:
        """Read once more; false at the end of the stream."""
        try:
            data = await self._source.read(65536)
        except ConnectionError:
            self.gone = True
            raise
        self.held += data
        return bool(data)

    async def some(self, limit: int = 65536) -> bytes:
        """Return what there is, at most `limit` bytes, waiting for the first; empty at the end."""
        if not self.held and not await self.more():
            return b""
        return self._take(min(limit, len(self.held)))

    async def exactly(self, count: int) -> bytes:
        """Return `count` bytes. Raises Truncated."""
        while len(self.held) < count:
            if not await self.more():
                raise Truncated("the stream ended early")
        return self._take(count)

    async def until(self, mark: bytes, limit: int) -> bytes:
        """Return what comes up to and with `mark`; empty when the stream is over before anything.

        Raises Truncated, TooLong.
        """
        start = 0
        while (at := self.held.find(mark, start)) < 0:
            if len(self.held) > limit:
                raise TooLong(f"more than {limit} bytes")
            start = max(0, len(self.held) - len(mark) + 1)
            if not await self.more():
                if self.held:
                    raise Truncated("the stream ended early")
                return b""
        if at > limit:
            raise TooLong(f"more than {limit} bytes")
        return self._take(at + len(mark))

    def _take(self, count: int) -> bytes:
        data = bytes(self.held[:count])
        del self.held[:count]
        return data
