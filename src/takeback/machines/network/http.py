"""A forward proxy for HTTP/1: CONNECT, and plain http in absolute form with connections that stay open.

Each request is decided by itself and has a connection of its own outside, so a second request can never reach the host
of the first, and what a server reads differently than we do ends with that connection. Bodies in chunks are written
anew, heads are written from what was understood.

Does not cover: TLS, which goes through CONNECT unread.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from takeback.machines.network.addresses import Host, read_authority, show
from takeback.machines.network.buffered import Buffered, TooLong, Truncated
from takeback.machines.network.flow import Flow, RefusedByRule, Session, Unreachable
from takeback.machines.network.messages import (
    HEAD_MAX,
    BadMessage,
    Framing,
    Request,
    Response,
    end_to_end,
    read_request,
    read_response,
    write_head,
)
from takeback.machines.network.relay import GuestStream

FIRST_S = 60.0
BETWEEN_S = 300.0
_DRAIN_S = 3.0
_DRAIN_MAX = 1 << 20
_LINE_MAX = 4096
Write = Callable[[bytes], Awaitable[None]]


async def serve(session: Session, guest: GuestStream, client: Buffered) -> Flow | None:
    """Answer requests until the client leaves; return the connection of a CONNECT, from which on bytes are carried.

    Raises ConnectionError.
    """
    limit = FIRST_S
    while True:
        try:
            async with asyncio.timeout(limit):
                head = await client.until(b"\r\n\r\n", HEAD_MAX)
            if not head:
                guest.write_eof()
                return None
            request = read_request(head)
            if request.method == "CONNECT":
                host, port = read_authority(request.target)
                return await _connect(session, guest, client, request, host, port)
            if not await _plain(session, guest, client, request):
                break
        except TimeoutError:
            break
        except (BadMessage, TooLong, ValueError) as error:
            await guest.write(_page(400, "Bad Request", f"this request is not understood: {error}"))
            break
        limit = BETWEEN_S
    await leave(guest, client)
    return None


async def _connect(
    session: Session, guest: GuestStream, client: Buffered, request: Request, host: Host, port: int
) -> Flow | None:
    if not request.body.empty:
        raise BadMessage("CONNECT has no body")
    try:
        flow = await session.open(host, port, "CONNECT")
    except (RefusedByRule, Unreachable) as error:
        await guest.write(_answer(error))
        await leave(guest, client)
        return None
    await guest.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
    return flow


async def _plain(session: Session, guest: GuestStream, client: Buffered, request: Request) -> bool:
    """Carry one request and its response; whether the client's connection can be used for another."""
    host, port, path = _destination(request)
    keep = request.keep
    try:
        for named in request.all("host"):
            other, other_port = read_authority(named, 80)
            if (other, other_port) != (host, port):
                session.check_named(None, other, other_port, "HTTP Host")
        flow = await session.open(host, port, request.method, plain=True)
    except (RefusedByRule, Unreachable) as error:
        keep = keep and request.body.empty  # a body that was announced would be read as the next request
        await guest.write(_answer(error, keep=keep, head=request.method == "HEAD"))
        return keep
    flow.on_cut = guest.abort
    why = "closed"
    try:
        return await _exchange(guest, client, flow, request, _request_head(request, flow, host, port, path))
    except (ConnectionError, Truncated, BadMessage, TooLong, ValueError) as error:
        why = str(error)
        raise ConnectionResetError(why) from error  # a response that was begun must not look whole
    finally:
        session.done(flow, why)


def _destination(request: Request) -> tuple[Host, int, str]:
    scheme, _, rest = request.target.partition("://")
    if scheme.lower() != "http":
        raise BadMessage("this is a proxy: ask for http://HOST/..., and for https with CONNECT")
    end = min((at for at in (rest.find("/"), rest.find("?"), rest.find("#")) if at >= 0), default=len(rest))
    authority, path = rest[:end], rest[end:]
    if "@" in authority or "#" in path or "\\" in authority:
        raise BadMessage("the target is malformed")
    host, port = read_authority(authority.removesuffix(":"), 80)
    return host, port, path if path.startswith("/") else "/" + path


def _request_head(request: Request, flow: Flow, host: Host, port: int, path: str) -> bytes:
    where = show(host, port).removesuffix(":80")
    fields = [("Host", where), *end_to_end(request.fields, "host", "content-length"), ("Connection", "close")]
    if request.body.chunked:
        fields.append(("Transfer-Encoding", "chunked"))
    elif not request.body.empty or request.all("content-length"):
        fields.append(("Content-Length", str(request.body.length)))
    if flow.proxy is not None:
        path = f"http://{where}{path}"
        if flow.proxy.authorization:
            fields.append(("Proxy-Authorization", flow.proxy.authorization))
    return write_head(f"{request.method} {path} HTTP/1.{request.minor}", fields)


