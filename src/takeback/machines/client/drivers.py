"""The two drivers of operations: over a blocking socket, and in an event loop.

Does not cover: finding or starting the keeper (`connect`).
"""

from __future__ import annotations

import inspect
import select
import time
from collections import deque
from collections.abc import AsyncGenerator, Generator
from contextlib import aclosing, closing
from typing import TYPE_CHECKING, Any, TypeVar

from takeback.host import unix
from takeback.machines import wire
from takeback.machines.client.connect import Client
from takeback.machines.client.steps import Give, Op, Open, Receive, Run, Send, Sleep, Step

if TYPE_CHECKING:
    from takeback.machines.lines import Line

T = TypeVar("T")
_READ = 256 * 1024


def run(client: Client, op: Op[T]) -> T:
    """Do an operation and return its result."""
    steps = items(client, op)
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: T = end.value
            return result


def items(client: Client, op: Op[T]) -> Generator[Any, None, T]:
    """Do an operation, giving its items one by one; leaving early closes its connection."""
    with closing(_Blocking(client)) as line, closing(op):
        step, done = _advance(op)
        while step is not None:
            answer: Any = None
            try:
                if isinstance(step, Give):
                    yield step.item
                else:
                    answer = line.do(step)
            except GeneratorExit:
                raise
            except BaseException as error:
                # Into the operation: it may have something to clean up, or know how to go on.
                step, done = _advance(op, error=error)
            else:
                step, done = _advance(op, answer=answer)
        return done  # type: ignore[no-any-return]


async def arun(client: Client, op: Op[T]) -> T:
    """Do an operation in the running event loop and return its result."""
    driver = _Driver(client, op)
    async with aclosing(driver.items()) as steps:
        async for _ in steps:
            pass
    result: T = driver.result
    return result


async def aitems(client: Client, op: Op[Any]) -> AsyncGenerator[Any, None]:
    """Do an operation in the running event loop, giving its items one by one."""
    async with aclosing(_Driver(client, op).items()) as steps:
        async for item in steps:
            yield item


def _advance(op: Op[Any], answer: Any = None, error: BaseException | None = None) -> tuple[Step | None, Any]:
    """Give an operation the answer to its last step; return its next step, or None and its result."""
    try:
        return (op.send(answer) if error is None else op.throw(error)), None
    except StopIteration as end:
        return None, end.value


class _Blocking:
    """The connection of one operation."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._socket: unix.Socket | None = None
        self._parser = wire.Parser()
        self._frames: deque[wire.Frame] = deque()

    def do(self, step: Step) -> Any:
        if isinstance(step, Receive):
            return self._receive()
        if isinstance(step, Send):
            return self._send(step.frame)
        if isinstance(step, Open):
            self.close()
            self._parser = wire.Parser()
            self._frames.clear()
            self._socket = self._client.connect()
            return self._send(wire.pack_json(self._client.signed(step.request)))
        if isinstance(step, Run):
            return step.function(*step.arguments)
        assert isinstance(step, Sleep)
        return time.sleep(step.seconds)

    def _receive(self) -> wire.Frame | None:
        while not self._frames:
            if not self._read():
                return None
        return self._frames.popleft()

    def _read(self) -> bool:
        assert self._socket is not None
        try:
            data = self._socket.recv(_READ)
        except ConnectionResetError:
            return False
        self._frames.extend(self._parser.feed(data))
        return bool(data)

    def _send(self, frame: bytes) -> None:
        assert self._socket is not None
        view = memoryview(frame)
        try:
            if len(frame) <= 4096:
                self._socket.sendall(frame)
                return
            poll = select.poll()
            poll.register(self._socket, select.POLLIN | select.POLLOUT)
            while view:
                # The keeper may be sending too, and take nothing more until that is read.
                ready = poll.poll()[0][1]
                if ready & select.POLLOUT:
                    view = view[unix.send_some(self._socket, view) :]
                if ready & ~select.POLLOUT and not self._read():
                    return
        except (BrokenPipeError, ConnectionResetError):
            return  # why it went is what can still be received

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None


class _Driver:
    """One operation in an event loop."""

    def __init__(self, client: Client, op: Op[Any]) -> None:
        self._client = client
        self._op = op
        self._line: Line | None = None
        self.result: Any = None

    async def items(self) -> AsyncGenerator[Any, None]:
        with closing(self._op):
            try:
                step, done = _advance(self._op)
                while step is not None:
                    answer: Any = None
                    try:
                        if isinstance(step, Give):
                            yield step.item
                        else:
                            answer = await self._do(step)
                    except GeneratorExit:
                        raise
                    except BaseException as error:
                        step, done = _advance(self._op, error=error)
                    else:
                        step, done = _advance(self._op, answer=answer)
                self.result = done
            finally:
                self._close()

    async def _do(self, step: Step) -> Any:
        import asyncio

        if isinstance(step, Receive):
            assert self._line is not None
            return await self._line.receive()
        if isinstance(step, Send):
            assert self._line is not None
            return await self._line.send(step.frame, keep_reading=True)
        if isinstance(step, Open):
            self._close()
            self._line = await self._client.aconnect()
            return await self._line.send(wire.pack_json(self._client.signed(step.request)), keep_reading=True)
        if isinstance(step, Run):
            if step.blocking:
                return await asyncio.to_thread(step.function, *step.arguments)
            answer = step.function(*step.arguments)
            return await answer if inspect.isawaitable(answer) else answer
        assert isinstance(step, Sleep)
        return await asyncio.sleep(step.seconds)

    def _close(self) -> None:
        if self._line is not None:
            self._line.close()
            self._line = None
