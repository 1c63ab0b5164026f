"""Bytes both ways between a program inside and the outside, after a look at the first ones.

Does not cover: how the tunnel was asked for (`http`, `socks`).
"""

from __future__ import annotations

import asyncio

from takeback.machines.network.addresses import read_authority
from takeback.machines.network.buffered import Buffered
from takeback.machines.network.flow import Flow, RefusedByRule, Session, both
from takeback.machines.network.relay import GuestStream
from takeback.machines.network.rules import NOT_ALLOWED, Decision
from takeback.machines.network.sniff import Named, examine

_EXAMINE_S = 30.0


async def tunnel(session: Session, guest: GuestStream, client: Buffered, flow: Flow, narrow: bool) -> None:
    """Carry bytes until both sides have ended. Raises ConnectionError, RefusedByRule for what is named inside.

    `narrow`: some names are refused, so what nobody can look into is refused too.
    """
    up = asyncio.create_task(_up(session, client, flow, narrow))
    down = asyncio.create_task(_down(guest, flow))
    await both(up, down)


async def _up(session: Session, client: Buffered, flow: Flow, narrow: bool) -> None:
    named = await _first(client)
    if named is not None:
        _check(session, flow, named, narrow)
    while data := await client.some():
        await flow.write(data)
    flow.write_eof()


async def _first(client: Buffered) -> Named | None:
    """Wait until the first bytes tell what they are; nothing of them has been passed on. None: they never came."""
    if not client.held and not await client.more():
        return None
    try:
        async with asyncio.timeout(_EXAMINE_S):
            while (named := examine(bytes(client.held))) is None:
                if not await client.more():
                    return Named("other")  # too short to mean anything
    except TimeoutError:
        return Named("other", problem="its beginning never became whole")
    return named


def _check(session: Session, flow: Flow, named: Named, narrow: bool) -> None:
    how = "TLS server name" if named.protocol == "tls" else "HTTP Host"
    if named.problem:
        if narrow:
            raise RefusedByRule(Decision(False, NOT_ALLOWED, f"{named.protocol}: {named.problem}"), str(flow.host))
        return
    if not named.host:
        return
    try:
        host, _ = read_authority(named.host, flow.port)
    except ValueError as error:
        if narrow:
            raise RefusedByRule(
                Decision(False, NOT_ALLOWED, f"{how} {named.host[:80]!r}: {error}"), str(flow.host)
            ) from None
        return
    if host != flow.host:
        session.check_named(flow, host, flow.port, how)


async def _down(guest: GuestStream, flow: Flow) -> None:
    while data := await flow.read():
        await guest.write(data)
    guest.write_eof()
