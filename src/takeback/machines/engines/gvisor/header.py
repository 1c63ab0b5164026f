"""The engine's own header of a snapshot folder: what wrote it, for which spec, and whether its files are still whole.

    `TKBKSNAP` | u32 format | u32 length of the JSON | 32 bytes blake2b of the JSON | JSON        (little endian)

Each file is listed with its size, a CRC-32 of every 16 MiB, and where it lay (inode and times). A file that still lies
there, untouched, in the boot it was written in, is not read again: whoever cuts or changes it changes its times. In
every other case all of it is read before anything is started.

Does not cover: names, labels and what the keeper knows of a snapshot (`snapshot.json`).
"""

from __future__ import annotations

import hashlib
import json
import os
import struct
import zlib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from takeback.errors import SnapshotDamaged
from takeback.host import atomic
from takeback.machines.engines.gvisor import checks
from takeback.machines.engines.gvisor.lower import Lower

FILE = "engine.snap"
MAGIC = b"TKBKSNAP"
FORMAT = 1
_HEAD = struct.Struct("<8sII32s")
_CAP = 4 << 20
_CHUNK = 16 << 20
_READ = 1 << 20
_READERS = 2


@dataclass(frozen=True)
class File:
    """One file: `sums` are CRC-32 of its 16 MiB chunks, empty when it was only meant to live for moments."""

    name: str
    size: int
    sums: tuple[int, ...]
    place: tuple[int, int, int, int]  # device, inode, mtime and ctime in ns


@dataclass(frozen=True)
class Header:
    """What is known of a snapshot."""

    engine: str
    version: str
    platform: str
    overlay: str
    digest: str
    memory: bool
    boot: str
    paused_s: float
    files: tuple[File, ...]
    layers: tuple[str, ...] = ()  # names, lowest first
    summaries: tuple[str, ...] = ()  # of what was in each of the layers; none of one that only lived for moments
    lower: tuple[Lower, ...] = ()  # what it has open of its base (MEMORY only)

    def problem(self, folder: Path) -> str:
        """Return what is wrong with its files in words, or an empty text."""
        for file in self.files:
            try:
                found = os.stat(folder / file.name)
            except OSError as error:
                return f"{file.name}: {error.strerror}"
            if found.st_size != file.size:
                return f"{file.name} has {found.st_size} of {file.size} bytes"
            if self.boot == checks.boot_id() and _place(found) == file.place:
                continue
            if not file.sums and file.size:
                return f"{file.name} is not the file that was written"
            try:
                sums = checksums(folder / file.name)
            except OSError as error:
                return f"{file.name}: {error.strerror}"
            if sums != file.sums:
                return f"{file.name} does not have the content that was written"
        return ""


def describe(path: Path, *, lasting: bool) -> File:
    """Return the entry of one file; it is read when it is to last: a link to it is enough to change its times."""
    sums = checksums(path) if lasting else ()
    found = os.stat(path)
    return File(path.name, found.st_size, sums, _place(found))


def checksums(path: Path) -> tuple[int, ...]:
    """Return the CRC-32 of every 16 MiB of a file. Raises OSError."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        starts = range(0, os.fstat(fd).st_size, _CHUNK)
        if len(starts) < 2:
            return tuple(_sum(fd, start) for start in starts)
        with ThreadPoolExecutor(_READERS) as readers:
            return tuple(readers.map(lambda start: _sum(fd, start), starts))
    finally:
        os.close(fd)


def _sum(fd: int, start: int) -> int:
    value = 0
    for offset in range(start, start + _CHUNK, _READ):
        data = os.pread(fd, _READ, offset)
        value = zlib.crc32(data, value)
        if len(data) < _READ:
            break
    return value


def _place(found: os.stat_result) -> tuple[int, int, int, int]:
    return found.st_dev, found.st_ino, found.st_mtime_ns, found.st_ctime_ns


def write(folder: Path, header: Header, *, durable: bool) -> None:
    """Write the header, last of all files. Raises OSError."""
    text = json.dumps(asdict(header)).encode()
    head = _HEAD.pack(MAGIC, FORMAT, len(text), hashlib.blake2b(text, digest_size=32).digest())
    atomic.write_bytes(folder / FILE, head + text, durable=durable)


def read(folder: Path) -> Header:
    """Return the header of a snapshot folder. Raises SnapshotDamaged."""
    try:
        with open(folder / FILE, "rb") as file:
            head = file.read(_HEAD.size)
            if len(head) < _HEAD.size:
                raise ValueError("its header is cut")
            magic, number, length, digest = _HEAD.unpack(head)
            if magic != MAGIC:
                raise ValueError("its header is none")
            if number != FORMAT:
                raise ValueError(f"its header has format {number}, this takeback knows {FORMAT}")
            if length > _CAP:
                raise ValueError(f"its header says it is {length} bytes long")
            text = file.read(length + 1)
        if len(text) != length or hashlib.blake2b(text, digest_size=32).digest() != digest:
            raise ValueError("its header is cut or changed")
        return _header(json.loads(text))
    except OSError as error:
        raise SnapshotDamaged(snapshot=folder.name, why=f"its header cannot be read: {error.strerror}") from error
    except (ValueError, KeyError, TypeError) as error:
        raise SnapshotDamaged(snapshot=folder.name, why=str(error)) from error


def _header(data: dict[str, Any]) -> Header:
    files: Sequence[dict[str, Any]] = data.pop("files")
    layers, summaries = tuple(data.pop("layers")), tuple(data.pop("summaries", ()))
    lower = tuple(Lower(one["path"], tuple(one["place"])) for one in data.pop("lower", ()))
    entries = []
    for file in files:
        device, inode, modified, changed = file["place"]
        if "/" in file["name"]:
            raise ValueError("its header names a file elsewhere")
        entries.append(File(file["name"], file["size"], tuple(file["sums"]), (device, inode, modified, changed)))
    return Header(**data, files=tuple(entries), layers=layers, summaries=summaries, lower=lower)
