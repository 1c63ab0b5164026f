"""What a data directory has left on the machine: processes, mounts, FIFOs, temporary files.

Does not cover: judging it; a test compares with what it should be.
"""

from __future__ import annotations

import os
import signal
import stat
import time
from pathlib import Path


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
                found[int(name)] = command.replace(b"\0", b" ").decode(errors="replace")[:120]
    return found


def keepers(root: Path) -> list[int]:
    """Return the keepers of the directory, not those that started them."""
    return [
        pid
        for pid, words in processes(root).items()
        if " -m takeback.machines.keeper" in words and "python" in words.split()[0]
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
    """Return FIFOs, sockets, temporary files and sandboxes' folders below the directory."""
    found = set()
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


def end_keeper(root: Path, number: int = signal.SIGTERM, patience: float = 20.0) -> None:
    """Send a signal to the keeper and wait until it has ended."""
    for pid in keepers(root):
        os.kill(pid, number)
    until = time.monotonic() + patience
    while keepers(root):
        assert time.monotonic() < until, f"the keeper did not end: {processes(root)}"
        time.sleep(0.01)


def settle(root: Path, patience: float = 20.0) -> tuple[dict[int, str], set[str], set[str]]:
    """Return what is left once it no longer becomes less: deleting goes on after its answer."""
    until = time.monotonic() + patience
    while time.monotonic() < until:
        left = {pid: words for pid, words in processes(root).items() if "takeback.machines.keeper" not in words}
        sandboxes = {name for name in files(root) if name.startswith("sandboxes/")}
        if not left and not sandboxes:
            break
        time.sleep(0.05)
    end_keeper(root)
    return processes(root), mounts(root), files(root)
