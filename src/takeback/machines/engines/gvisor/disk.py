"""Disk layers: the changed files of a machine of the disk kind LAYERS, on the host.

    layers/NAME/upper    the changed files, as the kernel's overlay keeps them
    layers/NAME/work     the overlay's own

A layer is born as the upper of one machine. It becomes a lower of others when it is frozen: nobody writes to it any
more. Where it lies never changes, so a machine that runs on it is not disturbed by whoever else does.

Does not cover: when a layer is frozen (`snapshots`), the disk kind MEMORY, which the engine keeps itself.
"""

from __future__ import annotations

import errno
import os
import secrets
import shutil
import stat
from collections.abc import Sequence
from pathlib import Path

from takeback.errors import EngineFailed
from takeback.host import btrfs, mounts
from takeback.machines.engines.gvisor import frozen

# overlay refuses more than 500 lower folders; the base is one of them.
LAYERS_CAP, LAYERS_MERGED = 480, 240
# Up to here copying what a machine changed is quicker than replacing the machine.
_SMALL_FILES, _SMALL_BYTES = 300, 8 << 20
_OPAQUE = ("trusted.overlay.opaque", "user.overlay.opaque")


class Disks:
    """The folder of all layers."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._user = not _initial_namespace()
        self._mountable: str | None = None
        self._summaries: dict[str, str] = {}  # of frozen layers

    def problem(self) -> str:
        """Return why layers do not work here, or an empty text; tried once."""
        if self._mountable is None:
            probe = self.folder / f".probe-{secrets.token_hex(4)}"
            try:
                for name in ("lower", "upper", "work", "point"):
                    (probe / name).mkdir(parents=True)
                mounts.overlay([probe / "lower"], probe / "upper", probe / "work", probe / "point", user=self._user)
                self._mountable = ""
            except OSError as error:
                self._mountable = f"no overlay can be mounted in {self.folder}: {error.strerror}"
            finally:
                mounts.unmount_below(probe)
                shutil.rmtree(probe, ignore_errors=True)
        return self._mountable

    def place(self, name: str) -> Path:
        """Return the folder of one layer."""
        return self.folder / name

    def summaries(self, names: Sequence[str]) -> tuple[str, ...]:
        """Return what is in frozen layers, each looked through once; empty for one that cannot be."""
        for name in names:
            if name not in self._summaries:
                try:
                    self._summaries[name] = frozen.summary(self.place(name) / "upper")[0]
                except OSError:
                    self._summaries[name] = ""
        return tuple(self._summaries[name] for name in names)

    def spoiled(self, names: Sequence[str], summaries: Sequence[str]) -> str:
        """Return in words which layer is gone, or not what it was when it was frozen; else an empty text.

        The newest are looked through first, as many as can be in a moment.
        """
        for name in names:
            if not (self.place(name) / "upper").is_dir():
                return f"disk layer {name} is gone"
        looked_at = 0
        for name, wanted in reversed(list(zip(names, summaries, strict=False))):
            if not wanted or looked_at >= frozen.LIMIT:
                continue
            try:
                found, count = frozen.summary(self.place(name) / "upper")
            except OSError as error:
                return f"disk layer {name} cannot be read: {error.strerror}"
            if found != wanted:
                return f"disk layer {name} is not what was saved: files in it were changed, added or removed since"
            self._summaries[name] = wanted
            looked_at += count
        return ""

    def new(self) -> str:
        """Make a layer to be written to and return its name. Raises EngineFailed."""
        name = secrets.token_hex(8)
        folder = self.place(name)
        try:
            try:
                btrfs.create(folder)
            except OSError:
                folder.mkdir()
            folder.chmod(0o700)
            (folder / "upper").mkdir(mode=0o755)
            (folder / "upper").chmod(0o755)  # it is the root folder inside, whatever the umask says
            (folder / "work").mkdir(mode=0o700)
        except OSError as error:
            self.drop(name)
            raise EngineFailed(what="make a disk layer", why=str(error)) from error
        return name

    def mount(self, base: Path, layers: Sequence[str], upper: str, point: Path) -> Path:
        """Mount a machine's root folder; `layers` lowest first. Raises EngineFailed."""
        try:
            point.mkdir(mode=0o700, exist_ok=True)
            mounts.overlay(self._lower(base, layers), *self._written(upper), point, user=self._user)
        except OSError as error:
            raise EngineFailed(what="mount its disk", why=str(error)) from error
        return point

    def tree(self, base: Path, layers: Sequence[str], upper: str) -> int:
        """Return a machine's root folder as a detached mount (`host.mounts`). Raises OSError."""
        return mounts.overlay_tree(self._lower(base, layers), *self._written(upper), user=self._user)

    def _lower(self, base: Path, layers: Sequence[str]) -> list[Path]:
        return [*(self.place(name) / "upper" for name in reversed(layers)), base]

    def _written(self, upper: str) -> tuple[Path, Path]:
        return self.place(upper) / "upper", self.place(upper) / "work"

    def copies_at_once(self, name: str) -> bool:
        """Whether `copy` of this layer takes no time: its folder is a subvolume, or there is next to nothing in it."""
        return btrfs.is_subvolume(self.place(name)) or _is_small(self.place(name) / "upper")

    def copy(self, name: str) -> str:
        """Make a frozen copy of a layer that nobody writes to just now and return its name. Raises OSError."""
        made = secrets.token_hex(8)
        source, target = self.place(name), self.place(made)
        try:
            if btrfs.is_subvolume(source):
                btrfs.snapshot(source, target)
            else:
                target.mkdir(mode=0o700)
                _copy_tree(source / "upper", target / "upper", {})
        except BaseException:
            self.drop(made)
            raise
        return made

    def merged(self, layers: Sequence[str]) -> tuple[str, ...]:
        """Return `layers` as they are, or with the lowest ones folded into a new one when they are too many."""
        if len(layers) < LAYERS_CAP:
            return tuple(layers)
        made = secrets.token_hex(8)
        try:
            (self.place(made) / "upper").mkdir(parents=True)
            for name in layers[:LAYERS_MERGED]:
                _fold(self.place(name) / "upper", self.place(made) / "upper")
        except BaseException:
            self.drop(made)
            raise
        return (made, *layers[LAYERS_MERGED:])

    def used(self, name: str) -> int:
        """Return the bytes a layer takes on the disk; 0 when there is none."""
        return _bytes_below(os.fspath(self.place(name))) if name else 0

    def drop(self, name: str) -> None:
        """Remove a layer."""
        self._summaries.pop(name, None)
        folder = self.place(name)
        try:
            btrfs.destroy(folder)
        except OSError:
            shutil.rmtree(folder, ignore_errors=True)

    def sweep(self, wanted: set[str]) -> list[str]:
        """Remove all layers but `wanted` and return their names."""
        removed = sorted(entry.name for entry in os.scandir(self.folder) if entry.name not in wanted)
        for name in removed:
            self.drop(name)
        return removed


