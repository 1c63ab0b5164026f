"""The operations on files: each is the supervisor's own program run as the sandbox's user, its output the answer.

Does not cover: what that program does (docs/formats/channel.md, supervisor/*.c).
"""

from __future__ import annotations

import asyncio
import errno
import os
import signal
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
from takeback.machines.changes import Entry
from takeback.machines.channel.flows import Following
from takeback.machines.channel.frames import Fields
from takeback.machines.channel.link import Link
from takeback.machines.channel.messages import Command, Ended, Gap
from takeback.machines.keeper import programs
from takeback.machines.keeper.processes import feed
from takeback.machines.keeper.server import Call, Operation
from takeback.machines.lines import Line
from takeback.machines.model import utc

_ANSWER = 64 << 20
_SAID = 16 << 10
_LENGTH = struct.Struct("<I")
_TYPES = {"f": "file", "d": "directory", "l": "symlink"}
_PATH, _TYPE, _SIZE, _MODE, _MTIME, _UID, _GID, _TARGET, _OWNER, _GROUP, _CTIME = range(1, 12)


async def _run(call: Call, op: str, *words: str, reads: bool = False, writes: bool = False) -> bytes:
    """Run one file operation; `reads` gives it what the caller sends, `writes` passes its output on."""
    async with call.using() as life:
        link = await life.link()
        account = programs.account_of(life.record, call.request.get("user"))
        command = Command(
            argv=[programs.FILES, "file", op, *words], uid=account.uid, gid=account.gid,
            groups=account.groups or (account.gid,), stdin=reads,
        )  # fmt: skip
        started = await link.spawn(command)
        assert started.output is not None
        feeding = None
        try:
            if reads:
                feeding = asyncio.get_running_loop().create_task(_feed(call.line, link, started.id))
            answer, said, ended = await gathered(started.output, call.line if writes else None)
        except asyncio.CancelledError:
            # The caller has gone; what is half written has a temporary name.
            call.keeper.background(_kill(link, started.id))
            raise
        finally:
            started.output.close()
            if feeding is not None:
                feeding.cancel()
        call.keeper.background(_forget(link, started.id))
        if ended.status != 0:
            raise error_of(said, str(call.request["path"]))
        return answer


async def answer_of(link: Link, command: Command) -> tuple[bytes, bytes, Ended]:
    """Run a file program to its end; return what it answered, what it complained of, and its end."""
    started = await link.spawn(command)
    assert started.output is not None
    try:
        return await gathered(started.output, None)
    finally:
        started.output.close()
        await _forget(link, started.id)


async def gathered(output: Following, line: Line | None) -> tuple[bytes, bytes, Ended]:
    """Return what the program answered (or pass it on), what it complained of, and its end."""
    answer, said = bytearray(), bytearray()
    async for told in output:
        if isinstance(told, Ended):
            return bytes(answer), bytes(said), told
        if isinstance(told, Gap):
            raise FileRefused(path="the answer", why="it was read too slowly, and bytes are lost; repeat")
        if told.stderr:
            said += told.data[: _SAID - len(said)]
        elif line is not None:
            await line.send(wire.pack(wire.Type.DATA, told.data))
        elif len(answer) < _ANSWER:
            answer += told.data
        else:
            raise FileRefused(path="the answer", why="it is too large for one; name less")
    raise asyncio.CancelledError


async def _feed(line: Line, link: Link, process: int) -> None:
    try:
        await feed(line, link, process, eof=True)
    except TakebackError:
        pass  # the program has ended, and says why


async def _kill(link: Link, process: int) -> None:
    try:
        await link.signal(process, signal.SIGKILL)
    except TakebackError:
        pass


async def _forget(link: Link, process: int) -> None:
    """Keep the places of ended processes for commands, whose output may still be asked for."""
    try:
        await link.forget(process)
    except TakebackError:
        pass


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
    for fields in _fields(raw):
        yield _record(fields)


def entries(raw: bytes) -> Iterator[tuple[bytes, Entry, int]]:
    """Give path, entry and ctime in nanoseconds of the stat records in an answer."""
    for fields in _fields(raw):
        kind = _TYPES.get(fields.text(_TYPE), "other")
        size = fields.number(_SIZE) if kind == "file" else 0
        mode, target = modes.S_IMODE(fields.number(_MODE)), fields.text(_TARGET)
        found = Entry(kind, size, mode, fields.number(_UID), fields.number(_GID), fields.number(_MTIME), target)
        yield fields.data(_PATH), found, fields.number(_CTIME)


def _fields(raw: bytes) -> Iterator[Fields]:
    at = 0
    while at < len(raw):
        (length,) = _LENGTH.unpack_from(raw, at)
        at += _LENGTH.size
        yield Fields(raw[at : at + length])
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
