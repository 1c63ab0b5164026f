"""What a data directory has left on the machine: processes, mounts, FIFOs, temporary files.

Does not cover: judging it; a test compares with what it should be.
"""

from __future__ import annotations

import os
import shutil
import signal
import stat
import time
from contextlib import suppress
from pathlib import Path

from takeback.errors import SnapshotDamaged
from takeback.machines.client.connect import Client
from takeback.machines.engines.gvisor import header, room


def processes(root: Path) -> dict[int, str]:
    """Return the processes whose command line names the directory, but this one."""
    found = {}
    for name in os.listdir("/proc"):
        if name.isdigit() and int(name) != os.getpid():
            try:
                command = Path(f"/proc/{name}/cmdline").read_bytes()
            except OSError:
                continue
            if os.fsencode(root) in command:
                found[int(name)] = command.replace(b"\0", b" ").decode(errors="replace")[:400]
    return found


def put_supervisor(folder: Path, data: Path) -> None:
    """Put the supervisor that was compiled for the tests where a data directory keeps its own."""
    shutil.copytree(folder.parent, data / "machines/supervisor", dirs_exist_ok=True)


def in_pool(root: Path) -> set[int]:
    """Return the processes of containers made ahead, whoever has them now: they go with their keeper at the latest."""
    found = set()
    for pid in processes(root):
        try:
            if os.fsencode(root / "machines/pool") in Path(f"/proc/{pid}/cmdline").read_bytes():
                found.add(pid)
        except OSError:
            continue
    return found


def keepers(root: Path) -> list[int]:
    """Return the keepers of the directory, not those that started them, nor PID 1 of their namespaces."""
    return [
        pid
        for pid, words in processes(root).items()
        if " -m takeback.machines.keeper" in words and "python" in words.split()[0] and "pid_one.py" not in words
    ]


def mounts(root: Path) -> set[str]:
    """Return the mounts below the directory in any mount namespace that can be seen."""
    found = set()
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                lines = Path(f"/proc/{name}/mountinfo").read_text(errors="replace").splitlines()
            except OSError:
                continue
            found |= {line.split()[4] for line in lines if line.split()[4].startswith(f"{root}/")}
    return found


def files(root: Path) -> set[str]:
    """Return FIFOs, sockets, temporary files, sandboxes' folders and what nobody needs any more below the directory."""
    found = unneeded(root / "machines")
    for folder, folders, names in os.walk(root / "machines"):
        for name in [*folders, *names]:
            path = os.path.join(folder, name)
            try:
                mode = os.lstat(path).st_mode
            except FileNotFoundError:
                continue
            below = os.path.relpath(path, root / "machines")
            if stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or name.startswith(".tmp-") or below.startswith("sandboxes/"):
                found.add(below)
        folders[:] = [name for name in folders if name not in ("images", "engine", "supervisor")]
    return found


def unneeded(machines: Path) -> set[str]:
    """Return disk layers that no snapshot has, unfinished snapshots and copies, and what the engine wrote.

    Meant for when no sandbox is left: one that runs has layers and files of the engine.
    """
    found, needed = set(), set()
    for folder in (machines / "snapshots").glob("*"):
        if (folder / "snapshot.json").exists():
            with suppress(SnapshotDamaged):  # a test may have spoiled it
                needed |= set(header.read(folder).layers)
        else:
            found.add(f"snapshots/{folder.name}")
    found |= {f"layers/{one.name}" for one in (machines / "layers").glob("*") if one.name not in needed}
    return found | {
        f"{place}/{one.name}" for place in ("passing", "forks", "engine-state") for one in (machines / place).glob("*")
    }  # fmt: skip


def elsewhere(root: Path) -> set[str]:
    """Return what the directory has outside itself: control groups, folders in memory."""
    try:
        name = room.own_name(root / "machines")
    except FileNotFoundError:
        return set()
    found = {os.fspath(path) for path in Path("/dev/shm").glob(f"{name}*")}
    for top in (Path("/sys/fs/cgroup"), *Path("/sys/fs/cgroup").glob("*")):
        if (top / name).is_dir():
            found |= {os.fspath(top / name), *(os.fspath(path) for path in (top / name).iterdir() if path.is_dir())}
    return found


def end_keeper(root: Path, number: int = signal.SIGTERM, patience: float = 20.0) -> None:
    """Send a signal to the keeper and wait until it has ended."""
    for pid in keepers(root):
        os.kill(pid, number)
    until = time.monotonic() + patience
    while keepers(root):
        assert time.monotonic() < until, f"the keeper did not end: {processes(root)}"
        time.sleep(0.01)


def end_all(root: Path, patience: float = 10.0) -> None:
    """End whatever still runs for a directory that goes away, and remove what it has outside itself.

    Its test has failed then; the machine it ran on should not keep its sandboxes.
    """
    if not root.is_dir():
        return  # half a name would fit other directories too
    until = time.monotonic() + patience
    while (left := processes(root)) and time.monotonic() < until:
        for pid in left:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.05)
    for name in sorted(elsewhere(root), reverse=True):  # what is in a group before the group
        with suppress(OSError):
            shutil.rmtree(name) if name.startswith("/dev/shm/") else os.rmdir(name)


def settle(root: Path, patience: float = 20.0) -> tuple[dict[int, str], set[str], set[str]]:
    """Return what is left once it no longer becomes less: deleting goes on after its answer."""
    until = time.monotonic() + patience
    while time.monotonic() < until:
        ahead = in_pool(root)
        left = {
            pid: words
            for pid, words in processes(root).items()
            if "takeback.machines.keeper" not in words and pid not in ahead
        }
        below = {name for name in files(root) if name.startswith("sandboxes/")}
        if not left and not below:
            break
        time.sleep(0.05)
    if not keepers(root) and in_pool(root):
        Client(root, environ=os.environ).connect().close()  # what a killed one made ahead is for the next to remove
    end_keeper(root)
    while processes(root) and time.monotonic() < until:  # PID 1 of an ordinary user's namespaces looks now and then
        time.sleep(0.02)
    return processes(root), mounts(root), files(root)
