"""Files that nobody may change, replace or delete, root included.

Source: ioctl_iflags(2). The `chattr` program is not on every machine.
"""

from __future__ import annotations

import array
import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager

_GET, _SET, _IMMUTABLE = 0x80086601, 0x40086602, 0x10


def _set(path: str, on: bool) -> None:
    fd = os.open(path, os.O_RDONLY)
    try:
        flags = array.array("l", [0])
        fcntl.ioctl(fd, _GET, flags)
        flags[0] = flags[0] | _IMMUTABLE if on else flags[0] & ~_IMMUTABLE
        fcntl.ioctl(fd, _SET, flags)
    finally:
        os.close(fd)


@contextmanager
def immutable(path: str | os.PathLike[str]) -> Iterator[bool]:
    """Make a file immutable for a while; gives False where the filesystem or the account has no such files."""
    try:
        _set(os.fspath(path), True)
    except OSError:
        yield False
        return
    try:
        yield True
    finally:
        _set(os.fspath(path), False)
