"""Packs of new objects and their index, as bytes.

Does not cover: reading packs, deltas (git's `repack` makes those). Formats: gitformat-pack, pack and index version 2.
"""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Iterable
from itertools import accumulate

_TYPES = {"commit": 1, "tree": 2, "blob": 3, "tag": 4}


def encode(objects: Iterable[tuple[str, str, bytes]], object_format: str) -> tuple[bytes, bytes, str]:
    """Return (pack, its index, the checksum it is named by) of (name, type, content) records; below 2 GiB in all."""
    records = list(objects)
    pack = bytearray(b"PACK" + (2).to_bytes(4, "big") + len(records).to_bytes(4, "big"))
    found: list[tuple[bytes, int, int]] = []
    for name, kind, content in records:
        at = len(pack)
        pack += _header(_TYPES[kind], len(content)) + zlib.compress(content, 1)
        found.append((bytes.fromhex(name), zlib.crc32(memoryview(pack)[at:]), at))
    checksum = hashlib.new(object_format, pack, usedforsecurity=False).digest()
    pack += checksum
    found.sort()
    counts = [0] * 256
    for raw, _, _ in found:
        counts[raw[0]] += 1
    index = b"".join(
        [
            b"\377tOc" + (2).to_bytes(4, "big"),
            *(count.to_bytes(4, "big") for count in accumulate(counts)),
            *(raw for raw, _, _ in found),
            *(crc.to_bytes(4, "big") for _, crc, _ in found),
            *(at.to_bytes(4, "big") for _, _, at in found),
            checksum,
        ]
    )
    index += hashlib.new(object_format, index, usedforsecurity=False).digest()
    return bytes(pack), index, checksum.hex()


def _header(kind: int, size: int) -> bytes:
    byte = (kind << 4) | (size & 15)
    size >>= 4
    out = bytearray()
    while size:
        out.append(byte | 0x80)
        byte = size & 0x7F
        size >>= 7
    out.append(byte)
    return bytes(out)
