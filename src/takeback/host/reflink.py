"""Copies that share their blocks with the original until one of them changes (btrfs, XFS, bcachefs, ...).

Does not cover: the ordinary copy when this one cannot be made. Nor macOS, where a clone is a new name
(`fclonefileat`) and cannot fill a file that is already open: there `clone` is False.
"""

from __future__ import annotations

import errno
import fcntl
import io
import os
import platform
import sys

# linux/fs.h: FICLONE = _IOW(0x94, 9, int); these processors keep the direction in other bits of the number.
_FICLONE = 0x80049409 if platform.machine().startswith(("mips", "ppc", "sparc", "alpha")) else 0x40049409
# ioctl_ficlone(2): how a filesystem says that these two files cannot share blocks.
_CANNOT = {
    errno.EOPNOTSUPP,
    errno.ENOTTY,
    errno.ENOSYS,
    errno.EXDEV,
    errno.EINVAL,
    errno.EPERM,
    errno.ETXTBSY,
}
_PROBE = b"\0" * 4096


def clone(src_fd: int, dst_fd: int) -> bool:
    """Make the empty file open for writing as `dst_fd` share all bytes of `src_fd`; False when that cannot be.

    Owner, mode and times are not copied. Raises OSError for anything but "cannot", such as a full disk.
    """
    if sys.platform != "linux":
        return False
    try:
        fcntl.ioctl(dst_fd, _FICLONE, src_fd)
    except OSError as error:
        if error.errno in _CANNOT:
            return False
        raise
    return True


def supported(dir_a: bytes, dir_b: bytes) -> bool:
    """Whether a file in `dir_a` can be cloned into `dir_b`: tried with two nameless files, so nothing is seen there.

    Costs some system calls; keep the answer. False also where the probe cannot be made.
    """
    if sys.platform != "linux":
        return False
    try:
        with _nameless(dir_a) as source, _nameless(dir_b) as target:
            source.write(_PROBE)
            return clone(source.fileno(), target.fileno())
    except OSError:
        return False


def _nameless(directory: bytes) -> io.FileIO:
    # O_TMPFILE makes no directory entry, so the directory's mtime stays and a dead probe leaves nothing behind.
    return io.FileIO(os.open(directory, os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, 0o600), "r+")
