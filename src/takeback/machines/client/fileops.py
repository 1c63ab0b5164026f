"""Operations on the files of a sandbox: requests, streams of bytes, and trees as tar.

Does not cover: how they look to the caller (`files`, `aio`).
"""

from __future__ import annotations

import fnmatch
import gzip
import io
import os
import tarfile
import tempfile
import zlib
from collections.abc import Callable, Generator, Iterable, Sequence
from pathlib import Path
from typing import IO, Any

from takeback.errors import CannotRead, CannotWrite, FileNotFound, InvalidRequest
from takeback.machines import wire
from takeback.machines.client.commands import Data, raw_of, send_all
from takeback.machines.client.operations import first
from takeback.machines.client.steps import RECEIVE, Give, Op, Run, Send, ask, begin, document
from takeback.machines.client.unpacking import unpack

Sink = Callable[[bytes], Any]
Local = str | os.PathLike[str]
DEEP = 64
_USER = "sandbox"
_QUICK = 1  # of gzip: it travels within this machine


def absolute(path: str) -> str:
    """Return the path if it can be one of the sandbox. Raises InvalidRequest."""
    if not isinstance(path, str) or not path.startswith("/") or "\0" in path:
        raise InvalidRequest(detail=f"{path!r} is no absolute path", next="paths in a sandbox begin with /")
    return path


def read(sandbox: str, path: str) -> Op[bytes]:
    """Return the bytes of a file."""
    whole = bytearray()
    yield from _receive(_request("read", sandbox, path), lambda data: _add(whole, data))
    return bytes(whole)


def read_stream(sandbox: str, path: str) -> Op[None]:
    """Give the bytes of a file in pieces."""
    yield from _receive(_request("read", sandbox, path), _give)


def write(sandbox: str, path: str, data: Data, mode: int | str | None) -> Op[dict[str, Any]]:
    """Replace a file at once, making its folders. Raises InvalidRequest for a mode that is none, TypeError for data."""
    raw = raw_of(data)
    yield from begin(_request("write", sandbox, path, size=len(raw), mode=as_mode(mode)))
    yield from send_all(raw)
    document((yield RECEIVE), "write")
    return {"path": path, "size": len(raw)}


def listing(
    sandbox: str, path: str, depth: int | None, glob: str | None, hidden: bool | None, limit: int | None
) -> Op[list[dict[str, Any]]]:
    """Return the entries below a folder, sorted by name within each, parents first."""
    entries: list[dict[str, Any]] = yield from ask(_request("list", sandbox, path, depth=1 if depth is None else depth))
    top = path.rstrip("/") + "/"
    found = [
        entry
        for entry in entries
        if (hidden is not False or not any(part.startswith(".") for part in entry["path"].removeprefix(top).split("/")))
        and (glob is None or matches(entry["path"].removeprefix(top), glob))
    ]
    return first(found, limit)


def matches(path: str, pattern: str) -> bool:
    """Whether a path below the folder fits: `*` within a name, `**` over folders, without a `/` any name."""
    if "/" not in pattern:
        return fnmatch.fnmatchcase(path.rsplit("/", 1)[-1], pattern)
    return _parts(path.split("/"), pattern.strip("/").split("/"))


def _parts(names: Sequence[str], patterns: Sequence[str]) -> bool:
    if not patterns:
        return not names
    if patterns[0] == "**":
        return any(_parts(names[at:], patterns[1:]) for at in range(len(names) + 1))
    return bool(names) and fnmatch.fnmatchcase(names[0], patterns[0]) and _parts(names[1:], patterns[1:])


def stat(sandbox: str, path: str, user: str = _USER) -> Op[dict[str, Any]]:
    """Return what a path is; `{"exists": False}` when there is nothing."""
    try:
        answer: dict[str, Any] = yield from ask(_request("stat", sandbox, path, user=user))
    except FileNotFound:
        return {"exists": False}
    return {"exists": True, **answer}


def simple(op: str, sandbox: str, path: str, **fields: Any) -> Op[Any]:
    """Make a folder, remove, rename, change a mode: one request and a small answer."""
    answer = yield from ask(_request(op, sandbox, path, **fields))
    return answer


