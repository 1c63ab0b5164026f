"""What a kind of state is, and what the programs that hold it have in common.

A kind is a function that makes some state and returns the check of it. The check raises when the state is not as it was
made, and leaves it as it was made, because each copy of it is checked again. The name of the function is the kind's.
"""

from __future__ import annotations

import ctypes
import os
import select
import time
import traceback
from collections.abc import Callable
from typing import TypeVar

Check = Callable[[], None]
Make = Callable[[], Check]

# On the root filesystem, which is what the two kinds of disk keep in different ways.
HOME = "/var/lib/states"
PATIENCE = 10.0
EVERYWHERE: dict[str, Make] = {}
IN_MEMORY: dict[str, Make] = {}  # what only survives when the disk is in memory
libc = ctypes.CDLL(None, use_errno=True)
T = TypeVar("T")
_kept: list[object] = []


def kind(make: Make) -> Make:
    EVERYWHERE[make.__name__.replace("_", " ")] = make
    return make


def kind_in_memory(make: Make) -> Make:
    IN_MEMORY[make.__name__.replace("_", " ")] = make
    return make


def keep(thing: T) -> T:
    """Hold something open that no check mentions."""
    _kept.append(thing)
    return thing


def path(name: str) -> str:
    return f"{HOME}/{name}"


def expect(found: object, wanted: object) -> None:
    if found != wanted:
        raise AssertionError(f"{str(found)[:500]} and not {str(wanted)[:500]}")


def called(result: int) -> int:
    """Return what a function of the C library returned. Raises OSError when it failed."""
    if result == -1:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


def soon(true: Callable[[], bool]) -> bool:
    """Whether it comes true in some seconds."""
    until = time.monotonic() + PATIENCE
    while not true():
        if time.monotonic() > until:
            return False
        time.sleep(0.01)
    return True


def read(fd: int, size: int = 100) -> bytes:
    """Read what comes in some seconds."""
    if not select.select([fd], [], [], PATIENCE)[0]:
        raise AssertionError("nothing came")
    return os.read(fd, size)


def text_of(path: str) -> str:
    with open(path) as file:
        return file.read()


def write(path: str, text: str) -> None:
    with open(path, "w") as file:
        file.write(text)


def token() -> str:
    """Return a text that was not there before."""
    return str(time.time_ns())


def forked(work: Callable[[], object]) -> int:
    """Begin something in a child, which ends after it; return its process id."""
    pid = os.fork()
    if pid == 0:
        try:
            work()
            os._exit(0)
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(1)
    return pid


def in_child(work: Callable[[], object]) -> None:
    """Do something in a child. Raises when it fails there."""
    expect(os.waitstatus_to_exitcode(os.waitpid(forked(work), 0)[1]), 0)


class Helper:
    """A child that answers, as often as it is asked."""

    def __init__(self, answer: Callable[[], bytes], begin: Callable[[], object] = lambda: None) -> None:
        asked, self._ask = os.pipe()
        self._answered, answered = os.pipe()

        def serve() -> None:
            begin()
            os.write(answered, b"begun")
            while os.read(asked, 1):
                os.write(answered, answer())

        self.pid = forked(serve)
        expect(read(self._answered), b"begun")

    def ask(self) -> bytes:
        os.write(self._ask, b"?")
        return read(self._answered, 4096)
