"""What `test_cgroup2` runs in a Linux whose control groups are all of version 2: prints what it found as JSON.

in_cgroup2.py root | given | crowded | stranger
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from takeback.machines.engine import DiskKind, MachineSpec
from takeback.machines.engines.gvisor import cgroups, limits

TOP = Path("/mnt/cgroup")
USER = 1000
SPEC = MachineSpec(Path("/"), DiskKind.MEMORY, Path("/"), vcpu=1, memory_mib=16, max_processes=4)
# dd holds one block in memory: 400 MiB, of 16 + 256 + 1 that the group may have.
GREEDY, MODEST = ["dd", "if=/dev/zero", "of=/dev/null", "bs=400M", "count=1"], ["sleep", "60"]


def bounded(found: cgroups.Cgroups) -> dict[str, Any]:
    """Make two groups, and let something in one of them take more than it may."""
    groups, others = limits.make(found, "tb1", SPEC), limits.make(found, "tb2", SPEC)
    beside = subprocess.Popen([*limits.wrapper(groups), *MODEST])
    other = subprocess.Popen([*limits.wrapper(others), *MODEST])
    until = time.monotonic() + 20
    while not limits.find_tasks(found, "tb2") and time.monotonic() < until:
        time.sleep(0.01)
    used = limits.memory_used(others)
    greedy = subprocess.Popen([*limits.wrapper(groups), *GREEDY], stderr=subprocess.DEVNULL).wait(60)
    answer = {
        "groups": [os.path.relpath(group, TOP) for group in groups],
        "bounds": limits.bounds_memory(groups),
        "cpu.max": "".join((Path(group) / "cpu.max").read_text() for group in groups if "cpu" in found.names),
        "pids.max": [(Path(group) / "pids.max").read_text().strip() for group in groups],
        "greedy": greedy,
        "beside": beside.wait(20),
        "other": other.poll(),
        "said": [limits.killed_for_memory(groups), limits.killed_for_memory(others)],
        "used": used > 0 and (limits.cpu_used(groups) or 0.0) > 0.0,
        "busy": limits.remove(others),
    }
    other.kill()
    other.wait()
    answer["removed"] = limits.remove(groups) and limits.remove(others)
    limits.close(found)
    answer["left"] = [str(place) for place in TOP.rglob("takeback-*")]
    return answer


def look() -> dict[str, Any]:
    """Find where groups can be made, and use them."""
    found = cgroups.find("takeback-test")
    place = None if found.unified is None else os.path.relpath(found.unified, TOP)
    shown = {"usable": found.usable, "names": found.names, "lacking": found.lacking, "place": place}
    return {**shown, **(bounded(found) if found.usable else {})}


def as_user(group: Path, then: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """Call a function as an ordinary user in a group."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        (group / "cgroup.procs").write_text("0")
        os.setgroups([])
        os.setgid(USER)
        os.setuid(USER)
        os.write(writer, json.dumps(then()).encode())
        os._exit(0)
    os.close(writer)
    with open(reader, "rb") as file:
        answer: dict[str, Any] = json.loads(file.read() or b"{}")
    os.waitpid(child, 0)
    return answer


def give(group: Path) -> None:
    """Give a group to the user, as systemd does with Delegate=."""
    for path in (group, group / "cgroup.procs", group / "cgroup.subtree_control"):
        os.chown(path, USER, USER)


def main(kind: str) -> dict[str, Any]:
    TOP.mkdir()
    subprocess.run(["mount", "-t", "cgroup2", "cgroup2", TOP], check=True)
    if kind == "root":
        return look()
    (TOP / "cgroup.subtree_control").write_text("+memory +pids")
    scope = TOP / "scope"
    scope.mkdir()
    if kind == "stranger":
        return as_user(scope, look)
    give(scope)
    if kind == "crowded":
        return as_user(scope, look)
    (scope / "own").mkdir()
    give(scope / "own")
    return as_user(scope / "own", look)


if __name__ == "__main__":
    print("RESULT", json.dumps(main(sys.argv[1])), flush=True)