def _initial_namespace() -> bool:
    """Whether root here is root of the machine: only then the overlay may use trusted.* attributes."""
    try:
        with open("/proc/self/uid_map") as file:
            return file.read().split() == ["0", "0", "4294967295"] and os.geteuid() == 0
    except OSError:
        return False


def _is_small(upper: Path) -> bool:
    files = size = 0
    todo = [os.fspath(upper)]
    while todo:
        with os.scandir(todo.pop()) as entries:
            for entry in entries:
                files += 1
                if entry.is_dir(follow_symlinks=False):
                    todo.append(entry.path)
                else:
                    size += entry.stat(follow_symlinks=False).st_size
                if files > _SMALL_FILES or size > _SMALL_BYTES:
                    return False
    return True


def _bytes_below(folder: str) -> int:
    total = 0
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                try:
                    total += entry.stat(follow_symlinks=False).st_blocks * 512
                    if entry.is_dir(follow_symlinks=False):
                        total += _bytes_below(entry.path)
                except FileNotFoundError:
                    continue
    except OSError:
        pass
    return total


def _copy_tree(source: Path, target: Path, links: dict[int, Path]) -> None:
    """Copy a folder of an overlay with all that the overlay needs: attributes, whiteouts, hard links, owners, times."""
    target.mkdir()
    with os.scandir(source) as entries:
        for entry in entries:
            old, new = Path(entry.path), target / entry.name
            found = entry.stat(follow_symlinks=False)
            if entry.is_dir(follow_symlinks=False):
                _copy_tree(old, new, links)
            elif found.st_ino in links:
                os.link(links[found.st_ino], new, follow_symlinks=False)
            else:
                _copy_one(old, new, found)
                if found.st_nlink > 1:
                    links[found.st_ino] = new
    _copy_marks(source, target, os.lstat(source))


def _copy_one(old: Path, new: Path, found: os.stat_result) -> None:
    if stat.S_ISLNK(found.st_mode):
        new.symlink_to(os.readlink(old))
    elif stat.S_ISREG(found.st_mode):
        shutil.copyfile(old, new, follow_symlinks=False)
    else:
        os.mknod(new, found.st_mode, found.st_rdev)
    _copy_marks(old, new, found)


def _copy_marks(old: Path, new: Path, found: os.stat_result) -> None:
    os.chown(new, found.st_uid, found.st_gid, follow_symlinks=False)
    if not stat.S_ISLNK(found.st_mode):
        os.chmod(new, stat.S_IMODE(found.st_mode))
    for name in os.listxattr(old, follow_symlinks=False):
        try:
            os.setxattr(new, name, os.getxattr(old, name, follow_symlinks=False), follow_symlinks=False)
        except OSError as error:
            if error.errno not in (errno.ENODATA, errno.EOPNOTSUPP):
                raise
    os.utime(new, ns=(found.st_atime_ns, found.st_mtime_ns), follow_symlinks=False)


def _fold(layer: Path, into: Path) -> None:
    """Lay one layer over another; files are linked, since neither is ever written to again."""
    if _is_opaque(layer):
        for entry in list(os.scandir(into)):
            _remove(Path(entry.path))
    with os.scandir(layer) as entries:
        for entry in entries:
            old, new = Path(entry.path), into / entry.name
            if entry.is_dir(follow_symlinks=False):
                if os.path.lexists(new) and not (new.is_dir() and not new.is_symlink()):
                    # What lay below in the base stays hidden: the folder replaced a file or a deletion.
                    _remove(new)
                    new.mkdir()
                    _copy_marks(old, new, os.lstat(old))
                    _make_opaque(new, old)
                elif not new.exists():
                    new.mkdir()
                _fold(old, new)
            else:
                if os.path.lexists(new):
                    _remove(new)
                os.link(old, new, follow_symlinks=False)
    opaque = _is_opaque(into)
    _copy_marks(layer, into, os.lstat(layer))
    if opaque:
        _make_opaque(into, layer)


def _is_opaque(folder: Path) -> bool:
    for name in _OPAQUE:
        try:
            if os.getxattr(folder, name) == b"y":
                return True
        except OSError:
            continue
    return False


def _make_opaque(folder: Path, like: Path) -> None:
    if not _is_opaque(folder):
        os.setxattr(folder, _OPAQUE[0] if _initial_namespace() else _OPAQUE[1], b"y")


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink()
