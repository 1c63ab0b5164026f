"""The two flows of a process that have back-pressure: output that is followed, and stdin.

Does not cover: the frames they come in (see `link`).
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable

from takeback.machines.channel.messages import Ended, Gap, Output, Told

STDIN_AHEAD = 256 * 1024
_JOINED = 64 * 1024


class Following(AsyncIterator[Told]):
    """The output of one process as it is told, ending with Ended; buffers at most its window of bytes.

    `grant` is called with the total of bytes that may be sent, `leave` when nobody reads on.
    """

    def __init__(self, cursor: int, window: int, grant: Callable[[int], None], leave: Callable[[], None]) -> None:
        self._began = cursor
        self._window = window
        self._granted = window
        self._grant = grant
        self._leave = leave
        self._told: deque[Told] = deque()
        self._waiter: asyncio.Future[None] | None = None
        self._over = False
        self._error: BaseException | None = None

    def tell(self, told: Told) -> None:
        self._told.append(told)
        self._wake()

    def fail(self, error: BaseException) -> None:
        if self._error is None:
            self._error = error
        self._wake()

    def close(self) -> None:
        """Stop following; the process is no longer held back for this reader."""
        if not self._over:
            self._over = True
            self._leave()
        self._wake()

    def __aiter__(self) -> Following:
        return self

    async def __anext__(self) -> Told:
        while not self._told:
            if self._over:
                raise StopAsyncIteration
            if self._error is not None:
                self._over = True
                raise self._error
            self._waiter = asyncio.get_running_loop().create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None
        told = self._told.popleft()
        if isinstance(told, Output):
            told = self._join(told)
            self._read_up_to(told.offset + len(told.data))
        elif isinstance(told, Gap):
            self._read_up_to(told.resume_at)
        elif isinstance(told, Ended):
            self._over = True
        return told

    def _join(self, first: Output) -> Output:
        """Put together what came in several frames: 4 KiB at a time would cost more than it carries."""
        parts = [first.data]
        size = len(first.data)
        while self._told and size < _JOINED:
            following = self._told[0]
            if not isinstance(following, Output) or following.stderr != first.stderr:
                break
            parts.append(following.data)
            size += len(following.data)
            self._told.popleft()
        return Output(first.offset, b"".join(parts), first.stderr) if len(parts) > 1 else first

    def _read_up_to(self, offset: int) -> None:
        total = offset - self._began + self._window
        if total - self._granted >= max(1, self._window // 2) and not self._over:
            self._granted = total
            self._grant(total)

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


class StdinFlow:
    """Bytes sent to a process and bytes it took; at most STDIN_AHEAD are on the way."""

    def __init__(self, sent: int = 0) -> None:
        self.sent = sent
        self.accepted = sent
        self.lock = asyncio.Lock()  # one writer's bytes stay together
        self.error: BaseException | None = None
        self._waiters: list[asyncio.Future[None]] = []

    def take(self, total: int) -> None:
        self.accepted = max(self.accepted, total)
        self._wake()

    def fail(self, error: BaseException) -> None:
        self.error = error
        self._wake()

    async def room(self, size: int) -> None:
        """Wait until `size` more bytes may be sent. Raises what the supervisor said when stdin is closed."""
        while True:
            if self.error is not None:
                raise self.error
            if self.sent - self.accepted + size <= STDIN_AHEAD:
                return
            await self._changed()

    async def taken(self) -> None:
        """Wait until the process has taken everything that was sent."""
        while self.accepted < self.sent:
            if self.error is not None:
                raise self.error
            await self._changed()

    async def _changed(self) -> None:
        waiter = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        try:
            await waiter
        finally:
            if waiter in self._waiters:
                self._waiters.remove(waiter)

    def _wake(self) -> None:
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)
