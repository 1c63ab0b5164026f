"""Mount and unmount: overlays, by the system calls that take any number of layers (fsconfig(2), since Linux 6.5), and
parts of other folders. A detached mount is a descriptor: it is seen nowhere until it is attached, and goes with it.

Does not cover: what lies in them (`machines.engines.gvisor.disk` and `view`).
"""

from __future__ import annotations

import ctypes
import os
import struct
from collections.abc import Sequence
from pathlib import Path

# The same on x86-64 and arm64 (asm-generic/unistd.h), but for one that is older.
_PIVOT_ROOT = 155 if os.uname().machine == "x86_64" else 41
_OPEN_TREE, _OPEN_TREE_CLONE = 428, 1
_MOVE_MOUNT, _FSOPEN, _FSCONFIG, _FSMOUNT, _MOUNT_SETATTR = 429, 430, 431, 432, 442
_MS_NOSUID, _MS_NODEV, _MS_BIND, _MS_REC, _MS_UNBINDABLE = 0x2, 0x4, 0x1000, 0x4000, 1 << 17
_RECURSIVE, _READ_ONLY = 0x8000, 0x1
_FSOPEN_CLOEXEC = _FSMOUNT_CLOEXEC = 1
_SET_FLAG, _SET_STRING, _CREATE = 0, 1, 6
_NOSUID, _NODEV, _NOATIME = 0x2, 0x4, 0x10
_FROM_EMPTY_PATH, _TO_EMPTY_PATH = 0x4, 0x40
_CLONE_FS, _CLONE_NEWNS = 0x200, 0x20000
_DETACH, _NOFOLLOW = 2, 8
_STRING_CAP = 250  # fsconfig(2) takes strings of less than 256 bytes
_HERE = -100
_libc = ctypes.CDLL(None, use_errno=True)


def overlay(lower: Sequence[Path], upper: Path, work: Path, point: Path, *, user: bool) -> None:
    """Mount an overlay at `point`; see `overlay_tree`. Raises OSError."""
    tree = overlay_tree(lower, upper, work, user=user)
    try:
        _call(_MOVE_MOUNT, tree, b"", _HERE, os.fsencode(point), _FROM_EMPTY_PATH)
    finally:
        os.close(tree)


def overlay_tree(lower: Sequence[Path], upper: Path, work: Path, *, user: bool) -> int:
    """Return an overlay as a detached mount; `lower` top first, at most 500. `user`: in a user namespace, with user.*
    attributes.

    Nothing done in it waits for the disk, fsync(2) included, and `upper` with `work` can be mounted only this once.
    Whoever wants the files to last calls `sync_filesystem` on what `upper` lies on. Raises OSError, with the kernel's
    words where it gives some.
    """
    opened: list[int] = []

    def short(path: Path) -> str:
        text = os.fspath(path)
        if len(os.fsencode(text)) < _STRING_CAP:
            return text
        opened.append(os.open(path, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC))
        return f"/proc/self/fd/{opened[-1]}"

    try:
        context = _call(_FSOPEN, b"overlay", _FSOPEN_CLOEXEC)
        opened.append(context)
        if user:
            _option(context, "userxattr")
        for path in lower:
            _option(context, "lowerdir+", short(path))
        _option(context, "upperdir", short(upper))
        _option(context, "workdir", short(work))
        # Some kernels have other defaults. With `index` nothing can be mounted over an upper that is in use still; with
        # the others an upper only says by path what it has of those below, and is of no use over anything else.
        _option(context, "index", "off")
        _option(context, "metacopy", "off")
        _option(context, "redirect_dir", "nofollow" if user else "off")
        # Else unmounting writes out the whole filesystem below, whoever's files wait there, and so does each copy-up.
        _option(context, "volatile")
        _configure(context, _CREATE, None, None)
        # Nothing of it is ever used on the host: what is setuid or a device inside is so only there.
        return _call(_FSMOUNT, context, _FSMOUNT_CLOEXEC, _NOSUID | _NODEV | _NOATIME)
    finally:
        for fd in opened:
            os.close(fd)


def detached(folder: Path) -> int:
    """Return a folder as a detached mount, to be seen elsewhere too. Raises OSError."""
    return _call(_OPEN_TREE, _HERE, os.fsencode(folder), _OPEN_TREE_CLONE | os.O_CLOEXEC)


