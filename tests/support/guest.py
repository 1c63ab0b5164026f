"""A supervisor as a plain process behind two FIFOs, as the `fake` engine runs it."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

from takeback.machines.channel.flows import Following
from takeback.machines.channel.link import Link
from takeback.machines.channel.messages import Command, Ended, Gap, Output

T = TypeVar("T")
ENV = {"PATH": "/usr/local/bin:/usr/bin:/bin", "LC_ALL": "C.UTF-8"}


class Guest:
    """One running supervisor."""

    def __init__(self, binary: Path, folder: Path, **env: str) -> None:
        self.binary = binary
        self.to_guest = folder / "in"
        self.from_guest = folder / "out"
        for fifo in (self.to_guest, self.from_guest):
            os.mkfifo(fifo)
        ends = [os.open(fifo, os.O_RDWR) for fifo in (self.to_guest, self.from_guest)]
        self.process = subprocess.Popen(
            [binary],
            stdin=ends[0],
            stdout=ends[1],
            env={"ASAN_OPTIONS": "detect_leaks=0", "PATH": "/nowhere", **env},
        )
        for end in ends:
            os.close(end)

    def link(self) -> Link:
        return Link(self.to_guest, self.from_guest)

    @asynccontextmanager
    async def attached(self) -> AsyncIterator[Link]:
        link = self.link()
        try:
            await link.attach()
            yield link
        finally:
            link.close()

    def run(self, call: Callable[[Link], Awaitable[T]], limit: float = 60.0) -> T:
        """Run `call` with an attached link."""

        async def body() -> T:
            async with asyncio.timeout(limit), self.attached() as link:
                return await call(link)

        return asyncio.run(body())

    def resident(self) -> int:
        """Its memory now, in bytes."""
        for line in Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) * 1024
        raise AssertionError("no VmRSS")

    def stop(self) -> None:
        """End it and everything below it."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(8)
            except subprocess.TimeoutExpired:
                self.process.kill()
        self.process.wait()


class Collected:
    """What a follower was told: the two streams, gaps, and the end."""

    def __init__(self) -> None:
        self.out = b""
        self.err = b""
        self.gaps: list[int] = []
        self.ended: Ended | None = None
        self.size = 0


async def collect(following: Following | None, cursor: int = 0) -> Collected:
    """Read to the end, checking that every offset follows from the one before."""
    assert following is not None
    parts: dict[bool, list[bytes]] = {False: [], True: []}
    found = Collected()
    async for told in following:
        if isinstance(told, Output):
            assert told.offset == cursor
            cursor += len(told.data)
            found.size += len(told.data)
            parts[told.stderr].append(told.data)
        elif isinstance(told, Gap):
            assert told.resume_at > cursor
            found.gaps.append(told.resume_at)
            cursor = told.resume_at
        else:
            found.ended = told
    found.out, found.err = b"".join(parts[False]), b"".join(parts[True])
    return found


async def run(link: Link, argv: Iterable[str | bytes], **options: Any) -> Collected:
    """Run a command to its end."""
    options.setdefault("env", ENV)
    started = await link.spawn(Command(list(argv), **options))
    return await collect(started.output)


async def shell(link: Link, text: str, **options: Any) -> Collected:
    return await run(link, ["/bin/sh", "-c", text], **options)


async def until(condition: Callable[[], bool], limit: float = 20.0) -> None:
    """Wait for something that nobody tells of."""
    async with asyncio.timeout(limit):
        while not condition():
            await asyncio.sleep(0.01)
