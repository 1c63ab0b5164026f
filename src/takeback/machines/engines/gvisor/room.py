"""Where the files of a save are written, and whether there is room, asked before the machine is touched.

A save is quickest into memory (tmpfs), and the machine stands still meanwhile. So it goes there first when that leaves
plenty, and is moved to its folder when the machine runs again; else straight to its folder.

Does not cover: disk layers (`disk`).
"""

from __future__ import annotations

import os
import shutil
import time
from dataclasses import dataclass
from pathlib import Path

from takeback.errors import CannotSave

_MIB = 1 << 20
# State and page directory beside the pages, and what the machine may still allocate until it stands still.
_MORE, _FACTOR = 32 * _MIB, 1.1
_MEMORY_LEFT = 256 * _MIB
_OF = ".of"  # in each folder in memory: a link to the data directory whose it is
_OLD, _VERY_OLD = 600.0, 86_400.0  # seconds without a change: no save under way stands still for so long
_SHARE = 2  # staging may take one half of what is free
_HINT = "free some room (`takeback sandbox ls`, `takeback du`), or end what uses memory inside, and repeat"


@dataclass(frozen=True)
class Place:
    """Where the files are written first; `lasting` says whether they must be moved on from there."""

    folder: Path
    staged: bool
    in_memory: bool  # the final folder is on tmpfs


def choose(into: Path, scratch: Scratch, used: int) -> Place:
    """Return where to write a machine that has `used` bytes of memory. Raises CannotSave when there is no room."""
    needed = _needed(used)
    in_memory = on_tmpfs(into)
    have = _free(into)
    if have < needed:
        where = "memory" if in_memory else "the disk"
        raise CannotSave(why=f"it needs {_size(needed)} and {where} of {into} has {_size(have)}", next=_HINT)
    staging = None if in_memory or not scratch.fits(used) else scratch.make(f"{into.name}.saving")
    if staging is None:
        return Place(into, staged=False, in_memory=in_memory)
    return Place(staging, staged=True, in_memory=False)


def _needed(used: int) -> int:
    return int(used * _FACTOR) + _MORE


def _free(folder: Path) -> int:
    found = os.statvfs(folder)
    free = found.f_bavail * found.f_frsize
    return min(free, max(available() - _MEMORY_LEFT, 0)) if on_tmpfs(folder) else free


def available() -> int:
    """Return the bytes of memory that can be had without swapping."""
    with open("/proc/meminfo") as file:
        for line in file:
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    return 0


def on_tmpfs(folder: Path) -> bool:
    """Whether what is written there takes memory and is gone after a reboot."""
    best, kind = "", ""
    path = os.path.realpath(folder)
    with open("/proc/self/mountinfo") as file:
        for line in file:
            left, _, right = line.partition(" - ")
            point = left.split(" ")[4]
            if (path == point or path.startswith(point.rstrip("/") + "/")) and len(point) >= len(best):
                best, kind = point, right.split(" ")[0]
    return kind in ("tmpfs", "ramfs")


def copy(source: Path, target: Path) -> None:
    """Copy a file to another filesystem, synced. Raises OSError; a part may be left at `target`."""
    with open(source, "rb") as old, open(target, "xb") as new:
        os.fchmod(new.fileno(), 0o600)
        offset, size = 0, os.fstat(old.fileno()).st_size
        while offset < size:
            sent = os.sendfile(new.fileno(), old.fileno(), offset, min(size - offset, 64 * _MIB))
            if sent == 0:
                break
            offset += sent
        os.fsync(new.fileno())


def own_name(data: Path) -> str:
    """Return a name that only this data directory has on this machine, for what must lie elsewhere."""
    found = os.stat(data)
    return f"takeback-{os.getuid()}-{found.st_dev:x}-{found.st_ino:x}"


class Scratch:
    """A data directory's own folders in memory, all beside each other in /dev/shm so that none is left empty behind."""

    def __init__(self, data: Path) -> None:
        self._place = Path("/dev/shm")
        self._data = data
        self.spill = data / "passing"  # on the disk, for what does not fit
        self._own = own_name(data)

    def make(self, name: str) -> Path | None:
        """Make a folder, None when there is no such place. Raises FileExistsError."""
        if not os.access(self._place, os.W_OK) or not on_tmpfs(self._place):
            return None
        folder = self._place / f"{self._own}.{name}"
        folder.mkdir(mode=0o700)  # whoever else took the name, all may write there: then it is not ours
        os.symlink(os.path.abspath(self._data), folder / _OF)
        return folder

    def is_passing(self, folder: Path) -> bool:
        """Whether a save into a folder is one that nobody wants once its copies are up."""
        return folder.parent in (self._place, self.spill)

    def free(self) -> int:
        """Return the bytes that may be written there; 0 when there is no such place."""
        return _free(self._place) if self._place.is_dir() and on_tmpfs(self._place) else 0

    def fits(self, used: int) -> bool:
        """Whether a machine with `used` bytes of memory may be written there, with plenty left."""
        return self.free() // _SHARE >= _needed(used)

    def all(self) -> list[Path]:
        """Return all folders there are."""
        return sorted(self._place.glob(f"{self._own}.*")) if self._place.is_dir() else []

    def abandoned(self) -> list[Path]:
        """Return the folders of this user's data directories that are gone, which no keeper will ever look after.

        What a killed keeper leaves is removed by the next one of its data directory; somebody may have removed that.
        """
        if not self._place.is_dir():
            return []
        folders = self._place.glob(f"takeback-{os.getuid()}-*")
        return sorted(one for one in folders if one.name.split(".")[0] != self._own and _abandoned(one))


def _abandoned(folder: Path) -> bool:
    try:
        found = os.lstat(folder)
        if found.st_uid != os.getuid() or not os.path.isdir(folder) or os.path.islink(folder):
            return False
        with os.scandir(folder) as entries:
            changed = max((entry.stat(follow_symlinks=False).st_mtime for entry in entries), default=0.0)
        still = time.time() - max(changed, found.st_mtime)
        try:
            data = os.readlink(folder / _OF)
        except FileNotFoundError:
            return still > _VERY_OLD  # begun by a keeper that was killed in that moment, or by an older version
        return still > _OLD and not _is(Path(data), folder.name)
    except OSError:
        return False


def _is(data: Path, name: str) -> bool:
    """Whether a data directory is still there, and still the one that the name was made for."""
    try:
        return name.split(".")[0] == own_name(data)
    except (FileNotFoundError, NotADirectoryError):
        return False


def clear(folder: Path) -> None:
    """Remove a folder and all in it, as far as it can be."""
    shutil.rmtree(folder, ignore_errors=True)


def _size(count: int) -> str:
    return f"{count / (1 << 30):.1f} GiB" if count >= 1 << 30 else f"{count / _MIB:.0f} MiB"
