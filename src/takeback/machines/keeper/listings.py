"""Listings of a sandbox with its disk in memory: what may differ from its base, and which folders are the base's.

    base (on the host)         inside
    /usr      ctime 7   ---    /usr      ctime 7      never copied up, so nothing below was changed: not looked into
    /etc      ctime 7   -x-    /etc      ctime 9      its names are listed, and each of its folders compared like this
                               /new      ctime 9      no such folder in the base: all of it is listed

The engine keeps changes in an overlay over the base, and copies a folder up before anything in it. A folder that was
copied up has a ctime of its own (nobody can set one), the others show the base's.

    sandboxes/ID/born-MACHINE.json      what was there before a trial; belongs to one machine, not to its successor

Does not cover: comparing two (`machines.changes`).
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import astuple, dataclass, field
from pathlib import Path

from takeback.machines.changes import EXCLUDED, Entry
from takeback.machines.channel.link import Link
from takeback.machines.channel.messages import Command
from takeback.machines.keeper.files import answer_of, entries, error_of
from takeback.machines.keeper.machine import Life
from takeback.machines.keeper.programs import FILES, ROOT

_DEEP = 1 << 20
_TOP = b"/"
_WORDS = 256 << 10  # bytes of paths in one question; a message may have a megabyte


@dataclass
class Listing:
    """The files of one state: `entries`, and in `as_base` the folders that hold what those of `base` hold.

    Nothing below a folder in `as_base` is in `entries`. `hidden` is never looked at.
    """

    base: bytes
    hidden: frozenset[bytes]
    entries: dict[bytes, Entry] = field(default_factory=dict)
    as_base: set[bytes] = field(default_factory=set)

    @classmethod
    def of(cls, life: Life) -> Listing:
        """Return an empty one."""
        found = life.record.base
        masked = (os.fsencode(path) for path in found.masked)
        return cls(os.fsencode(found.root).rstrip(b"/"), EXCLUDED.union(masked))

    def add(self, path: bytes, entry: Entry) -> bool:
        """Note one; whether it is a folder to be looked into."""
        if path in self.hidden:
            return False
        self.entries[path] = entry
        return entry.type == "directory"

    def open(self, folder: bytes) -> None:
        """Put the names of a folder that is as the base's into `entries`."""
        self.as_base.discard(folder)
        with suppress(OSError), os.scandir(self.base + folder) as found:
            for one in found:
                with suppress(OSError):  # of a base that is somebody's own it went just now
                    target = os.fsdecode(os.readlink(one.path)) if one.is_symlink() else ""
                    path = folder.rstrip(b"/") + b"/" + one.name
                    if self.add(path, Entry.of(one.stat(follow_symlinks=False), target)):
                        self.as_base.add(path)


async def inside(life: Life) -> Listing:
    """List a running sandbox as root. Raises what a call into it raises."""
    link = await life.link()
    listing = Listing.of(life)
    mounted = tuple(os.fsencode(path) for path in life.record.base.scratch)
    level, whole = [_TOP], []
    while level:
        found, level = await _list(link, level, 1), []
        for path, entry, ctime in found:
            if not listing.add(path, entry):
                continue
            there = _ctime_of_folder(listing.base + path)
            if there is None:
                whole.append(path)
            elif there == ctime and not any(place.startswith(path + b"/") for place in mounted):
                listing.as_base.add(path)
            else:
                level.append(path)
    below = tuple(path + b"/" for path in listing.hidden)
    for path, entry, _ in await _list(link, whole, _DEEP):
        if not path.startswith(below):
            listing.add(path, entry)
    return listing


def of_base(life: Life) -> Listing:
    """Return what a sandbox has that is just made of its image."""
    listing = Listing.of(life)
    listing.as_base.add(_TOP)
    return listing


def alike(one: Listing, other: Listing) -> tuple[dict[bytes, Entry], dict[bytes, Entry]]:
    """Return the entries of both, without what is the same because both have it of one base."""
    while True:
        same = one.as_base & other.as_base if one.base == other.base else set()
        todo = [(side, folder) for side in (one, other) for folder in side.as_base - same]
        if not todo:
            return one.entries, other.entries
        for side, folder in todo:
            side.open(folder)


def keep(life: Life, folder: Path, listing: Listing) -> None:
    """Write a listing down as what this machine began with."""
    named = {os.fsdecode(path): astuple(entry) for path, entry in listing.entries.items()}
    noted = {"entries": named, "as_base": [os.fsdecode(path) for path in sorted(listing.as_base)]}
    _place(life, folder).write_text(json.dumps(noted))


def kept(life: Life, folder: Path) -> Listing | None:
    """Return what this machine began with, if it was written down."""
    listing = Listing.of(life)
    try:
        noted = json.loads(_place(life, folder).read_bytes())
        listing.entries = {os.fsencode(path): Entry(*fields) for path, fields in noted["entries"].items()}
        listing.as_base = {os.fsencode(path) for path in noted["as_base"]}
    except (OSError, ValueError, KeyError):
        return None
    return listing


def _place(life: Life, folder: Path) -> Path:
    return folder / f"born-{life.machine.id}.json"


def _ctime_of_folder(path: bytes) -> int | None:
    """Return when a folder of the base was changed last, in nanoseconds; None when it is none."""
    try:
        found = os.lstat(path)
    except OSError:
        return None
    return found.st_ctime_ns if stat.S_ISDIR(found.st_mode) else None


async def _list(link: Link, folders: Iterable[bytes], depth: int) -> list[tuple[bytes, Entry, int]]:
    found: list[tuple[bytes, Entry, int]] = []
    for words in _portions([os.fsdecode(folder) for folder in folders]):
        argv = [FILES, "file", "list-each", *words, str(depth)]
        answer, said, ended = await answer_of(link, Command(argv=argv, uid=0, gid=0, groups=(ROOT.gid,)))
        if ended.status != 0:
            raise error_of(said, words[0])
        found += entries(answer)
    return found


def _portions(words: list[str]) -> Iterable[list[str]]:
    portion: list[str] = []
    size = 0
    for word in words:
        if portion and size + len(word) > _WORDS:
            yield portion
            portion, size = [], 0
        portion.append(word)
        size += len(word) + 8
    if portion:
        yield portion
