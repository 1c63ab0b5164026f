"""The far end of a machine's channel for tests: blocking calls over `machines.channel`, one event loop for all."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from takeback.machines.channel.link import Link
from takeback.machines.channel.messages import Command, Ended, Output
from takeback.machines.engine import Stdio

T = TypeVar("T")
ENV = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root", "LANG": "C.UTF-8"}


class Loop:
    """An event loop in a thread of its own."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self._thread.start()

    def call(self, work: Coroutine[Any, Any, T], timeout: float = 60.0) -> T:
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(timeout)

    def close(self) -> None:
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(10)
        self.loop.close()


class Guest:
    """Talks to one machine's supervisor."""

    def __init__(self, loop: Loop, stdio: Stdio) -> None:
        self._loop = loop

        async def make() -> Link:
            return Link(stdio.to_guest, stdio.from_guest)

        self.link = loop.call(make())

    def attach(self) -> None:
        self._loop.call(self.link.attach())

    def sh(self, script: str, *, uid: int = 0, timeout: float = 60.0) -> str:
        """Run a shell script and return its output; it must end well."""
        code, out = self.run(["/bin/sh", "-c", script], uid=uid, timeout=timeout)
        assert code == 0, (script, code, out)
        return out

    def run(self, argv: list[str], *, uid: int = 0, timeout: float = 60.0, session: bool = True) -> tuple[int, str]:
        """Run a program; return its exit status (-signal) and both streams together."""

        async def work() -> tuple[int, str]:
            command = Command(argv, env=ENV, cwd="/", uid=uid, gid=uid, session=session)
            started = await self.link.spawn(command)
            assert started.output is not None
            out = b""
            async for told in started.output:
                if isinstance(told, Output):
                    out += told.data
                elif isinstance(told, Ended):
                    return (-told.signo if told.signo else told.status or 0), out.decode("utf-8", "replace")
            raise AssertionError("no end")

        return self._loop.call(work(), timeout)

    def background(self, argv: list[str], *, uid: int = 0) -> int:
        """Start a program that goes on; return its process id on the channel."""

        async def work() -> int:
            command = Command(argv, env=ENV, cwd="/", uid=uid, gid=uid, session=True)
            return (await self.link.spawn(command, follow=False)).id

        return self._loop.call(work())

    def output(self, process: int, cursor: int = 0) -> str:
        """Return what a program wrote so far."""

        async def work() -> str:
            following = self.link.follow(process, cursor)
            out = b""
            try:
                while True:
                    told = await asyncio.wait_for(following.__anext__(), 0.5)
                    if isinstance(told, Output):
                        out += told.data
                    elif isinstance(told, Ended):
                        break
            except (TimeoutError, StopAsyncIteration):
                pass
            following.close()
            return out.decode("utf-8", "replace")

        return self._loop.call(work())

    def answers(self, limit: float = 5.0) -> bool:
        """Whether PID 1 answers a ping."""
        try:
            self._loop.call(self.link.ping(limit), limit + 5)
        except Exception:
            return False
        return True

    @contextmanager
    def quiet(self) -> Iterator[None]:
        """Keep the channel at rest for the block."""
        self._loop.call(self.link.quiesce())
        try:
            yield
        finally:
            self._loop.loop.call_soon_threadsafe(self.link.go)

    def close(self) -> None:
        async def work() -> None:
            self.link.close()

        self._loop.call(work())