async def _exchange(guest: GuestStream, client: Buffered, flow: Flow, request: Request, head: bytes) -> bool:
    await flow.write(head)
    upload = asyncio.create_task(_upload(client, request.body, flow))
    try:
        server = Buffered(flow)
        while True:
            try:
                raw = await server.until(b"\r\n\r\n", HEAD_MAX)
            except ConnectionError:
                raw = b""
            if not raw and not flow.ended:
                return await _no_answer(guest)
            response = read_response(raw, request.method)
            if response.status == 101:
                raise BadMessage("the server changed the protocol unasked")
            if response.status >= 200:
                break
            if request.minor == 1:
                await guest.write(write_head(_status(response), end_to_end(response.fields)))
        chunked = request.minor == 1
        keep = request.keep and upload.done() and (response.body.chunked or response.body.length is not None)
        await guest.write(_response_head(response, keep=keep, chunked=chunked))
        await _body(server, response.body, guest.write, chunked=chunked)
        return keep and not flow.ended
    finally:
        upload.cancel()
        await asyncio.gather(upload, return_exceptions=True)


async def _upload(client: Buffered, framing: Framing, flow: Flow) -> None:
    try:
        await _body(client, framing, flow.write, chunked=True)
    except (BadMessage, TooLong, Truncated) as error:
        flow.cut(f"the request's body: {error}")
    except ConnectionError as error:
        # The server may have answered without reading it all; if it is the program inside that left, nobody waits.
        if client.gone:
            flow.cut(str(error))


async def _no_answer(guest: GuestStream) -> bool:
    await guest.write(_page(502, "Bad Gateway", "the server closed the connection without an answer"))
    return False


def _status(response: Response) -> str:
    return f"HTTP/1.1 {response.status} {response.reason}"


def _response_head(response: Response, *, keep: bool, chunked: bool) -> bytes:
    fields = end_to_end(response.fields)
    if response.body.chunked and chunked:
        fields.append(("Transfer-Encoding", "chunked"))
    fields.append(("Connection", "keep-alive" if keep else "close"))
    return write_head(_status(response), fields)


async def _body(source: Buffered, framing: Framing, write: Write, *, chunked: bool) -> None:
    """Carry a body as it is framed, in chunks of our own where it is in chunks and the reader knows them."""
    if framing.chunked:
        await _chunks(source, write, chunked=chunked)
    elif framing.length is None:
        while data := await source.some():
            await write(data)
    else:
        await _count(source, framing.length, write)


async def _count(source: Buffered, left: int, write: Write) -> None:
    while left:
        data = await source.some(min(left, 65536))
        if not data:
            raise Truncated("the body ended early")
        left -= len(data)
        await write(data)


async def _chunks(source: Buffered, write: Write, *, chunked: bool) -> None:
    while True:
        line = await source.until(b"\r\n", _LINE_MAX)
        size = line[:-2].split(b";", 1)[0].strip(b" \t")
        if not 0 < len(size) <= 15 or size.strip(b"0123456789abcdefABCDEF"):
            raise BadMessage("the size of a chunk is malformed")
        left = int(size, 16)
        if left == 0:
            break
        while left:
            data = await source.some(min(left, 65536))
            if not data:
                raise Truncated("the body ended early")
            left -= len(data)
            await write(b"%x\r\n%b\r\n" % (len(data), data) if chunked else data)
        if await source.exactly(2) != b"\r\n":
            raise BadMessage("a chunk is longer than it says")
    while await source.until(b"\r\n", _LINE_MAX) not in (b"\r\n", b""):
        pass  # trailers could name what the head may not
    if chunked:
        await write(b"0\r\n\r\n")


def _answer(error: RefusedByRule | Unreachable, *, keep: bool = False, head: bool = False) -> bytes:
    if isinstance(error, Unreachable):
        return _page(502, "Bad Gateway", f"no connection: {error}", keep=keep, head=head)
    return refusal(error, keep=keep, head=head)


def refusal(error: RefusedByRule, *, keep: bool = False, head: bool = False) -> bytes:
    """Return the answer that tells why a destination is refused, and which rule would allow it."""
    text = f"the network rules of this sandbox refuse {error.where}: {error.decision.why}"
    if error.decision.add:
        text += f"\nrule that would allow it: {error.decision.add}"
    return _page(403, "Forbidden", text, ("X-Runtime-Egress", error.decision.code), keep=keep, head=head)


def _page(
    status: int, reason: str, text: str, *fields: tuple[str, str], keep: bool = False, head: bool = False
) -> bytes:
    body = f"takeback: {text}\n".encode()
    all_fields = [
        ("Content-Type", "text/plain; charset=utf-8"),
        ("Content-Length", str(len(body))),
        *fields,
        ("Connection", "keep-alive" if keep else "close"),
    ]
    return write_head(f"HTTP/1.1 {status} {reason}", all_fields) + (b"" if head else body)


async def leave(guest: GuestStream, client: Buffered) -> None:
    """Close so that the last answer arrives: a reset for what is still being sent would overtake it."""
    guest.write_eof()
    left = _DRAIN_MAX
    try:
        async with asyncio.timeout(_DRAIN_S):
            while left > 0 and (data := await client.some()):
                left -= len(data)
    except TimeoutError:
        pass
