"""The operations on files: each is the supervisor's own program run as the sandbox's user, its output the answer.

Does not cover: what that program does (docs/formats/channel.md, supervisor/*.c).
"""

from __future__ import annotations

import asyncio
import errno
import os
import stat as modes
import struct
from collections.abc import Iterator
from typing import Any

from takeback.errors import (
    DiskFull,
    FileExists,
    FileNotFound,
    FileRefused,
    IsADirectory,
    KeeperGone,
    NotADirectory,
    PermissionDenied,
    TakebackError,
)
from takeback.machines import wire
from takeback.machines.channel.frames import Fields
from takeback.machines.channel.messages import Command, Gap, Output
from takeback.machines.keeper import programs
from takeback.machines.keeper.machine import Life
from takeback.machines.keeper.processes import Following, Processes, Sink
from takeback.machines.keeper.programs import NotStarted
from takeback.machines.keeper.server import Call, Operation
from takeback.machines.lines import Line
from takeback.machines.model import utc

PROGRAM = "/.takeback/init"
_ANSWER = 64 << 20
_SAID = 16 << 10
_LENGTH = struct.Struct("<I")
_TYPES = {"f": "file", "d": "directory", "l": "symlink"}
_PATH, _TYPE, _SIZE, _MODE, _MTIME, _UID, _GID, _TARGET, _OWNER, _GROUP = range(1, 11)


class _Answer(Sink):
    """Keeps what the program says, or passes it on to the caller."""

    def __init__(self, line: Line | None) -> None:
        self._line = line
        self.out = bytearray()
        self.said = bytearray()
        self.lost = False

    def output(self, output: Output) -> None:
        if output.stderr:
            self.said += output.data[: _SAID - len(self.said)]
        elif self._line is not None:
            self._line.write(wire.pack(wire.Type.DATA, output.data))
        elif len(self.out) < _ANSWER:
            self.out += output.data
        else:
            self.lost = True

    def gap(self, gap: Gap, lost: int) -> None:
        self.lost = True  # the caller did not read for a while, and the bytes are gone

    @property
    def full(self) -> bool:
        return self._line is not None and self._line.blocked

    def followed_by(self, following: Following) -> None:
        if self._line is not None:
            self._line.on_writable = following.more


async def _run(
    call: Call, op: str, *words: str, reads: bool = False, writes: bool = False, user: str | None = None
) -> bytes:
    """Run one file operation; `writes` passes its output on, `reads` gives it what the caller sends."""
    async with call.using() as life:
        processes = await life.processes()
        answer = _Answer(call.line if writes else None)
        following = await _start(life, processes, [PROGRAM, "file", op, *words], answer, reads, user)
        feeding = None
        try:
            if reads:
                feeding = asyncio.get_running_loop().create_task(_feed(call.line, processes, following.process))
            ended = await following.end()
        except asyncio.CancelledError:
            processes.signal(following.process, 9)  # the caller has gone; a file half written is a temporary one
            raise
        finally:
            if feeding is not None:
                feeding.cancel()
        processes.forget(following.process)
        if ended.status != 0:
            raise error_of(bytes(answer.said), str(call.request["path"]))
        if answer.lost:
            raise FileRefused(path=call.request["path"], why="too much for one answer, or read too slowly")
        return bytes(answer.out)


async def _start(
    life: Life, processes: Processes, argv: list[str], sink: Sink, reads: bool, user: str | None
) -> Following:
    account = programs.account_of(life.record, user)
    command = Command(
        argv=argv, env={"PATH": "/usr/bin:/bin"}, cwd="/", uid=account.uid, gid=account.gid,
        groups=account.groups or (account.gid,), stdin=reads, session=True,
    )  # fmt: skip
    try:
        return await processes.start(command, sink)
    except NotStarted as failure:
        raise failure.error(life.record.id) from None


async def _feed(line: Line, processes: Processes, process: int) -> None:
    try:
        while True:
            frame = await line.receive()
            if frame is None:
                return
            if frame[0] == wire.Type.EOF:
                await processes.write(process, b"", eof=True)
                return
            await processes.write(process, frame[1])
    except TakebackError:
        pass  # the program has ended, and says why


