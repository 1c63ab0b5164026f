"""Work in a child while the parent keeps time: an answer comes in any case, also when the child dies or is late.

A late child goes on without anybody waiting, up to `_LONGEST`, so that what it began (a first checkpoint) is not lost.
Does not cover: what is worked on. Imports little: a hook pays for it before every step of an agent.
"""

from __future__ import annotations

import os
import select
import signal
import time
from collections.abc import Callable

_LONGEST = 900  # seconds
_PAGE = 65536


class Heard:
    """What a child said: its last line if it came to its end, the lines before, and why it did not (or "")."""

    def __init__(self, last: bytes | None, said: list[bytes], why: str) -> None:
        self.last = last
        self.said = said
        self.why = why


def ask(work: Callable[[Callable[[bytes], None]], bytes], seconds: float) -> Heard:
    """Run `work` in a child and return what it said within `seconds`; it gets a function that says a line early.

    Lines hold no newline. The child has no standard streams and a session of its own.
    """
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            os.close(read)
            _alone()
            _say(write, b"=" + work(lambda line: _say(write, b"-" + line)))
            code = 0
        except BaseException as error:
            _say(write, b"!" + f"{type(error).__name__}: {error}".replace("\n", " ").encode("utf-8", "replace"))
        finally:
            os._exit(code)
    os.close(write)
    try:
        return _listen(read, pid, time.monotonic() + seconds, seconds)
    finally:
        os.close(read)


def _alone() -> None:
    os.setsid()
    null = os.open(os.devnull, os.O_RDWR)
    for fd in range(3):
        os.dup2(null, fd)  # else who waits for the end of our output would wait for a late child
    signal.alarm(_LONGEST)


def _say(fd: int, line: bytes) -> None:
    data = memoryview(line.replace(b"\n", b" ") + b"\n")
    try:
        while data:
            data = data[os.write(fd, data) :]
    except OSError:
        pass  # nobody waits any more


def _listen(fd: int, pid: int, until: float, seconds: float) -> Heard:
    data = b""
    while True:
        ready, _, _ = select.select([fd], [], [], max(0.0, until - time.monotonic()))
        page = os.read(fd, _PAGE) if ready else None
        if page:
            data += page
        lines = data.split(b"\n")[:-1]
        said = [line[1:] for line in lines if line.startswith(b"-")]
        for line in lines:
            if line.startswith(b"="):
                return Heard(line[1:], said, "")
            if line.startswith(b"!"):
                return Heard(None, said, line[1:].decode("utf-8", "replace"))
        if page is None:
            return Heard(None, said, f"no answer within {seconds:g} s")
        if not page:
            status = os.waitpid(pid, 0)[1]
            ended = f"signal {os.WTERMSIG(status)}" if os.WIFSIGNALED(status) else f"code {os.WEXITSTATUS(status)}"
            return Heard(None, said, f"it ended by {ended}")
