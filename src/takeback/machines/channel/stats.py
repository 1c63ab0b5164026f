"""Stat records, the answer of the file operations `stat` and `list`; see docs/formats/channel.md.

Does not cover: running the operations.
"""

from __future__ import annotations

from dataclasses import dataclass

from takeback.machines.channel.frames import Fields, Malformed

_PATH, _TYPE, _SIZE, _MODE, _MTIME_NS, _UID, _GID, _TARGET, _OWNER, _GROUP = range(1, 11)


@dataclass(frozen=True)
class Stat:
    """One file: `type` is one of `f d l c b p s`, `size` in bytes, `target` of a link, names "" when unknown."""

    path: bytes
    type: str
    size: int
    mode: int
    mtime_ns: int
    uid: int
    gid: int
    target: bytes
    owner: str
    group: str


def read_records(data: bytes) -> list[Stat]:
    """Return the records of an answer. Raises Malformed."""
    found = []
    at = 0
    while at < len(data):
        length = int.from_bytes(data[at : at + 4], "little")
        body = data[at + 4 : at + 4 + length]
        if len(body) < length or len(data) - at < 4:
            raise Malformed("half a record")
        at += 4 + length
        fields = Fields(body)
        mtime = fields.number(_MTIME_NS)
        found.append(
            Stat(
                path=fields.data(_PATH),
                type=fields.text(_TYPE),
                size=fields.number(_SIZE),
                mode=fields.number(_MODE),
                mtime_ns=mtime - (1 << 64) if mtime >> 63 else mtime,  # before 1970
                uid=fields.number(_UID),
                gid=fields.number(_GID),
                target=fields.data(_TARGET),
                owner=fields.text(_OWNER),
                group=fields.text(_GROUP),
            )
        )
    return found
