"""The host's own sockets: look a name up, connect to one of the addresses that were decided upon, the user's own proxy.

Does not cover: deciding (`rules`).
"""

from __future__ import annotations

import asyncio
import base64
import ipaddress
import socket
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from urllib.parse import unquote, urlsplit

from takeback.machines.network.addresses import Address, Host, show
from takeback.machines.network.rules import is_localhost

LOOKUP_S = 15.0
DIAL_S = 20.0
_NOT_LAST_S = 4.0  # an address that does not answer while there are others
_BUFFER = 64 * 1024
_PROXY_HEAD_MAX = 32 * 1024

Resolver = Callable[[str], Awaitable[Sequence[Address]]]
Pipe = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@dataclass(frozen=True)
class Proxy:
    """A forward proxy of the user's: where it is, and the Basic credentials it wants, if any."""

    host: str
    port: int
    authorization: str = ""


@dataclass(frozen=True)
class Upstream:
    """Through what the host itself reaches the internet; empty: directly.

    `bypass` are the entries of NO_PROXY: names with all below them, addresses, ranges, `*`.
    """

    http: Proxy | None = None
    https: Proxy | None = None
    bypass: tuple[str, ...] = ()

    def proxy_for(self, host: Host, *, plain: bool) -> Proxy | None:
        """Return the proxy for a destination; `plain` for http, else CONNECT."""
        proxy = self.http if plain else self.https
        if proxy is None or is_localhost(host) or any(_bypasses(entry, host) for entry in self.bypass):
            return None
        return proxy


def read_upstream(environ: Mapping[str, str]) -> Upstream:
    """Read HTTP_PROXY, HTTPS_PROXY, ALL_PROXY and NO_PROXY as curl(1) does; what is no http:// proxy is left out."""

    def get(name: str) -> str:
        return environ.get(name.lower()) or environ.get(name) or ""

    everything = get("ALL_PROXY")
    bypass = tuple(entry.strip().lower() for entry in get("NO_PROXY").split(",") if entry.strip())
    return Upstream(_proxy(get("HTTP_PROXY") or everything), _proxy(get("HTTPS_PROXY") or everything), bypass)


def _proxy(url: str) -> Proxy | None:
    if not url:
        return None
    try:
        parts = urlsplit(url if "://" in url else f"http://{url}")
        if parts.scheme != "http" or not parts.hostname:
            return None
        port = parts.port or 80
    except ValueError:
        return None
    user = ""
    if parts.username is not None:
        plain = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        user = "Basic " + base64.b64encode(plain.encode()).decode("ascii")
    return Proxy(parts.hostname, port, user)


def _bypasses(entry: str, host: Host) -> bool:
    if entry == "*":
        return True
    entry = entry.removeprefix("*").removeprefix(".")
    if isinstance(host, str):
        return host == entry or host.endswith("." + entry)
    try:
        return host in ipaddress.ip_network(entry, strict=False)
    except ValueError:
        return False


_threads = ThreadPoolExecutor(max_workers=16, thread_name_prefix="lookup")


async def lookup(name: str) -> Sequence[Address]:
    """Return all addresses of a name. Raises OSError, TimeoutError."""
    loop = asyncio.get_running_loop()
    async with asyncio.timeout(LOOKUP_S):
        return await loop.run_in_executor(_threads, _lookup, name)


def _lookup(name: str) -> list[Address]:
    answers = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
    texts = dict.fromkeys(str(answer[4][0]) for answer in answers)
    return [ipaddress.ip_address(text) for text in texts if "%" not in text]


def is_own(address: Address) -> bool:
    """Whether an address is one of this machine's: then the kernel would send to it from itself."""
    family = socket.AF_INET if address.version == 4 else socket.AF_INET6
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((str(address), 9))  # of a datagram socket: nothing is sent
            return str(probe.getsockname()[0]) == str(address)
        except OSError:
            return False


async def dial(addresses: Sequence[Address], port: int, timeout: float = DIAL_S) -> tuple[Pipe, Address]:
    """Connect to the first address that answers, and to no other place. Raises OSError, TimeoutError."""
    failed: Exception = OSError("no address")
    async with asyncio.timeout(timeout):
        for at, address in enumerate(addresses):
            try:
                async with asyncio.timeout(None if at == len(addresses) - 1 else _NOT_LAST_S):
                    return await asyncio.open_connection(str(address), port, limit=_BUFFER), address
            except (OSError, TimeoutError) as error:
                failed = error
    raise failed


async def dial_proxy(proxy: Proxy, timeout: float = DIAL_S) -> Pipe:
    """Connect to the user's own proxy. Raises OSError, TimeoutError."""
    async with asyncio.timeout(timeout):
        return await asyncio.open_connection(proxy.host, proxy.port, limit=_BUFFER)


async def tunnel(proxy: Proxy, host: Host, port: int) -> Pipe:
    """Connect to a destination through the user's own proxy. Raises OSError with what the proxy said, TimeoutError."""
    reader, writer = await dial_proxy(proxy)
    try:
        async with asyncio.timeout(DIAL_S):
            where = show(host, port)
            login = f"Proxy-Authorization: {proxy.authorization}\r\n" if proxy.authorization else ""
            writer.write(f"CONNECT {where} HTTP/1.1\r\nHost: {where}\r\n{login}\r\n".encode("ascii"))
            head = await reader.readuntil(b"\r\n\r\n")
    except BaseException as error:
        writer.transport.abort()
        if isinstance(error, asyncio.IncompleteReadError | asyncio.LimitOverrunError):
            raise ConnectionResetError("the host's own proxy gave no answer") from error
        raise
    status = head.split(b"\r\n", 1)[0].decode("latin-1")
    words = status.split(" ")
    if len(words) < 2 or words[1] != "200" or len(head) > _PROXY_HEAD_MAX:
        writer.transport.abort()
        raise ConnectionRefusedError(f"the host's own proxy said: {status[:200]}")
    return reader, writer
