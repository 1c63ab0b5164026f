"""A root folder made of parts of another one: what is named of the base, and places to mount on that it has not.

    point/root/              a tmpfs of this mount namespace
               bin -> usr/bin      links as they are
               usr/  etc/  var/    the base's own, bound read-only
               home/  .takeback/   empty

`point` itself is a tmpfs that is not bound with a folder it lies in: takeback's data may lie in the base, and each view
would hold all the others, twice as many mounts with every machine.

The engine makes the folders it mounts on in the root folder it is given, also where that is read-only to the machine.
So a base that is somebody's own (this machine's /, a directory) is never given to it as it is.

Does not cover: what is hidden further down (`spec`).
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

from takeback.errors import EngineFailed
from takeback.host import mounts
from takeback.machines.engine import MachineSpec
from takeback.machines.engines.gvisor import spec as specs

_SIZE = 4 << 20  # folders, links and empty files only


def needed(spec: MachineSpec) -> bool:
    """Whether the engine would make something in the base, or the machine is not to see all of it."""
    return bool(spec.seen) or any(not os.path.lexists(_in(spec.base, place)) for place in specs.bound(spec))


def mount(spec: MachineSpec, point: Path, data: Path) -> Path:
    """Mount it below `point` and return where; `mounts.unmount_below` takes it away. Raises EngineFailed.

    What is mounted in `data`, takeback's own folder, is left out.
    """
    root = point / "root"
    try:
        point.mkdir(mode=0o700, exist_ok=True)
        mounts.tmpfs(point, size=_SIZE, mode=0o700)
        mounts.unbindable(point)
        root.mkdir()
        mounts.tmpfs(root, size=_SIZE, mode=0o755)
        for entry in sorted(os.scandir(spec.base), key=lambda one: one.name):
            _part(entry, root / entry.name, seen=not spec.seen or f"/{entry.name}" in spec.seen)
        for place in specs.bound(spec):
            if not os.path.lexists(_in(root, place)) and _is_made_here(spec, place):
                os.makedirs(_in(root, place))
        mounts.read_only(root)
        if data.is_relative_to(spec.base):
            mounts.unmount_below(root / data.relative_to(spec.base))
    except OSError as error:
        where = error.filename or point
        raise EngineFailed(what="put its root folder together", why=f"{where}: {error.strerror}") from error
    return root


def _part(entry: os.DirEntry[str], place: Path, *, seen: bool) -> None:
    if entry.is_symlink():
        os.symlink(os.readlink(entry.path), place)
        return
    mode = entry.stat(follow_symlinks=False).st_mode
    if stat.S_ISDIR(mode):
        place.mkdir()
        os.chmod(place, stat.S_IMODE(mode) if seen else mode & stat.S_ISVTX | 0o755 | mode & 0o022)
    elif seen and stat.S_ISREG(mode):
        place.touch()
    else:
        return
    if seen:
        mounts.bind(Path(entry.path), place)


def _is_made_here(spec: MachineSpec, place: str) -> bool:
    """Whether the first folder of a path is not the base's own."""
    top = "/" + place.split("/")[1]
    return (bool(spec.seen) and top not in spec.seen) or not os.path.lexists(_in(spec.base, top))


def _in(folder: Path, path: str) -> str:
    return os.path.join(folder, path.lstrip("/"))
