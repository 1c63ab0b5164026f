"""SOCKS5 (RFC 1928), CONNECT without authentication: how programs that speak no HTTP come out.

Does not cover: UDP and BIND, which are refused.
"""

from __future__ import annotations

import ipaddress

from takeback.machines.network.addresses import Host, read_host
from takeback.machines.network.buffered import Buffered
from takeback.machines.network.flow import Flow, RefusedByRule, Session, Unreachable
from takeback.machines.network.relay import GuestStream

_FAILED, _NOT_ALLOWED, _NO_HOST, _REFUSED, _NO_COMMAND, _NO_TYPE = 1, 2, 4, 5, 7, 8
_CONNECT = 1


class Malformed(ValueError):
    """The client does not speak SOCKS5 as it is written."""


async def handshake(session: Session, guest: GuestStream, client: Buffered) -> Flow | None:
    """Answer a client up to the point where bytes flow; None when it was told that they will not.

    Raises Malformed, ConnectionError.
    """
    version, count = await client.exactly(2)
    methods = await client.exactly(count)
    if version != 5:
        raise Malformed("not SOCKS5")
    if 0 not in methods:
        await guest.write(b"\x05\xff")
        return None
    await guest.write(b"\x05\x00")
    version, command, reserved, kind = await client.exactly(4)
    if version != 5 or reserved != 0:
        raise Malformed("not a SOCKS5 request")
    host = await _host(client, kind)
    port = int.from_bytes(await client.exactly(2), "big")
    if command != _CONNECT or kind not in (1, 3, 4):
        await _answer(guest, _NO_COMMAND if kind in (1, 3, 4) else _NO_TYPE)
        return None
    if host is None or port == 0:
        await _answer(guest, _FAILED)
        return None
    try:
        flow = await session.open(host, port, "SOCKS5")
    except RefusedByRule:
        await _answer(guest, _NOT_ALLOWED)
        return None
    except Unreachable as error:
        await _answer(guest, _REFUSED if error.refused else _NO_HOST)
        return None
    await _answer(guest, 0)
    return flow


async def _host(client: Buffered, kind: int) -> Host | None:
    if kind == 1:
        return ipaddress.IPv4Address(await client.exactly(4))
    if kind == 4:
        return ipaddress.IPv6Address(await client.exactly(16))
    if kind != 3:
        raise Malformed("no such kind of address")
    (length,) = await client.exactly(1)
    name = await client.exactly(length)
    try:
        return read_host(name.decode("ascii"))
    except ValueError:
        return None


async def _answer(guest: GuestStream, code: int) -> None:
    await guest.write(bytes([5, code, 0, 1]) + bytes(6))  # the address bound to is nobody's business inside
