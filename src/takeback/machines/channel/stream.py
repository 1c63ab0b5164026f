"""The host's ends of the two FIFOs: whole frames out, bytes in, nothing that blocks.

Does not cover: what the frames say (see `link`).
"""

from __future__ import annotations

import asyncio
import fcntl
import os
from collections import deque
from collections.abc import Callable, Iterable
from pathlib import Path

from takeback.machines.channel.frames import FRAME_MAX

PIPE_SIZE = 1 << 20
_SET_PIPE_SIZE = 1031  # F_SETPIPE_SZ, fcntl(2)
_READ_AT_ONCE = 256 * 1024
_CROWDED = 32  # frames


class Stream:
    """Sends frames in order and calls `on_data` with what comes; to be used from one event loop only."""

    def __init__(self, to_guest: Path, from_guest: Path, on_data: Callable[[bytes], None]) -> None:
        self._on_data = on_data
        self._loop = asyncio.get_running_loop()
        self._queue: deque[bytes] = deque()
        self._held: deque[bytes] | None = None
        self._unwritten = b""
        self._waiting = False
        self._open = True
        self._room: asyncio.Future[None] | None = None
        # Read-write: so that neither end is ever without its other end, whoever comes and goes (fifo(7)).
        flags = os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC
        self._out = os.open(to_guest, flags)
        try:
            self._in = os.open(from_guest, flags)
        except BaseException:
            os.close(self._out)
            raise
        for fd in (self._out, self._in):
            try:
                fcntl.fcntl(fd, _SET_PIPE_SIZE, PIPE_SIZE)
            except OSError:
                pass  # over the user's share of pipe pages (pipe(7)): smaller works too
        self._loop.add_reader(self._in, self._readable)

    def send(self, frames: Iterable[bytes]) -> None:
        """Send whole frames after those sent before; while `hold` is in force they wait."""
        if self._held is not None:
            self._held.extend(frames)
        else:
            self.send_now(frames)

    def send_now(self, frames: Iterable[bytes]) -> None:
        """Send also while others wait."""
        self._queue.extend(frames)
        if not self._waiting and self._open:
            self._flush()

    async def room(self) -> None:
        """Wait until little is waiting to be sent: for those who have much, so that they get in nobody's way."""
        while self._open and (self._held is not None or len(self._queue) >= _CROWDED):
            if self._room is None or self._room.done():
                self._room = self._loop.create_future()
            await asyncio.shield(self._room)

    def _make_room(self) -> None:
        if self._room is not None and not self._room.done():
            self._room.set_result(None)

    def hold(self) -> None:
        """Keep back everything that is sent from now on."""
        if self._held is None:
            self._held = deque()

    def release(self) -> None:
        """Send what was kept back."""
        held, self._held = self._held, None
        if held:
            self.send_now(held)
        self._make_room()

    def close(self) -> None:
        if not self._open:
            return
        self._open = False
        self._make_room()
        self._loop.remove_reader(self._in)
        if self._waiting:
            self._loop.remove_writer(self._out)
        os.close(self._in)
        os.close(self._out)

    def _flush(self) -> None:
        queue = self._queue
        while self._unwritten or queue:
            # Several frames may go in one write as long as it is at most PIPE_BUF: all of it is taken, or nothing, so
            # that a host which is killed here leaves whole frames.
            if not self._unwritten:
                chunk = queue.popleft()
                if queue and len(chunk) + len(queue[0]) <= FRAME_MAX:
                    parts = [chunk]
                    size = len(chunk)
                    while queue and size + len(queue[0]) <= FRAME_MAX:
                        size += len(queue[0])
                        parts.append(queue.popleft())
                    chunk = b"".join(parts)
                self._unwritten = chunk
            try:
                wrote = os.write(self._out, self._unwritten)
            except BlockingIOError:
                if not self._waiting:
                    self._waiting = True
                    self._loop.add_writer(self._out, self._flush)
                return
            self._unwritten = self._unwritten[wrote:]
            if len(queue) < _CROWDED:
                self._make_room()
        if self._waiting:
            self._waiting = False
            self._loop.remove_writer(self._out)

    def _readable(self) -> None:
        try:
            data = os.read(self._in, _READ_AT_ONCE)
        except BlockingIOError:
            return
        if data:
            self._on_data(data)
