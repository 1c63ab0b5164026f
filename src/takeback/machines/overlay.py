"""Compare two stacks of overlay folders by walking only the layers in which they differ.

    before   base  L1  L2  U         `base L1 L2` is shared: a path that neither U nor (N, V) names is the same
    after    base  L1  L2  N  V

Whiteouts (character device 0/0) and opaque folders are the kernel's:
https://docs.kernel.org/filesystems/overlayfs.html. Does not cover: redirected folders and metadata-only copies, which
`host.mounts` does not switch on.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from takeback.machines.changes import Changes, Entry, is_excluded

_OPAQUE = (b"trusted.overlay.opaque", b"user.overlay.opaque")
_READ = 1 << 20


@dataclass(frozen=True, slots=True)
class _Place:
    """One folder or file on one side.

    `folders` are the parts of a folder, top first; with `open` the shared ones go on below them. `file` is where an
    entry that is no folder lies.
    """

    entry: Entry | None = None
    folders: tuple[bytes, ...] = ()
    open: bool = False
    file: bytes = b""
    inode: tuple[int, int] = (0, 0)


def compare(before: Sequence[Path], after: Sequence[Path]) -> Changes:
    """Return what differs between two stacks of folders, each lowest first and beginning with its base.

    A file of the same size and time is taken for the same; of another time its content decides.
    """
    shared = 0
    while shared < min(len(before), len(after)) and before[shared] == after[shared]:
        shared += 1
    walk = _Walk()
    base = _stack(before[:shared])
    walk.folder(b"", _side(before[shared:]), _side(after[shared:]), base)
    return walk.changes


def _stack(layers: Sequence[Path]) -> tuple[bytes, ...]:
    """Return folders top first, down to one that hides what is below it."""
    folders: list[bytes] = []
    for layer in reversed(layers):
        folders.append(os.fsencode(layer))
        if _is_opaque(folders[-1]):
            break
    return tuple(folders)


def _side(layers: Sequence[Path]) -> _Place:
    folders = _stack(layers)
    return _Place(folders=folders, open=not (folders and len(folders) < len(layers)))


class _Walk:
    def __init__(self) -> None:
        self.changes = Changes()

    def folder(self, path: bytes, before: _Place, after: _Place, shared: tuple[bytes, ...]) -> None:
        """Compare one folder of both sides; `shared` are its parts in the layers that both have, top first."""
        names: set[bytes] = set()
        for part in (*before.folders, *after.folders, *(shared if before.open != after.open else ())):
            names.update(_names(part))
        for name in names:
            where = path + b"/" + name
            if is_excluded(where):
                continue
            below: _Place | None = None  # in the shared layers, looked up when a side needs it
            places = []
            for side in (before, after):
                found, falls = _look(side.folders, name)
                if falls and side.open:
                    below = _look(shared, name)[0] if below is None else below
                    found = _joined(found, below)
                places.append(found)
            old, new = places
            self._entry(where, old, new)
            if old.folders or new.folders or old.open != new.open:
                parts = below.folders if below is not None else ()
                self.folder(where, old, new, parts)

    def _entry(self, path: bytes, old: _Place, new: _Place) -> None:
        if old.entry is None or new.entry is None:
            if old.entry is not None or new.entry is not None:
                self.changes.note(path, old.entry, new.entry)
        elif not old.entry.alike(new.entry) or not _same_content(old, new):
            self.changes.note(path, old.entry, new.entry)


def _look(parts: tuple[bytes, ...], name: bytes) -> tuple[_Place, bool]:
    """Find a name in the parts of a folder; the second says whether what lies below them shows too."""
    entry: Entry | None = None
    folders: list[bytes] = []
    for part in parts:
        full = part + b"/" + name
        try:
            found = os.lstat(full)
        except OSError:
            continue
        if not stat.S_ISDIR(found.st_mode):
            if folders or (stat.S_ISCHR(found.st_mode) and found.st_rdev == 0):
                return _Place(entry, tuple(folders)), False
            target = os.fsdecode(os.readlink(full)) if stat.S_ISLNK(found.st_mode) else ""
            return _Place(Entry.of(found, target), file=full, inode=(found.st_dev, found.st_ino)), False
        entry = entry or Entry.of(found)
        folders.append(full)
        if _is_opaque(full):
            return _Place(entry, tuple(folders)), False
    return _Place(entry, tuple(folders)), True


def _joined(above: _Place, below: _Place) -> _Place:
    """Return what shows when nothing above hides what is in the shared layers."""
    if above.entry is None:
        # All of it is shared: nothing of its own, and what is below shows as it is.
        return _Place(below.entry, (), bool(below.folders), below.file, below.inode)
    return _Place(above.entry, above.folders, bool(below.folders))


def _same_content(old: _Place, new: _Place) -> bool:
    assert old.entry is not None and new.entry is not None
    if old.entry.type != "file" or old.inode == new.inode or old.entry.mtime_ns == new.entry.mtime_ns:
        return True
    try:
        with open(old.file, "rb") as left, open(new.file, "rb") as right:
            while True:
                one, other = left.read(_READ), right.read(_READ)
                if one != other:
                    return False
                if not one:
                    return True
    except OSError:
        return False  # gone while we looked


def _names(folder: bytes) -> list[bytes]:
    try:
        return os.listdir(folder)
    except OSError:
        return []


def _is_opaque(folder: bytes) -> bool:
    for name in _OPAQUE:
        try:
            if os.getxattr(folder, name) == b"y":
                return True
        except OSError:
            continue
    return False
