"""Frames, messages and fields of docs/formats/channel.md as bytes: encoding and decoding, nothing else.

Does not cover: what the messages mean (`messages`), or moving them (`link`).
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from enum import IntEnum, IntFlag

FRAME_MAX = 4096
HEADER = 8
PAYLOAD_MAX = FRAME_MAX - HEADER
MESSAGE_MAX = 1 << 20
NONCE = 16

_HEADER = struct.Struct("<BBHI")
_FIELD = struct.Struct("<BI")
_U64 = struct.Struct("<Q")

Value = int | bytes
Frame = tuple[int, int, int, bytes]  # type, flags, id, payload


class Flag(IntFlag):
    MORE = 1
    EOF = 2
    STDERR = 4
    FOLLOW = 8


class Type(IntEnum):
    ATTACH = 1
    SPAWN = 2
    STDIN = 3
    SIGNAL = 4
    RESIZE = 5
    FOLLOW = 6
    CREDIT = 7
    UNFOLLOW = 8
    LIST = 9
    FORGET = 10
    QUIESCE = 11
    GO = 12
    PING = 13
    IDENTITY = 14
    SHUTDOWN = 15
    LISTEN = 32
    DIAL = 33
    BYTES = 34
    TAKEN = 35
    HANGUP = 36
    ATTACHED = 65
    STARTED = 66
    FAILED = 67
    OUTPUT = 68
    GAP = 69
    ENDED = 70
    ACCEPTED = 71
    PROCESS = 72
    QUIET = 73
    PONG = 74
    IDENTIFIED = 75
    ERROR = 76
    ACCEPTED_CONNECTION = 96
    GUEST_BYTES = 97
    GUEST_TAKEN = 98
    GUEST_HANGUP = 99
    DIALLED = 100


class Tag(IntEnum):
    ARG = 1
    CWD = 2
    UID = 3
    GID = 4
    GROUP = 5
    ENV = 6
    TIMEOUT_MS = 7
    STDIN = 8
    PTY = 9
    SESSION = 10
    FOLLOWER = 11
    CREDIT = 12
    SIGNO = 13
    EVERYTHING = 14
    COLS = 15
    ROWS = 16
    PROCESS = 17
    CURSOR = 18
    TOTAL = 19
    GENERATION = 20
    MACHINE_ID = 21
    HOSTNAME = 22
    SEED = 23
    GRACE_MS = 24
    VERSION = 25
    UPTIME_MS = 26
    PID = 27
    ERRNO = 28
    STAGE = 29
    PATH = 30
    RESUME_AT = 31
    STATUS = 32
    TIMED_OUT = 33
    DURATION_MS = 34
    STATE = 35
    STARTED_MS = 36
    ENDED_MS = 37
    FIRST = 38
    STDIN_OPEN = 39
    STDIN_TOTAL = 40
    WALL_NS = 41
    MONOTONIC_NS = 42
    TEXT = 43
    PORT = 44


class Malformed(ValueError):
    """Bytes that are no frame or no fields."""


def encode_frame(kind: int, ident: int, payload: bytes = b"", flags: int = 0) -> bytes:
    """Return one frame. Raises Malformed when the payload is over PAYLOAD_MAX bytes."""
    if len(payload) > PAYLOAD_MAX:
        raise Malformed(f"a payload of {len(payload)} bytes")
    return _HEADER.pack(kind, flags, len(payload), ident) + payload


def encode_message(kind: int, ident: int, body: bytes = b"") -> list[bytes]:
    """Return the frames of a message, all but the last with MORE. Raises Malformed over MESSAGE_MAX bytes."""
    if len(body) > MESSAGE_MAX:
        raise Malformed(f"a message of {len(body)} bytes")
    if len(body) <= PAYLOAD_MAX:
        return [encode_frame(kind, ident, body)]
    parts = [body[at : at + PAYLOAD_MAX] for at in range(0, len(body), PAYLOAD_MAX)]
    return [
        encode_frame(kind, ident, part, Flag.MORE if number < len(parts) - 1 else 0)
        for number, part in enumerate(parts)
    ]


def encode_fields(fields: Iterable[tuple[int, Value]]) -> bytes:
    """Return a body of fields; integers are u64."""
    parts: list[bytes] = []
    for tag, value in fields:
        data = _U64.pack(value) if isinstance(value, int) else value
        parts.append(_FIELD.pack(tag, len(data)))
        parts.append(data)
    return b"".join(parts)


class Fields:
    """The fields of a body by tag; unknown tags are kept and not asked for. Raises Malformed."""

    def __init__(self, body: bytes) -> None:
        self._values: dict[int, list[bytes]] = {}
        at = 0
        while at < len(body):
            if len(body) - at < _FIELD.size:
                raise Malformed("half a field")
            tag, length = _FIELD.unpack_from(body, at)
            at += _FIELD.size
            if length > len(body) - at:
                raise Malformed("a field longer than its body")
            self._values.setdefault(tag, []).append(body[at : at + length])
            at += length

    def number(self, tag: int, otherwise: int = 0) -> int:
        found = self._values.get(tag)
        if found is None:
            return otherwise
        if len(found[0]) != _U64.size:
            raise Malformed(f"field {tag} is no number")
        return int(_U64.unpack(found[0])[0])

    def all(self, tag: int) -> list[bytes]:
        return self._values.get(tag, [])

    def data(self, tag: int, otherwise: bytes = b"") -> bytes:
        found = self._values.get(tag)
        return found[0] if found else otherwise

    def text(self, tag: int, otherwise: str = "") -> str:
        found = self._values.get(tag)
        return found[0].decode(errors="surrogateescape") if found else otherwise

    def __contains__(self, tag: int) -> bool:
        return tag in self._values


class FrameReader:
    """Cuts a stream of bytes into frames."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Iterator[Frame]:
        """Return the frames that are whole now. Raises Malformed when the stream makes no sense."""
        buffer = self._buffer
        buffer += data
        at = 0
        end = len(buffer)
        try:
            while end - at >= HEADER:
                kind, flags, length, ident = _HEADER.unpack_from(buffer, at)
                if length > PAYLOAD_MAX:
                    raise Malformed(f"a frame of {length} bytes")
                stop = at + HEADER + length
                if stop > end:
                    break
                payload = bytes(buffer[at + HEADER : stop])
                at = stop
                yield kind, flags, ident, payload
        finally:
            del buffer[:at]


class AttachFinder:
    """Skips what an earlier host left unread, up to the answer to our own ATTACH."""

    def __init__(self, nonce: bytes) -> None:
        self._nonce = nonce
        self._tail = b""

    def feed(self, data: bytes) -> bytes | None:
        """Return the stream from ATTACHED on once it has come."""
        self._tail += data
        at = self._tail.find(self._nonce, HEADER)
        while at >= 0:
            kind, _, length, _ = _HEADER.unpack_from(self._tail, at - HEADER)
            if kind == Type.ATTACHED and NONCE <= length <= PAYLOAD_MAX:
                return self._tail[at - HEADER :]
            at = self._tail.find(self._nonce, at + 1)
        self._tail = self._tail[-(HEADER + NONCE) :]
        return None
