"""Locks of files: records, open file descriptions, shared ones, and who waits for one."""

from __future__ import annotations

import fcntl
import os
import struct
import time
from collections.abc import Callable
from typing import TextIO

from tests.machines.states.kinds import Check, expect, forked, in_child, keep, kind, path, read, write

F_OFD_SETLK = 37


def opened(name: str) -> TextIO:
    """Return a new file of a hundred bytes."""
    write(path(name), "x" * 100)
    return keep(open(path(name), "r+"))


def refused(lock: Callable[[], object]) -> bool:
    try:
        lock()
    except BlockingIOError:
        return True
    return False


def record_is_locked(name: str, at: int) -> bool:
    with open(path(name), "r+") as file:
        return refused(lambda: fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, at))


@kind
def a_lock_of_some_records() -> Check:
    fcntl.lockf(opened("records"), fcntl.LOCK_EX, 10, 5)

    # In a child: closing the file would give up the locks of this process.
    def look() -> None:
        expect([record_is_locked("records", at) for at in (4, 5, 14, 15)], [False, True, True, False])

    return lambda: in_child(look)


@kind
def a_lock_of_an_open_file_description() -> Check:
    whole = struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, 0, 10, 0)
    fcntl.fcntl(opened("description"), F_OFD_SETLK, whole)

    def look() -> None:
        expect([record_is_locked("description", at) for at in (0, 9, 10)], [True, True, False])

    return lambda: in_child(look)


@kind
def a_shared_lock() -> Check:
    fcntl.flock(opened("shared"), fcntl.LOCK_SH)

    def check() -> None:
        with open(path("shared")) as file:
            expect(refused(lambda: fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)), True)
            expect(refused(lambda: fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)), False)

    return check


@kind
def a_process_that_waits_for_a_lock() -> Check:
    locked = opened("waited-for")

    def wait_for_it(told: int) -> None:
        with open(path("waited-for")) as file:
            os.write(told, b"waits ")
            fcntl.flock(file, fcntl.LOCK_EX)
            os.write(told, b"has it")

    def waiting() -> tuple[int, int]:
        fcntl.flock(locked, fcntl.LOCK_EX)
        out, into = os.pipe()
        pid = forked(lambda: wait_for_it(into))
        os.close(into)
        expect(read(out, 6), b"waits ")
        time.sleep(0.05)
        return out, pid

    out, pid = waiting()

    def check() -> None:
        nonlocal out, pid
        fcntl.flock(locked, fcntl.LOCK_UN)
        expect(read(out), b"has it")
        os.waitpid(pid, 0)
        os.close(out)
        out, pid = waiting()

    return check
