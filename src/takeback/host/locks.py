"""Locks whose owner can be checked: flock, with pid and start time written inside.

Does not cover: git's own lock files. A dead owner's flock is released by the kernel, so none is ever judged by age.
"""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from takeback.errors import Busy
from takeback.host import proc

# A probe by `is_held` has the lock for some microseconds: nobody is told "busy" for that.
_SHORTEST_WAIT = 0.05

Holding = AbstractContextManager[bool]


@contextmanager
def held(path: Path, *, what: str, wait: float) -> Iterator[bool]:
    """Hold an exclusive lock on `path` for the block, waiting at most `wait` seconds; True when its last owner died.

    Raises Busy with the owner's pid and what it does when the wait is over.
    """
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        _take(fd, path, wait)
        died = os.fstat(fd).st_size > 0  # an owner that ends takes its note away
        me = proc.myself()
        _note(fd, json.dumps({"pid": me.pid, "start": me.start, "what": what}).encode())
        try:
            yield died
        finally:
            _note(fd, b"")
    finally:
        os.close(fd)


def owner(path: Path) -> str:
    """Return who holds `path` in words, for messages."""
    try:
        data = json.loads(path.read_bytes() or b"{}")
        noted = proc.ProcessId(int(data["pid"]), str(data["start"]))
        # A killed owner leaves its note behind until the next one has written its own.
        if noted.alive():
            return f"process {noted.pid} ({data['what']})"
    except (OSError, ValueError, KeyError, TypeError):
        pass
    return "an unknown process"


def is_held(path: Path) -> bool:
    """Whether some process holds the lock now."""
    try:
        fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        # Shared, so that two who ask at the same time do not see each other.
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(fd)
    return False


def _note(fd: int, text: bytes) -> None:
    try:
        os.ftruncate(fd, 0)
        os.pwrite(fd, text, 0)
    except OSError:
        pass  # on a full disk the lock must work all the same: `gc` takes it to make room


def _take(fd: int, path: Path, wait: float) -> None:
    until = time.monotonic() + max(wait, _SHORTEST_WAIT)
    pause = 0.002
    while True:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if time.monotonic() >= until:
                raise Busy(owner=owner(path)) from None
            time.sleep(pause)
            pause = min(pause * 2, 0.1)
