"""Room set aside in the data directory, for what must write before it can free any: `gc` on a disk that is full.

    DATA/reserve     1 MiB of nothing, made by whatever works in a project while there is plenty of room

Does not cover: what is done with the room.
"""

from __future__ import annotations

import errno
import os
from pathlib import Path

SIZE = 1 << 20
_PLENTY = 16  # made where so many times its size are free


def keep(data: Path) -> None:
    """See that there is a reserve; without room for it, or with a disk that takes no writes, there is none."""
    path = data / "reserve"
    try:
        if os.stat(path).st_size == SIZE:
            return
    except FileNotFoundError:
        pass
    except OSError:
        return
    try:
        if _free(data) < _PLENTY * SIZE:
            return
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            os.posix_fallocate(fd, 0, SIZE)
        finally:
            os.close(fd)
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            give_up(data)  # half of one would be taken for none


def give_up(data: Path) -> None:
    """Free the reserve."""
    try:
        os.unlink(data / "reserve")
    except OSError:
        pass


def needed(data: Path) -> bool:
    """Whether the disk has so little room left that work would begin to fail."""
    return _free(data) < SIZE


def _free(data: Path) -> int:
    disk = os.statvfs(data)
    return disk.f_bavail * disk.f_frsize
