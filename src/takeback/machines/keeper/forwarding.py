"""Ports of this machine that lead to ports inside, each for as long as a client holds its connection.

Does not cover: those that stay (`previews`), moving the bytes (`network.forward`).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from takeback.errors import InvalidRequest, TakebackError
from takeback.machines.keeper.server import Call, Operation
from takeback.machines.network.forward import Forward
from takeback.machines.network.relay import GuestStream

if TYPE_CHECKING:
    from takeback.machines.keeper.machine import Life

_HERE = ("127.0.0.1", "localhost")


def leading_to(life: Life, inside: int) -> Forward:
    """Return what leads to a port of a sandbox, still to be started.

    A connection wakes it, and counts as use while it is open; after a restore it leads to the new machine.
    """

    @asynccontextmanager
    async def using() -> AsyncIterator[None]:
        life.enter()
        try:
            try:
                await life.awake()
                await life.link()
            except TakebackError as error:
                raise ConnectionRefusedError(str(error)) from error
            yield
        finally:
            life.leave()

    async def dial(port: int) -> GuestStream:
        return await life.network.dial(port)

    return Forward(dial, inside, using)


def port(value: object, *, lowest: int = 1) -> int:
    """Return a port number. Raises InvalidRequest."""
    if isinstance(value, bool) or not isinstance(value, int) or not lowest <= value <= 65_535:
        raise InvalidRequest(detail=f"{value!r} is no port", next=f"a whole number from {lowest} to 65535")
    return value


async def forward(call: Call) -> dict[str, Any]:
    """Listen until the caller says so or has gone, or the sandbox is deleted."""
    life, asked = call.life(), call.request
    if asked.get("host") not in _HERE:
        raise InvalidRequest(detail=f"host={asked.get('host')!r}", next="ports are forwarded on 127.0.0.1 only")
    made = leading_to(life, port(asked["port"]))
    await made.start(port(asked.get("local_port") or 0, lowest=0))
    # Somebody who closes it waits for the answer: after that nobody listens any more.
    ends = [asyncio.ensure_future(life.over.wait()), asyncio.ensure_future(call.line.receive())]
    try:
        host, number = made.address
        call.event("forward", host=host, port=number)
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for end in ends:
            end.cancel()
        await made.close()
    return {}


OPERATIONS = {"forward": Operation(forward)}