def download(sandbox: str, path: str, to: Local, user: str) -> Op[None]:
    """Copy a file or a whole folder out of the sandbox; a file appears whole or not at all."""
    target = Path(to)
    found = yield from stat(sandbox, path, user)
    if not found["exists"]:
        raise FileNotFound(path=path)
    if found["type"] == "directory":
        # To disk and not to memory: a folder may be of any size.
        with tempfile.TemporaryFile() as held:
            yield from _receive(_request("pack", sandbox, path, user=user), lambda data: _put(held, data))
            held.seek(0)
            yield Run(unpack, (held, target), blocking=True)
        return
    if target.is_dir():
        target = target / path.rstrip("/").rsplit("/", 1)[-1]
    if target.exists() and not target.is_file():
        # A device, a FIFO: to write into, as cp(1) does, and never to put a file in the place of.
        try:
            opened = yield Run(open, (target, "wb", 0), blocking=True)
        except OSError as error:
            raise CannotWrite(path=target, why=error.strerror, next="name a file") from error
        with opened as special:
            yield from _receive(_request("read", sandbox, path, user=user), lambda data: _put(special, data))
        return
    try:
        fd, temp = tempfile.mkstemp(prefix=".tmp-", dir=target.parent)
    except OSError as error:
        raise CannotWrite(path=target, why=error.strerror, next="make its folder first") from error
    try:
        with os.fdopen(fd, "wb") as file:
            yield from _receive(_request("read", sandbox, path, user=user), lambda data: _put(file, data))
            mask = os.umask(0o077)
            os.umask(mask)
            os.fchmod(file.fileno(), int(found["mode"], 8) & 0o777 & ~mask)
        os.replace(temp, target)
    except BaseException:
        os.unlink(temp)
        raise


def upload(sandbox: str, source: Local, path: str, user: str) -> Op[None]:
    """Copy a file or a whole folder into the sandbox."""
    try:
        if os.path.isdir(source):
            with tempfile.TemporaryFile() as held:
                yield Run(_pack, (source, held), blocking=True)
                yield from begin(_request("unpack", sandbox, path, user=user))
                held.seek(0)
                yield from _send_file(held)
            return
        with open(source, "rb") as file:
            status = os.fstat(file.fileno())
            mode = f"{status.st_mode & 0o777:o}"
            yield from begin(_request("write", sandbox, path, size=status.st_size, mode=mode, user=user))
            yield from _send_file(file)
    except OSError as error:
        raise CannotRead(path=source, why=error.strerror) from error


def archive(sandbox: str, path: str, compressed: bool, user: str, exclude: Sequence[str] | None) -> Op[bytes]:
    """Return a folder as a tar stream."""
    whole = bytearray()
    request = _request("pack", sandbox, path, exclude=list(exclude or ()), user=user)
    yield from _receive(request, lambda data: _add(whole, data))
    if not compressed:
        return bytes(whole)
    packed: bytes = yield Run(gzip.compress, (bytes(whole), _QUICK), blocking=True)
    return packed


def unarchive(sandbox: str, path: str, data: bytes, compressed: bool | None, user: str) -> Op[None]:
    """Unpack a tar stream below a folder; nothing is ever written outside it. Raises InvalidRequest for no gzip."""
    if compressed or (compressed is None and data[:2] == b"\x1f\x8b"):
        try:
            data = yield Run(gzip.decompress, (data,), blocking=True)
        except (OSError, EOFError, zlib.error) as error:
            raise InvalidRequest(detail=f"the archive is no gzip: {error}", next="leave `gzip` out") from error
    yield from begin(_request("unpack", sandbox, path, user=user))
    yield from send_all(data)
    document((yield RECEIVE), "unpack")


def as_mode(mode: int | str | None) -> str | None:
    """Return a mode as octal digits; 493, "755" and "0755" are the same. Raises InvalidRequest."""
    if mode is None:
        return None
    digits = f"{mode:o}" if isinstance(mode, int) and not isinstance(mode, bool) else mode
    if not isinstance(digits, str) or not digits or len(digits) > 5 or set(digits) - set("01234567"):
        raise InvalidRequest(detail=f"{mode!r} is no file mode", next='say 0o755 or "755"')
    return digits


def _pack(source: Local, held: IO[bytes]) -> None:
    with tarfile.open(fileobj=held, mode="w|", format=tarfile.PAX_FORMAT) as tar:
        tar.add(source, arcname=".", filter=_anonymous)


def _anonymous(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    return member


def _request(op: str, sandbox: str, path: str, **fields: Any) -> dict[str, Any]:
    return {"op": f"file-{op}", "sandbox": sandbox, "path": absolute(path), **fields}


def _receive(request: dict[str, Any], sink: Callable[[bytes], Iterable[Any]]) -> Generator[Any, Any, Any]:
    yield from begin(request)
    while True:
        frame = yield RECEIVE
        if frame is not None and frame[0] == wire.Type.DATA:
            yield from sink(frame[1])
            continue
        return document(frame, request["op"])["ok"]


def _send_file(file: IO[bytes]) -> Op[None]:
    while data := (yield Run(file.read, (wire.CHUNK,), blocking=True)):
        yield Send(wire.pack(wire.Type.DATA, data))
    yield Send(wire.pack(wire.Type.EOF))
    document((yield RECEIVE), "upload")


def _give(data: bytes) -> Op[None]:
    yield Give(data)


def _add(whole: bytearray, data: bytes) -> tuple[()]:
    whole += data
    return ()


def _put(file: IO[bytes] | io.BufferedWriter, data: bytes) -> Op[None]:
    yield Run(file.write, (data,), blocking=True)