def error_of(said: bytes, path: str) -> TakebackError:
    """Return the error in a line `ERRNO PATH`."""
    line = said.decode("utf-8", "surrogateescape").strip().splitlines()[-1:] or [""]
    number, _, where = line[0].partition(" ")
    where = where or path
    if not number.isdigit():
        return FileRefused(path=path, why=line[0] or "the file program ended without a word")
    match int(number):
        case errno.ENOENT:
            return FileNotFound(path=where)
        case errno.EISDIR:
            return IsADirectory(path=where)
        case errno.ENOTDIR:
            return NotADirectory(path=where)
        case errno.EEXIST:
            return FileExists(path=where)
        case errno.EACCES | errno.EPERM | errno.EROFS:
            return PermissionDenied(path=where)
        case errno.ENOSPC | errno.EDQUOT:
            return DiskFull(path=f"the sandbox ({where})")
    return FileRefused(path=where, why=os.strerror(int(number)))


def records(raw: bytes) -> Iterator[dict[str, Any]]:
    """Give the stat records in an answer as callers see them."""
    at = 0
    while at < len(raw):
        (length,) = _LENGTH.unpack_from(raw, at)
        at += _LENGTH.size
        yield _record(Fields(raw[at : at + length]))
        at += length


def _record(fields: Fields) -> dict[str, Any]:
    path = fields.text(_PATH)
    kind = fields.text(_TYPE)
    record: dict[str, Any] = {
        "name": path.rstrip("/").rsplit("/", 1)[-1] or "/",
        "path": path,
        "type": _TYPES.get(kind, "other"),
        "size": fields.number(_SIZE),
        "mode": f"{modes.S_IMODE(fields.number(_MODE)):04o}",
        "modifiedAt": utc(fields.number(_MTIME)),
        "mtimeNs": fields.number(_MTIME),
        "uid": fields.number(_UID),
        "gid": fields.number(_GID),
        "owner": fields.text(_OWNER),
        "group": fields.text(_GROUP),
    }
    if _TARGET in fields:
        record["symlinkTarget"] = fields.text(_TARGET)
    return record


async def read(call: Call) -> dict[str, Any]:
    await _run(call, "read", call.request["path"], writes=True)
    return {}


async def write(call: Call) -> dict[str, Any]:
    asked = call.request
    await _run(call, "write", asked["path"], str(int(asked["size"])), asked.get("mode") or "-", reads=True)
    return {}


async def listing(call: Call) -> list[dict[str, Any]]:
    """Return what is below a folder, with whole paths."""
    top = call.request["path"].rstrip("/")
    raw = await _run(call, "list", call.request["path"], str(int(call.request["depth"])))
    found = list(records(raw))
    for record in found:
        if not record["path"].startswith("/"):
            record["path"] = f"{top}/{record['path']}"
    return found


async def stat(call: Call) -> dict[str, Any]:
    found = next(records(await _run(call, "stat", call.request["path"])), None)
    if found is None:
        raise KeeperGone(what="stat")
    return {**found, "path": call.request["path"]}


async def mkdir(call: Call) -> dict[str, Any]:
    await _run(call, "mkdir", call.request["path"], "1" if call.request["parents"] else "0")
    return {}


async def remove(call: Call) -> dict[str, Any]:
    said = await _run(call, "remove", call.request["path"], "1" if call.request["recursive"] else "0")
    return {"removed": said.strip() == b"1"}


async def rename(call: Call) -> dict[str, Any]:
    await _run(call, "rename", call.request["path"], call.request["to"], "1" if call.request["overwrite"] else "0")
    return {}


async def chmod(call: Call) -> dict[str, Any]:
    await _run(call, "chmod", call.request["path"], call.request["mode"])
    return {}


async def pack(call: Call) -> dict[str, Any]:
    await _run(call, "pack", call.request["path"], *call.request.get("exclude", ()), writes=True)
    return {}


async def unpack(call: Call) -> dict[str, Any]:
    await _run(call, "unpack", call.request["path"], reads=True)
    return {}


OPERATIONS = {
    f"file-{name}": Operation(handler)
    for name, handler in {
        "read": read,
        "write": write,
        "list": listing,
        "stat": stat,
        "mkdir": mkdir,
        "remove": remove,
        "rename": rename,
        "chmod": chmod,
        "pack": pack,
        "unpack": unpack,
    }.items()
}
