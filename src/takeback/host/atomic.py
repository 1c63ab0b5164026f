"""Write a small file so that readers see the old or the new content, never a part.

Does not cover: files of the user's project (see `files.apply`).
"""

from __future__ import annotations

import errno
import os
import tempfile
from pathlib import Path

_PREFIX = ".tmp-"
_NO_SYNC = (errno.EINVAL, errno.ENOTSUP)


def write_bytes(path: Path, data: bytes, *, durable: bool = True) -> None:
    """Replace `path` by `data` (mode 0600): temp file in the same directory, fsync if `durable`, rename.

    Raises OSError; on error the old file is still there and no temp file is left.
    """
    fd, temp = tempfile.mkstemp(prefix=_PREFIX, dir=path.parent)
    try:
        with os.fdopen(fd, "wb") as file:
            file.write(data)
            file.flush()
            if durable:
                os.fsync(file.fileno())
        os.replace(temp, path)
    except BaseException:
        try:
            os.unlink(temp)
        except FileNotFoundError:
            pass
        raise
    if durable:
        sync_directory(path.parent)


def clear(folder: Path) -> None:
    """Remove the temp files that killed writers left in `folder`; for whoever knows that nobody writes there now."""
    for left in folder.glob(f"{_PREFIX}*"):
        left.unlink(missing_ok=True)


def sync_directory(path: Path) -> None:
    """Make renames in `path` durable, as far as its filesystem can."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    except OSError as error:
        if error.errno not in _NO_SYNC:  # fsync(2): some filesystems sync files but not directories
            raise
    finally:
        os.close(fd)
