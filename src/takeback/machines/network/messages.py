"""HTTP/1 heads, read strictly (RFC 9112): what two readers could understand in two ways is refused.

Does not cover: bodies and connections (`http`).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

HEAD_MAX = 64 * 1024
_FIELDS_MAX = 256
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_VALUE = re.compile(r"[^\x00-\x08\x0a-\x1f\x7f]*")
_TARGET = re.compile(r"[\x21-\x7e]+")
# RFC 9110 section 7.6.1, with what clients say to proxies only. Upgrade: a websocket is asked for through CONNECT.
_HOP_BY_HOP = {
    *("connection", "keep-alive", "proxy-connection", "proxy-authorization", "proxy-authenticate"),
    *("te", "trailer", "transfer-encoding", "upgrade", "http2-settings"),
}

Fields = list[tuple[str, str]]


class BadMessage(ValueError):
    """A head that is malformed or could be read in two ways."""


@dataclass(frozen=True)
class Framing:
    """How long a body is: `length` bytes, or in chunks, or (neither) up to the end of the connection."""

    length: int | None = None
    chunked: bool = False

    @property
    def empty(self) -> bool:
        return self.length == 0


@dataclass(frozen=True)
class Request:
    method: str
    target: str
    minor: int  # HTTP/1.minor
    fields: Fields
    body: Framing
    keep: bool  # the client wants the connection to stay open

    def all(self, name: str) -> list[str]:
        return _all(self.fields, name)


@dataclass(frozen=True)
class Response:
    status: int
    reason: str
    fields: Fields
    body: Framing


def read_request(head: bytes) -> Request:
    """Read a request's head, which ends in an empty line. Raises BadMessage."""
    line, fields = _split(head)
    words = line.split(" ")
    if len(words) != 3 or not _TOKEN.fullmatch(words[0]) or not _TARGET.fullmatch(words[1]):
        raise BadMessage("the request line is malformed")
    if words[2] not in ("HTTP/1.0", "HTTP/1.1"):
        raise BadMessage("only HTTP/1.0 and HTTP/1.1 are spoken here")
    minor = int(words[2][-1])
    hosts = _all(fields, "host")
    if len(hosts) > 1 or (minor == 1 and not hosts):
        raise BadMessage("exactly one Host is wanted")
    chunked, length = _chunked(fields), _length(fields)
    if chunked and (length is not None or minor == 0):
        raise BadMessage("Transfer-Encoding together with Content-Length, or in HTTP/1.0")
    body = Framing(chunked=True) if chunked else Framing(length or 0)
    options = _options(fields)
    keep = minor == 1 and "close" not in options
    return Request(words[0], words[1], minor, fields, body, keep)


def read_response(head: bytes, method: str) -> Response:
    """Read the head of the response to a `method` request. Raises BadMessage."""
    line, fields = _split(head)
    match = re.fullmatch(r"HTTP/1\.[01] ([1-5][0-9][0-9])(?: (.*))?", line)
    if match is None:
        raise BadMessage("the status line is malformed")
    status = int(match[1])
    if method == "HEAD" or status < 200 or status in (204, 304):
        return Response(status, match[2] or "", fields, Framing(0))
    length = _length(fields)
    if _chunked(fields):
        if length is not None:
            raise BadMessage("Transfer-Encoding together with Content-Length")
        return Response(status, match[2] or "", fields, Framing(chunked=True))
    return Response(status, match[2] or "", fields, Framing(length))


def end_to_end(fields: Fields, *also: str) -> Fields:
    """Return the fields that go on, without those of one connection and those named in `also`."""
    drop = _HOP_BY_HOP | _options(fields) | set(also)
    return [(name, value) for name, value in fields if name.lower() not in drop]


def write_head(line: str, fields: Fields) -> bytes:
    return "".join([f"{line}\r\n", *(f"{name}: {value}\r\n" for name, value in fields), "\r\n"]).encode("latin-1")


def _split(head: bytes) -> tuple[str, Fields]:
    text = head.decode("latin-1")
    if not text.endswith("\r\n\r\n") or "\n" in text.replace("\r\n", "") or "\r" in text.replace("\r\n", ""):
        raise BadMessage("lines end in CR LF")
    line, *rest = text[:-4].split("\r\n")
    if len(rest) > _FIELDS_MAX:
        raise BadMessage(f"more than {_FIELDS_MAX} header fields")
    fields: Fields = []
    for one in rest:
        name, colon, value = one.partition(":")
        if not colon or not _TOKEN.fullmatch(name):
            raise BadMessage("a header field is malformed")
        value = value.strip(" \t")
        if not _VALUE.fullmatch(value):
            raise BadMessage(f"the value of {name} has control characters")
        fields.append((name, value))
    if not _VALUE.fullmatch(line):
        raise BadMessage("the first line has control characters")
    return line, fields


def _all(fields: Fields, name: str) -> list[str]:
    return [value for found, value in fields if found.lower() == name]


def _options(fields: Fields) -> set[str]:
    said = _all(fields, "connection") + _all(fields, "proxy-connection")
    named = {word.strip().lower() for value in said for word in value.split(",") if word.strip()}
    return named - {"host", "content-length", "content-type"}  # nobody may take away what frames or addresses a message


def _length(fields: Fields) -> int | None:
    values = _all(fields, "content-length")
    if not values:
        return None
    if len(values) > 1 or not re.fullmatch(r"[0-9]{1,18}", values[0]):
        raise BadMessage("Content-Length is not one number")
    return int(values[0])


def _chunked(fields: Fields) -> bool:
    values = _all(fields, "transfer-encoding")
    if values and [value.lower() for value in values] != ["chunked"]:
        raise BadMessage("the only Transfer-Encoding is chunked")
    return bool(values)
