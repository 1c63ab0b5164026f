"""End exactly the processes that were meant, and find processes by their command line.

Does not cover: processes this one started (`process.end`).
"""

from __future__ import annotations

import os
import select
import signal
import time
from collections.abc import Callable, Iterable

from takeback.host import proc


def kill_exactly(targets: Iterable[proc.ProcessId], timeout: float) -> bool:
    """Kill these very processes with SIGKILL and wait until they are gone; True when all are.

    A later process with the same number is never touched: the start time is compared after the pidfd is open.
    A child of this process is reaped.
    """
    waiting: dict[int, int] = {}
    try:
        for target in targets:
            try:
                handle = os.pidfd_open(target.pid)
            except (ProcessLookupError, ValueError):
                continue
            if not target.alive():
                os.close(handle)
                _reap(target.pid)
                continue
            waiting[handle] = target.pid
        for handle in waiting:
            try:
                signal.pidfd_send_signal(handle, signal.SIGKILL)
            except ProcessLookupError:
                continue
        return _gone(waiting, time.monotonic() + timeout)
    finally:
        for handle in waiting:
            os.close(handle)


def _gone(waiting: dict[int, int], until: float) -> bool:
    poll = select.poll()
    for handle in waiting:
        poll.register(handle, select.POLLIN)
    left = set(waiting)
    while left:
        remaining = until - time.monotonic()
        if remaining <= 0:
            return False
        for handle, _ in poll.poll(remaining * 1000):
            poll.unregister(handle)
            left.discard(handle)
            _reap(waiting[handle])
    return True


def _reap(pid: int) -> None:
    try:
        os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        pass  # not a child of ours: its parent, or init, does


def with_command(matches: Callable[[list[bytes]], bool]) -> list[proc.ProcessId]:
    """Return the living processes whose arguments satisfy `matches`; those of other users may be unreadable."""
    found = []
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            with open(f"/proc/{name}/cmdline", "rb") as file:
                arguments = file.read().split(b"\0")
        except OSError:
            continue
        if len(arguments) > 1 and matches(arguments):
            start = proc.start_time(int(name))
            if start:
                found.append(proc.ProcessId(int(name), start))
    return found


def below(pid: int) -> list[proc.ProcessId]:
    """Return the living descendants of a process, nearest first."""
    found: list[proc.ProcessId] = []
    todo = [pid]
    while todo:
        parent = todo.pop(0)
        try:
            threads = os.listdir(f"/proc/{parent}/task")
        except OSError:
            continue
        for thread in threads:
            try:
                with open(f"/proc/{parent}/task/{thread}/children") as file:
                    children = [int(child) for child in file.read().split()]
            except OSError:
                continue
            todo += children
            found += [proc.ProcessId(child, start) for child in children if (start := proc.start_time(child))]
    return found
