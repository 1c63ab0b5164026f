"""What is written once for both faces: a generator that yields what a face's methods give, and is sent the results.

    def passed(box):                                # of Sandbox or of AsyncSandbox
        result = yield box.exec("make test")
        return result.exit_code == 0

A blocking method gives its result and an asyncio one something to await: `now` sends the one back, `later` the other
when it has come. What is raised meanwhile comes out of the `yield` in both.

Does not cover: operations on the keeper (`steps`, `drivers`), which have no faces yet.
"""

from __future__ import annotations

import inspect
import threading
import time
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import suppress
from typing import Any, TypeVar

from takeback.errors import TakebackError
from takeback.machines.client.connect import Client
from takeback.machines.client.drivers import aitems, arun, items, run
from takeback.machines.client.steps import Op

T = TypeVar("T")
Steps = Generator[Any, Any, T]


def now(steps: Steps[T]) -> T:
    """Go through the steps of the blocking face and return their result."""
    answer: Any = None
    error: BaseException | None = None
    while True:
        try:
            answer = steps.send(answer) if error is None else steps.throw(error)
            error = None
        except StopIteration as end:
            result: T = end.value
            return result
        except BaseException as raised:
            if getattr(steps, "gi_frame", None) is None:  # it came from them, and they are over
                raise
            error = raised  # Ctrl-C came here, between two steps: they have something to clean up


async def later(steps: Steps[T]) -> T:
    """Go through the steps of the asyncio face and return their result."""
    try:
        step = next(steps)
        while True:
            try:
                answer = await step if inspect.isawaitable(step) else step
            except BaseException as error:
                step = steps.throw(error)
            else:
                step = steps.send(answer)
    except StopIteration as end:
        result: T = end.value
        return result


class Blocking:
    """How the blocking face does an operation, holds one open, and bounds a function of the user's."""

    def do(self, steps: Steps[T]) -> Any:
        return now(steps)

    def run(self, client: Client, op: Op[T]) -> Any:
        return run(client, op)

    def hold(self, client: Client, op: Op[None]) -> Any:
        """Begin an operation and return it once it has given its first item; `release` ends it."""
        held: Generator[Any, None, None] = items(client, op)
        next(held)
        return held

    def release(self, held: Any) -> Any:
        held.close()

    def sleep(self, seconds: float) -> Any:
        time.sleep(seconds)

    def bounded(self, function: Callable[[Any], Any], box: Any, seconds: float, late: Callable[[], None]) -> Any:
        """Return what a function of a sandbox returns; out of time, `late` is called and the sandbox deleted.

        A function cannot be ended, but what it works on can: its next call fails.
        """

        def end() -> None:
            late()
            with suppress(TakebackError):
                box.delete()

        timer = threading.Timer(seconds, end)
        timer.daemon = True
        timer.start()
        try:
            return function(box)
        finally:
            timer.cancel()


class Awaiting:
    """The same for the asyncio face; every answer is to be awaited."""

    def do(self, steps: Steps[T]) -> Any:
        return later(steps)

    def run(self, client: Client, op: Op[T]) -> Any:
        return arun(client, op)

    async def hold(self, client: Client, op: Op[None]) -> Any:
        held: AsyncGenerator[Any, None] = aitems(client, op)
        await anext(held)
        return held

    async def release(self, held: Any) -> Any:
        await held.aclose()

    async def sleep(self, seconds: float) -> Any:
        import asyncio

        await asyncio.sleep(seconds)

    async def bounded(self, function: Callable[[Any], Any], box: Any, seconds: float, late: Callable[[], None]) -> Any:
        import asyncio  # half of what a blocking program would import

        try:
            async with asyncio.timeout(seconds) as clock:
                answer = function(box)
                return await answer if inspect.isawaitable(answer) else answer
        except TimeoutError:
            if not clock.expired():
                raise  # the function's own
            late()


Face = Blocking | Awaiting
BLOCKING, AWAITING = Blocking(), Awaiting()
