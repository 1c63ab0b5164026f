"""What keeper and client say to each other: frames on a unix socket, one request a connection.

    u32 length of what follows the type | u8 type | payload          little endian

    client: JSON request, then DATA* EOF where the operation takes input, or further JSON (resize, ...)
    keeper: HELLO (its version; nothing has run before it), JSON events, DATA or STDOUT and STDERR (u64 offset | bytes),
            and at the end one JSON with `ok` or `error`

Does not cover: sockets (`host.unix`), or what the operations mean (`keeper`, `client`).
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from enum import IntEnum
from typing import Any

from takeback.errors import Damaged, TakebackError, all_errors

PROTOCOL = 1
CHUNK = 256 * 1024  # what is put into one DATA frame
MAX_JSON = 64 << 20
MAX_DATA = 1 << 20
_HEADER = struct.Struct("<IB")
_OFFSET = struct.Struct("<Q")


class Type(IntEnum):
    """What a frame carries."""

    HELLO = 0
    JSON = 1
    DATA = 2
    EOF = 3
    STDOUT = 4
    STDERR = 5


Frame = tuple[int, bytes]


def pack(type: int, payload: bytes = b"") -> bytes:
    """Return one frame."""
    return _HEADER.pack(len(payload), type) + payload


def pack_json(document: Mapping[str, Any]) -> bytes:
    """Return one JSON frame; text with lone surrogates (names that are not UTF-8) goes as it is."""
    return pack(Type.JSON, json.dumps(document, separators=(",", ":")).encode())


def pack_output(stderr: bool, offset: int, data: bytes) -> bytes:
    """Return one frame of output; `offset` counts the bytes of both streams together."""
    header = _HEADER.pack(len(data) + _OFFSET.size, Type.STDERR if stderr else Type.STDOUT)
    return header + _OFFSET.pack(offset) + data


def unpack_output(payload: bytes) -> tuple[int, bytes]:
    """Return offset and bytes of a STDOUT or STDERR frame."""
    return _OFFSET.unpack_from(payload)[0], payload[_OFFSET.size :]


def unpack_json(payload: bytes) -> dict[str, Any]:
    """Return the object in a JSON frame. Raises Damaged."""
    try:
        document = json.loads(payload)
    except ValueError as error:
        raise _damaged("not JSON") from error
    if not isinstance(document, dict):
        raise _damaged("not a JSON object")
    return document


class Parser:
    """Cuts what arrives into frames; holds at most one unfinished frame."""

    def __init__(self) -> None:
        self._held = bytearray()

    def feed(self, data: bytes | bytearray | memoryview) -> list[Frame]:
        """Return the frames that are complete now. Raises Damaged on a type or size that cannot be."""
        held = self._held
        held += data
        frames: list[Frame] = []
        at, end = 0, len(held)
        while end - at >= _HEADER.size:
            length, type = _HEADER.unpack_from(held, at)
            if type > Type.STDERR or length > (MAX_JSON if type == Type.JSON else MAX_DATA + _OFFSET.size):
                raise _damaged(f"a frame of type {type} and {length} bytes")
            if end - at - _HEADER.size < length:
                break
            at += _HEADER.size
            frames.append((type, bytes(memoryview(held)[at : at + length])))
            at += length
        if at:
            del held[:at]
        return frames


def pack_error(error: TakebackError) -> bytes:
    """Return the last frame of an operation that failed."""
    fields = {name: value if _plain(value) else str(value) for name, value in error.fields.items()}
    return pack_json({"error": {"kind": error.kind, "fields": fields, "message": str(error)}})


def unpack_error(document: Mapping[str, Any]) -> TakebackError:
    """Return the error as it was raised at the other end."""
    for cls in all_errors():
        if cls.kind == document.get("kind"):
            try:
                return cls(**document["fields"])
            except (KeyError, IndexError, ValueError, TypeError):
                break
    return TakebackError(detail=str(document.get("message", "an error without a text")))


def _plain(value: object) -> bool:
    return value is None or isinstance(value, bool | int | float | str)


def _damaged(detail: str) -> Damaged:
    return Damaged(what="what the keeper and this program say", detail=detail, next="repeat the call")
