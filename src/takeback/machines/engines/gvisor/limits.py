"""Memory, processor and process bounds of one machine, set by the host: cgroups where permitted, else what is left.

A machine over its memory is killed by the kernel as a whole, and no other one. Without cgroups nothing here bounds the
whole: whoever watches `strain` must. (RLIMIT_FSIZE would bound the file that holds the memory, but also the one in
which systrap gives 16 MiB of addresses to each process inside: 1 GiB of it ended a machine at its 60th process.)

Does not cover: where groups can be made (`cgroups`), what nothing here bounds (`growth` tells how far a machine is),
bounds for each process or user inside (`spec`): the host's number of tasks is only a backstop, because reaching it
kills the machine.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from pathlib import Path

from takeback.machines.engine import MachineSpec
from takeback.machines.engines.gvisor.cgroups import Cgroups, enable

# What the engine itself may use beside the machine's memory: as a whole, and for four processes inside.
_ENGINE_MIB = 256
_TASKS_EACH, _TASKS_MORE = 3, 512  # host tasks for one process inside, and for the engine
_PERIOD_US = 100_000
_MAKE = 5
_OLD = 600.0  # seconds after which nobody joins a group any more
_JOIN = 'for g in $1; do echo $$ >"$g/cgroup.procs" || exit 125; done; shift; exec "$@"'


def make(cgroups: Cgroups, container: str, spec: MachineSpec) -> tuple[str, ...]:
    """Make the groups of one container and set their bounds; return their folders, none when that is not permitted."""
    try:
        if cgroups.unified is not None:
            return (_unified(cgroups.unified, cgroups.parent, container, spec),)
        made = []
        for name, place in cgroups.controllers:
            group = place / cgroups.parent / container
            _make(group)
            made.append(os.fspath(group))
            _bound(name, group, spec)
        return tuple(made)
    except OSError:
        remove([os.fspath(place / cgroups.parent / container) for place in cgroups.places()])
        return ()


def _unified(place: Path, parent: str, container: str, spec: MachineSpec) -> str:
    group = place / parent / container
    for attempt in range(_MAKE):
        try:
            names = enable(place, parent)
            group.mkdir(exist_ok=True)
            break
        except FileNotFoundError:
            if attempt == _MAKE - 1:  # else the last machine that ended took the parent away just now
                raise
    if "memory" in names:
        (group / "memory.max").write_text(str(_memory_mib(spec) << 20))
        (group / "memory.oom.group").write_text("1")
        _without_swap(group / "memory.swap.max")
    if "cpu" in names:
        (group / "cpu.max").write_text(f"{spec.vcpu * _PERIOD_US} {_PERIOD_US}")
    if "pids" in names:
        (group / "pids.max").write_text(str(_tasks(spec)))
    return os.fspath(group)


def _make(group: Path) -> None:
    for attempt in range(_MAKE):
        try:
            group.mkdir(parents=True, exist_ok=True)
            return
        except FileNotFoundError:
            if attempt == _MAKE - 1:  # as above
                raise


def _without_swap(file: Path) -> None:
    """A machine over its memory ends; it does not push others out to the disk before. Kernels without swap lack it."""
    if file.exists():
        file.write_text("0")


def _bound(name: str, group: Path, spec: MachineSpec) -> None:
    if name == "memory":
        (group / "memory.limit_in_bytes").write_text(str(_memory_mib(spec) << 20))
    elif name == "cpu":
        (group / "cpu.cfs_period_us").write_text(str(_PERIOD_US))
        (group / "cpu.cfs_quota_us").write_text(str(spec.vcpu * _PERIOD_US))
    elif name == "pids":
        (group / "pids.max").write_text(str(_tasks(spec)))


def _memory_mib(spec: MachineSpec) -> int:
    return spec.memory_mib + _ENGINE_MIB + spec.max_processes // 4


def _tasks(spec: MachineSpec) -> int:
    return spec.max_processes * _TASKS_EACH + _TASKS_MORE


def wrapper(groups: Sequence[str]) -> list[str]:
    """Return what to put before a command so that it and its children are in the groups from their first moment."""
    return ["/bin/sh", "-c", _JOIN, "sh", " ".join(groups)] if groups else []


def step_back(groups: Sequence[str]) -> None:
    """Give what runs in the groups a tenth of the processor where another machine wants it, until `step_up`."""
    _share(groups, 10)


def step_up(groups: Sequence[str]) -> None:
    """Let what runs in the groups have its share of the processor again."""
    _share(groups, 100)


def _share(groups: Sequence[str], percent: int) -> None:
    for group in groups:
        for name, whole in (("cpu.shares", 1024), ("cpu.weight", 100)):
            try:
                with open(os.path.join(group, name), "r+") as file:
                    file.write(str(max(whole * percent // 100, 2)))
            except OSError:
                continue  # a group of another kind


def offer_first(pid: int) -> None:
    """Let the kernel end this process, not one of its helpers, when memory runs out: a machine without one hangs."""
    try:
        with open(f"/proc/{pid}/oom_score_adj", "w") as file:
            file.write("1000")
    except OSError:
        pass  # only its own user may


def remove(groups: Sequence[str]) -> bool:
    """Remove the groups; False while something still runs in one."""
    gone = True
    for group in groups:
        try:
            os.rmdir(group)
        except FileNotFoundError:
            continue
        except OSError:
            gone = False
            continue
        try:
            os.rmdir(os.path.dirname(group))
        except OSError:
            pass  # other machines have theirs in it
    return gone


def close(cgroups: Cgroups) -> None:
    """Remove the parent groups when no machine has any in them."""
    for place in cgroups.places():
        try:
            os.rmdir(place / cgroups.parent)
        except OSError:
            pass


def leftovers(cgroups: Cgroups) -> list[Path]:
    """Return the folders of all groups there are, of whatever machine."""
    found: list[Path] = []
    for place in cgroups.places():
        try:
            found += [entry for entry in (place / cgroups.parent).iterdir() if entry.is_dir()]
        except OSError:
            continue
    return found


def abandoned(cgroups: Cgroups, prefix: str, old: float = _OLD) -> list[Path]:
    """Remove the groups of other data directories in which nothing runs, and return them.

    One in which something runs cannot be removed: the kernel refuses. One just made, whose machine is about to join it,
    is told by its age.
    """
    removed: list[Path] = []
    for place in cgroups.places():
        for parent in place.glob(f"{prefix}*"):
            if parent.name == cgroups.parent:
                continue
            groups = [*(group for group in parent.glob("*/") if group.is_dir()), parent]
            for group in [group for group in groups if _age(group) > old]:
                try:
                    os.rmdir(group)
                except OSError:
                    continue
                removed.append(group)
    return removed


def _age(group: Path) -> float:
    try:
        return time.time() - os.stat(group).st_mtime
    except FileNotFoundError:
        return 0.0


def bounds_memory(groups: Sequence[str]) -> bool:
    """Whether one of the groups bounds the memory of what is in it."""
    return any(
        os.path.exists(f"{group}/{name}") for group in groups for name in ("memory.max", "memory.limit_in_bytes")
    )


def memory_used(groups: Sequence[str]) -> int:
    """Return the bytes the groups hold, 0 when there are none."""
    return _number(groups, "memory.usage_in_bytes", "memory.current")


def cpu_used(groups: Sequence[str]) -> float | None:
    """Return the processor seconds the groups used; None when they do not count them."""
    for group in groups:
        for line in _lines(Path(group) / "cpuacct.usage"):
            return int(line) / 1e9
        for line in _lines(Path(group) / "cpu.stat"):
            if line.startswith("usage_usec "):
                return int(line.split()[1]) / 1e6
    return None


def killed_for_memory(groups: Sequence[str]) -> bool:
    """Whether the kernel killed something in the group because it was over its memory."""
    for group in groups:
        for name in ("memory.oom_control", "memory.events"):
            for line in _lines(Path(group) / name):
                if line.startswith("oom_kill ") and line != "oom_kill 0":
                    return True
    return False


def _number(groups: Sequence[str], *names: str) -> int:
    for group in groups:
        for name in names:
            lines = _lines(Path(group) / name)
            if lines:
                return int(lines[0])
    return 0


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text().splitlines()
    except OSError:
        return []


def find_tasks(cgroups: Cgroups, container: str) -> bool:
    """Whether something runs in the groups of a container."""
    return any(_lines(place / cgroups.parent / container / "cgroup.procs") for place in cgroups.places())
