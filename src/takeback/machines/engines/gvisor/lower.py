"""Files of the base that a saved machine has open: its snapshot holds their names, not their content.

The engine opens them again by name when the snapshot is restored. One that is gone fails the restore; one that changed
is read with its new content, cut to its old size, by a program that knows nothing of it (measured with 20240729).
So they are noted when it is saved, as the kernel knows them, and compared before anything is started.

Does not cover: files that are only looked up again; for those a change is what anybody would see.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from dataclasses import dataclass

from takeback.machines.engine import MachineSpec
from takeback.machines.engines.gvisor import spec as specs

_SEEN_AT = "/root/"  # where the engine's own root folder has the machine's
_GONE = " (deleted)"


@dataclass(frozen=True)
class Lower:
    """One file or folder by its path on the host; `place` is device, inode, and of a file size and mtime in ns."""

    path: str
    place: tuple[int, ...]


def held(pid: int, spec: MachineSpec) -> tuple[tuple[Lower, ...], str]:
    """Return what the engine's process holds open of the base, and a path that is already gone or replaced, or "".

    To be asked just after a save: the engine lets go of all but what is open then.
    """
    found: dict[str, Lower] = {}
    for fd in os.listdir(f"/proc/{pid}/fd"):
        link = f"/proc/{pid}/fd/{fd}"
        try:
            name, info = os.readlink(link), os.stat(link)
        except OSError:
            continue
        inside = "/" + name.removeprefix(_SEEN_AT).removesuffix(_GONE)
        if not name.startswith(_SEEN_AT) or not _is_of_base(inside, spec) or inside in found:
            continue
        if not (stat.S_ISREG(info.st_mode) or stat.S_ISDIR(info.st_mode)):
            continue
        path = os.path.join(spec.base, inside.lstrip("/"))
        if _identity(path) != (info.st_dev, info.st_ino):
            return (), inside
        found[inside] = Lower(path, _place(info))
    return tuple(found.values()), ""


def changed(noted: Iterable[Lower]) -> str:
    """Return the path of one that is not what it was, or an empty text."""
    for one in noted:
        try:
            now = _place(os.stat(one.path))
        except OSError:
            return one.path
        if now != one.place:
            return one.path
    return ""


def _is_of_base(inside: str, spec: MachineSpec) -> bool:
    if any(_within(inside, one) for one in spec.shown):
        return True
    if any(_within(inside, one) for one in (*specs.bound(spec), *spec.tmpfs, *spec.masked)):
        return False
    return not spec.seen or "/" + inside.split("/")[1] in spec.seen


def _within(path: str, folder: str) -> bool:
    return path == folder or path.startswith(f"{folder}/")


def _identity(path: str) -> tuple[int, int] | None:
    try:
        info = os.stat(path)
    except OSError:
        return None
    return info.st_dev, info.st_ino


def _place(info: os.stat_result) -> tuple[int, ...]:
    # A folder's times change with whatever is made in it; that it is still the same one is enough.
    if stat.S_ISDIR(info.st_mode):
        return info.st_dev, info.st_ino
    return info.st_dev, info.st_ino, info.st_size, info.st_mtime_ns