def attach(tree: int, place: int) -> None:
    """Attach a detached mount at an open folder, in whatever mount namespace that is. Raises OSError."""
    _call(_MOVE_MOUNT, tree, b"", place, b"", _FROM_EMPTY_PATH | _TO_EMPTY_PATH)


def enter(namespace: int) -> None:
    """Let the calling thread alone be in another mount namespace, an open /proc/PID/ns/mnt. Raises OSError."""
    if _libc.unshare(_CLONE_FS) != 0 or _libc.setns(namespace, _CLONE_NEWNS) != 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))


def pivot_here() -> None:
    """Make the working directory, a mount, the root; the old one is then mounted over it. Raises OSError."""
    _call(_PIVOT_ROOT, b".", b".")


def detach_here() -> None:
    """Take away the mount that the working directory is the top of. Raises OSError."""
    if _libc.umount2(b".", _DETACH) != 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))


def _option(context: int, name: str, value: str | None = None) -> None:
    kind = _SET_FLAG if value is None else _SET_STRING
    _configure(context, kind, name.encode(), None if value is None else os.fsencode(value))


def _configure(context: int, command: int, name: bytes | None, value: bytes | None) -> None:
    try:
        _call(_FSCONFIG, context, command, name, value, 0)
    except OSError as error:
        raise OSError(error.errno, _kernels_words(context) or error.strerror) from error


def _kernels_words(context: int) -> str:
    try:
        return os.read(context, 4096).decode("utf-8", "replace").strip()
    except OSError:
        return ""


def _call(number: int, *arguments: int | bytes | None) -> int:
    converted = [ctypes.c_long(one) if isinstance(one, int) else ctypes.c_char_p(one) for one in arguments]
    result = int(_libc.syscall(ctypes.c_long(number), *converted))
    if result < 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))
    return result


def tmpfs(point: Path, *, size: int, mode: int) -> None:
    """Mount an empty filesystem in memory of `size` bytes. Raises OSError."""
    _mount(b"tmpfs", point, b"tmpfs", _MS_NOSUID | _MS_NODEV, f"size={size},mode={mode:o}".encode())


def bind(source: Path, point: Path) -> None:
    """Let a folder or file, with what is mounted in it, be seen at `point` too. Raises OSError."""
    _mount(os.fsencode(source), point, None, _MS_BIND | _MS_REC, None)


def unbindable(point: Path) -> None:
    """Leave a mount, and what is mounted in it, out of every `bind` of a folder that it lies in. Raises OSError."""
    _mount(b"none", point, None, _MS_UNBINDABLE, None)


def read_only(point: Path) -> None:
    """Let nobody write through this mount and those below it (mount_setattr(2), since Linux 5.12). Raises OSError."""
    attributes = struct.pack("=QQQQ", _READ_ONLY | _NOSUID, 0, 0, 0)
    _call(_MOUNT_SETATTR, _HERE, os.fsencode(point), _RECURSIVE, attributes, len(attributes))


def _mount(source: bytes, point: Path, kind: bytes | None, flags: int, options: bytes | None) -> None:
    if _libc.mount(source, os.fsencode(point), kind, ctypes.c_ulong(flags), options) != 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error), os.fspath(point))


def below(folder: Path) -> list[Path]:
    """Return the mount points in and below a folder in this mount namespace, deepest first."""
    top = os.path.realpath(folder)
    found = []
    with open("/proc/self/mountinfo", "rb") as file:
        for line in file:
            # proc(5): space, tab, newline and backslash as octal escapes.
            point = line.split(b" ")[4].decode("unicode_escape").encode("latin-1")
            path = os.fsdecode(point)
            if path == top or path.startswith(top.rstrip("/") + "/"):
                found.append(Path(path))
    return sorted(found, key=lambda path: len(path.parts), reverse=True)


def unmount_below(folder: Path) -> bool:
    """Take away all mounts in and below a folder; True when none is left."""
    for point in below(folder):
        _libc.umount2(os.fsencode(point), _DETACH | _NOFOLLOW)
    return not below(folder)


def sync_filesystem(path: Path) -> None:
    """Write everything of the filesystem of `path` to its disk (syncfs(2)). Raises OSError."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        if _libc.syncfs(fd) != 0:
            error = ctypes.get_errno()
            raise OSError(error, os.strerror(error))
    finally:
        os.close(fd)
