"""Subvolumes of btrfs: made, copied in one step, destroyed.

Does not cover: any other filesystem. Source of the numbers: linux/btrfs.h.
"""

from __future__ import annotations

import fcntl
import os
import struct
from pathlib import Path

_CREATE, _SNAPSHOT, _DESTROY = 0x50009418, 0x50009417, 0x5000940F
_READ_ONLY = 2
_ROOT_INODE = 256
_V2 = struct.Struct("=qQQ32x4040s")
_V1 = struct.Struct("=q4088s")


def is_subvolume(path: Path) -> bool:
    """Whether a folder is a subvolume: its root has a fixed inode number."""
    try:
        return os.stat(path).st_ino == _ROOT_INODE and path.is_dir()
    except OSError:
        return False


def create(path: Path) -> None:
    """Make an empty subvolume. Raises OSError, also when this is no btrfs."""
    _call(path.parent, _CREATE, _V2.pack(0, 0, 0, os.fsencode(path.name)))


def snapshot(source: Path, target: Path) -> None:
    """Make a read-only copy of a subvolume, however big it is. Raises OSError."""
    fd = os.open(source, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        _call(target.parent, _SNAPSHOT, _V2.pack(fd, 0, _READ_ONLY, os.fsencode(target.name)))
    finally:
        os.close(fd)


def destroy(path: Path) -> None:
    """Remove a subvolume and all in it. Raises OSError."""
    _call(path.parent, _DESTROY, _V1.pack(0, os.fsencode(path.name)))


def _call(folder: Path, request: int, argument: bytes) -> None:
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.ioctl(fd, request, bytearray(argument), True)
    finally:
        os.close(fd)
