"""The host that the first bytes of a tunnel name: the server name of TLS, or the Host of plain HTTP.

A tunnel is decided by the name it was asked for. A server that serves many names (a CDN) would serve another one to
whoever names it inside, so what is named inside is looked at too.

Does not cover: what follows from it (`tunnel`).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

EXAMINED_MAX = 64 * 1024
_REQUEST = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+ \S+ HTTP/1\.[01]")
# A line that begins so is held back until it is whole; others may be of protocols that wait for an answer.
_METHODS = (
    *(b"GET ", b"HEAD ", b"POST ", b"PUT ", b"DELETE ", b"OPTIONS ", b"PATCH ", b"TRACE ", b"CONNECT "),
    *(b"PROPFIND ", b"REPORT ", b"PRI "),
)
_HANDSHAKE, _CLIENT_HELLO, _SERVER_NAME = 22, 1, 0


@dataclass(frozen=True)
class Named:
    """What a tunnel began with (`tls`, `http`, `other`) and the host it names, empty when it names none."""

    protocol: str
    host: str = ""
    problem: str = ""  # why nobody can tell what is meant


def examine(data: bytes) -> Named | None:
    """Return what the bytes say, None when more are needed to tell."""
    if data[:1] == bytes([_HANDSHAKE]):
        return _tls(data)
    return _http(data)


def _http(data: bytes) -> Named | None:
    line, end, _ = data.partition(b"\n")
    if not end:
        held = any(data.startswith(method) or method.startswith(data) for method in _METHODS)
        return None if held and len(data) < EXAMINED_MAX else Named("other")
    if line.startswith(b"PRI * HTTP/2.0"):
        return Named("http", problem="HTTP/2 without TLS cannot be looked into")
    if not _REQUEST.fullmatch(line.rstrip(b"\r")):
        return Named("other")
    head, end, _ = data.replace(b"\r\n", b"\n").partition(b"\n\n")
    if not end:
        return None if len(data) < EXAMINED_MAX else Named("http", problem="its header fields do not end")
    hosts = [line[5:].strip() for line in head.split(b"\n")[1:] if line[:5].lower() == b"host:"]
    folded = any(line[:1] in (b" ", b"\t") for line in head.split(b"\n"))
    target = head.split(b"\n", 1)[0].split(b" ")[1]
    if target.lower().startswith(b"http://"):
        hosts.append(target[7:].split(b"/", 1)[0].split(b"?", 1)[0])
    if folded or len(set(hosts)) > 1:
        return Named("http", problem="it names more than one Host")
    return Named("http", hosts[0].decode("latin-1") if hosts else "")


class _Short(Exception):
    pass


class _Cursor:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def take(self, count: int) -> bytes:
        if self._at + count > len(self._data):
            raise _Short
        self._at += count
        return self._data[self._at - count : self._at]

    def number(self, size: int) -> int:
        return int.from_bytes(self.take(size), "big")

    def vector(self, size: int) -> _Cursor:
        return _Cursor(self.take(self.number(size)))

    def __bool__(self) -> bool:
        return self._at < len(self._data)


def _tls(data: bytes) -> Named | None:
    """RFC 8446 section 4.1.2; the hello may lie in several records (5.1)."""
    unknown = Named("tls", problem="its first message is no ClientHello")
    if len(data) >= 2 and data[1] != 3:
        return Named("other")
    hello = bytearray()
    records = _Cursor(data)
    try:
        while True:
            kind, _, fragment = records.number(1), records.number(2), records.vector(2)
            if kind != _HANDSHAKE:
                return unknown
            hello += fragment.take(len(fragment._data))
            if hello[:1] and hello[0] != _CLIENT_HELLO:
                return unknown
            if len(hello) >= 4 and len(hello) - 4 >= int.from_bytes(hello[1:4], "big"):
                break
            if len(hello) > EXAMINED_MAX:
                return unknown
    except _Short:
        return None if len(data) < EXAMINED_MAX else unknown
    try:
        return Named("tls", _server_name(_Cursor(bytes(hello[4 : 4 + int.from_bytes(hello[1:4], "big")]))))
    except (_Short, ValueError):
        return unknown


def _server_name(body: _Cursor) -> str:
    body.take(2 + 32)
    body.vector(1)
    body.vector(2)
    body.vector(1)
    if not body:
        return ""
    extensions = body.vector(2)
    names: list[str] = []
    while extensions:
        kind, content = extensions.number(2), extensions.vector(2)
        if kind == _SERVER_NAME:
            entries = content.vector(2)
            while entries:
                name_kind, name = entries.number(1), entries.vector(2)
                if name_kind == 0:
                    names.append(name._data.decode("ascii"))
    if len(names) > 1:
        raise ValueError("more than one name")
    return names[0] if names else ""
