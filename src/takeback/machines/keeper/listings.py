"""Listings of all files of a sandbox: taken inside, from an image's folder, or kept for later.

    sandboxes/ID/born-MACHINE.json      what was there before a trial; belongs to one machine, not to its successor

Does not cover: comparing them (`machines.changes`).
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import astuple
from pathlib import Path
from typing import Any

from takeback.machines.changes import Entry, is_excluded, without_excluded
from takeback.machines.channel.link import Link
from takeback.machines.channel.messages import Command
from takeback.machines.keeper.files import answer_of, error_of, records
from takeback.machines.keeper.machine import Life
from takeback.machines.keeper.programs import FILES, ROOT

Listing = dict[bytes, Entry]
_DEEP = 1 << 20


async def inside(life: Life) -> Listing:
    """List all files of a running sandbox as root. Raises what a call into it raises."""
    link = await life.link()
    found: list[tuple[bytes, Entry]] = []
    for top in await _list(link, "/", 1):
        path = os.fsencode(f"/{top['path'].lstrip('/')}")
        if is_excluded(path):
            continue
        found.append((path, _entry(top)))
        if top["type"] == "directory":
            for record in await _list(link, os.fsdecode(path), _DEEP):
                found.append((path + b"/" + os.fsencode(record["path"]), _entry(record)))
    return without_excluded(found)


def of_folder(root: Path) -> Listing:
    """List an image's folder on this machine."""
    return without_excluded(_walk(os.fsencode(root), b""))


def keep(life: Life, folder: Path, listing: Listing) -> None:
    """Write a listing down as what this machine began with."""
    named = {os.fsdecode(path): astuple(entry) for path, entry in listing.items()}
    _place(life, folder).write_text(json.dumps(named))


def kept(life: Life, folder: Path) -> Listing | None:
    """Return what this machine began with, if it was written down."""
    try:
        named = json.loads(_place(life, folder).read_bytes())
    except (OSError, ValueError):
        return None
    return {os.fsencode(path): Entry(*fields) for path, fields in named.items()}


def _place(life: Life, folder: Path) -> Path:
    return folder / f"born-{life.machine.id}.json"


async def _list(link: Link, path: str, depth: int) -> list[dict[str, Any]]:
    command = Command(argv=[FILES, "file", "list", path, str(depth)], uid=0, gid=0, groups=(ROOT.gid,))
    answer, said, ended = await answer_of(link, command)
    if ended.status != 0:
        raise error_of(said, path)
    return list(records(answer))


def _entry(record: dict[str, Any]) -> Entry:
    size = record["size"] if record["type"] == "file" else 0
    mode = int(record["mode"], 8)
    target = record.get("symlinkTarget", "")
    return Entry(record["type"], size, mode, record["uid"], record["gid"], record["mtimeNs"], target)


def _walk(root: bytes, below: bytes) -> Iterator[tuple[bytes, Entry]]:
    with os.scandir(root + below) as entries:
        for entry in entries:
            path = below + b"/" + entry.name
            if is_excluded(path):
                continue
            target = os.fsdecode(os.readlink(entry.path)) if entry.is_symlink() else ""
            yield path, Entry.of(entry.stat(follow_symlinks=False), target)
            if entry.is_dir(follow_symlinks=False):
                yield from _walk(root, path)
