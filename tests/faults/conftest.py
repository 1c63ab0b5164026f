"""Every fault test, however it ends, leaves no process, no mount and no temporary file."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def nothing_left(tmp_path: Path) -> Iterator[None]:
    yield
    assert processes_of(tmp_path) == []
    assert mounts_below(tmp_path) == []
    assert [str(one) for one in tmp_path.glob("**/home/tmp/*")] == []


def processes_of(top: Path, patience: float = 20.0) -> list[str]:
    """Return the command lines of processes that work below a folder, once those about to end had time to."""
    until = time.monotonic() + patience
    while True:
        found = _processes(os.fsencode(top))
        if not found or time.monotonic() > until:
            return found
        time.sleep(0.05)


def _processes(top: bytes) -> list[str]:
    found = []
    for pid in (name for name in os.listdir("/proc") if name.isdigit() and int(name) != os.getpid()):
        try:
            with open(f"/proc/{pid}/environ", "rb") as file:
                environ = file.read()
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                command = file.read()
        except OSError:
            continue
        if top + b"/" in environ:
            found.append(command.replace(b"\0", b" ").decode("utf-8", "replace"))
    return found


def mounts_below(top: Path) -> list[str]:
    """Return the mount points below a folder."""
    with open("/proc/self/mounts", encoding="utf-8") as file:
        points = [line.split()[1] for line in file]
    return [point for point in points if point.startswith(f"{top}/")]
