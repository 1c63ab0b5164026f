"""Where control groups can be made, found out by making one: permissions alone do not tell.

    v1   a folder for each controller, all of which this user may write to
    v2   one folder for all. Root's is the top one, which may hold processes and groups at once. Elsewhere (an ordinary
         user, a container) it is a group above our own that somebody gave to this user (systemd: `Delegate=`), with no
         process in it, because no group but the top one may have both processes and controllers for its children.

Does not cover: what is set in the groups (`limits`).
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

CONTROLLERS = ("memory", "cpu", "pids")
_ALL = ("memory", "cpu", "cpuacct", "pids")
_WORDS = {"memory": "memory", "cpu": "processors", "pids": "processes"}
_NO_ROOM = "no group above this process is this user's alone; `systemd-run --user --scope -p Delegate=yes` gives one"


@dataclass(frozen=True)
class Cgroups:
    """Where groups can be made: folders of controllers (v1), or one folder for all (v2).

    `parent` is the name of the group that holds all others, a data directory's own: keepers do not touch each other's.
    `lacking` says why something is not bounded, in words; empty when all is.
    """

    parent: str
    unified: Path | None
    controllers: tuple[tuple[str, Path], ...]
    lacking: str = ""

    @property
    def usable(self) -> bool:
        return "memory" in self.names

    @property
    def names(self) -> tuple[str, ...]:
        """Which of memory, cpu and pids are bounded."""
        made = {name for name, _ in self.controllers}
        return tuple(name for name in CONTROLLERS if name in made)

    def places(self) -> list[Path]:
        """Return the folders that `parent` is in, each once."""
        return list(dict.fromkeys(place for _, place in self.controllers))

    def described(self) -> str:
        """Return what the kernel bounds here in words."""
        version = "v2" if self.unified is not None else "v1"
        what = ", ".join(_WORDS[name] for name in self.names)
        return f"{what} by control groups ({version})" if what else "nothing"


def find(
    parent: str, *, mountinfo: Path = Path("/proc/self/mountinfo"), own: Path = Path("/proc/self/cgroup")
) -> Cgroups:
    """Return the folders this process may make groups in, having tried; nothing is left behind."""
    old: list[tuple[str, Path]] = []
    unified: list[Path] = []
    for kind, place, options in _mounts(mountinfo):
        if kind == "cgroup":
            old += [(name, place) for name in _ALL if name in options and os.access(place, os.W_OK)]
        elif kind == "cgroup2" and "memory" in words(place / "cgroup.controllers"):
            unified.append(place)
    if any(name == "memory" for name, _ in old):
        return Cgroups(parent, None, tuple(old), _lacking([name for name, _ in old], ""))
    why = ""
    for place in unified:
        for candidate in _above(place, own):
            names, why = _tried(candidate, parent)
            if "memory" in names:
                return Cgroups(parent, candidate, tuple((name, candidate) for name in names), _lacking(names, why))
    return Cgroups(parent, None, tuple(old), _lacking([name for name, _ in old], why))


def enable(place: Path, parent: str) -> tuple[str, ...]:
    """Make the group that holds all others (v2) and return the controllers its children have. Raises OSError."""
    offered = words(place / "cgroup.controllers")
    _switch_on(place, [name for name in CONTROLLERS if name in offered])
    group = place / parent
    group.mkdir(exist_ok=True)
    given = words(group / "cgroup.controllers")
    _switch_on(group, [name for name in CONTROLLERS if name in given])
    on = words(group / "cgroup.subtree_control")
    return tuple(name for name in CONTROLLERS if name in on)


def words(path: Path) -> list[str]:
    """Return the words of a file, none when it cannot be read."""
    try:
        return path.read_text().split()
    except OSError:
        return []


def _switch_on(group: Path, names: list[str]) -> None:
    file = group / "cgroup.subtree_control"
    for name in names:
        if name not in words(file):
            file.write_text(f"+{name}")


def _tried(place: Path, parent: str) -> tuple[tuple[str, ...], str]:
    # Whoever makes a group must be able to move processes from where they are: the kernel asks for both files.
    if not (os.access(place, os.W_OK) and os.access(place / "cgroup.procs", os.W_OK)):
        return (), f"this user may not make groups in {place}"
    try:
        return enable(place, parent), ""
    except OSError as error:
        return (), f"{place}: {error.strerror} (are there processes in it?)"
    finally:
        try:
            (place / parent).rmdir()
        except OSError:
            pass  # it was never made, or there are machines in it


def _above(place: Path, own: Path) -> Iterator[Path]:
    """Give the folders to try: the top of the mount, then from our own group upwards."""
    yield place
    try:
        lines = own.read_text().splitlines()
    except OSError:
        return
    name = next((line[3:] for line in lines if line.startswith("0::")), "/")
    if ".." in name.split("/"):
        return  # outside this namespace: nothing of it can be seen
    group = place / name.lstrip("/")
    while group != place:
        yield group
        group = group.parent


def _mounts(mountinfo: Path) -> Iterator[tuple[str, Path, list[str]]]:
    try:
        lines = mountinfo.read_text().splitlines()
    except OSError:
        return
    for line in lines:
        left, _, right = line.partition(" - ")
        kind, _, options = right.split(" ", 2)
        place = re.sub(r"\\([0-7]{3})", lambda found: chr(int(found[1], 8)), left.split(" ")[4])
        yield kind, Path(place), options.split(",")


def _lacking(names: list[str] | tuple[str, ...], why: str) -> str:
    missing = [_WORDS[name] for name in CONTROLLERS if name not in names]
    if not missing:
        return ""
    if why and os.geteuid() != 0:
        why = f"{why}; {_NO_ROOM}"
    return f"no control group for {', '.join(missing)}" + (f": {why}" if why else "")
