"""The namespaces a process lives in: written down, and found again by another that wants to enter them.

Does not cover: making them (unshare(1)), or staying in them (`pid_one`).
"""

from __future__ import annotations

import json
import os
from pathlib import Path

from takeback.host import atomic

_KINDS = ("user", "mnt", "pid")


def mine() -> dict[str, str]:
    """Return the names the kernel gives to this process's namespaces, as `pid:[4026532291]`."""
    return {kind: os.readlink(f"/proc/self/ns/{kind}") for kind in _KINDS}


def write(path: Path) -> None:
    """Write down this process's namespaces. Raises OSError."""
    atomic.write_bytes(path, json.dumps({"boot": _boot(), **mine()}).encode(), durable=False)


def find(path: Path) -> int | None:
    """Return the PID 1 of the namespaces that were written down, by its number here; None when they are gone."""
    try:
        wanted = json.loads(path.read_bytes())
        if wanted.pop("boot") != _boot() or set(wanted) != set(_KINDS):
            return None
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
    for name in os.listdir("/proc"):
        if name.isdigit() and _is_first(name) and _lives_in(name, wanted):
            return int(name)
    return None


def _is_first(pid: str) -> bool:
    # proc(5), NSpid: its number in each pid namespace, the innermost last.
    try:
        with open(f"/proc/{pid}/status") as file:
            numbers = next((line.split()[1:] for line in file if line.startswith("NSpid:")), [])
    except OSError:
        return False
    return len(numbers) > 1 and numbers[-1] == "1"


def _lives_in(pid: str, wanted: dict[str, str]) -> bool:
    try:
        return all(os.readlink(f"/proc/{pid}/ns/{kind}") == name for kind, name in wanted.items())
    except OSError:
        return False


def _boot() -> str:
    with open("/proc/sys/kernel/random/boot_id") as file:
        return file.read().strip()
