"""Run a step of an agent or a person: its own environment and terminal, output passed on and its end kept.

Does not cover: our own tools (`process`), or what the command may touch.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

_GRACE = 5.0
_LEFT_BEHIND = 1.0  # what the command started has this long after it
_DRAIN = 0.2


@dataclass(frozen=True)
class Ran:
    """How a command ended: exit code (128+n for signal n, 124 on timeout), the end of its output.

    `interrupted`: it had the terminal, and the keys that end a program (Ctrl-C) ended it.
    """

    exit: int
    tail: bytes
    timed_out: bool
    interrupted: bool = False


def run(
    argv: Sequence[str],
    *,
    cwd: str | bytes,
    env: Mapping[str, str] | None = None,
    timeout: float | None = None,
    stdout_fd: int = 1,
    keep: int = 16384,
    terminal: bool = True,
) -> Ran:
    """Run a command to its end; on timeout its process group gets SIGTERM, then SIGKILL.

    What it writes goes on to `stdout_fd` and 2 as it comes; at a terminal it gets the terminal itself, and no end of
    its output is kept, unless `terminal` is false: then it can still read the terminal.
    A process it leaves behind keeps its output streams.
    Raises FileNotFoundError, PermissionError or NotADirectoryError when it cannot be started.
    """
    if terminal and os.isatty(stdout_fd) and os.isatty(0):
        return _run_on_terminal(argv, cwd, env, timeout)
    with _terminal() as give, ended_by_signals():
        popen = subprocess.Popen(
            argv, cwd=cwd, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, process_group=0
        )
        try:
            give(popen.pid)  # whoever interrupts us already here means the command too
        except BaseException:
            _end_group(popen)
            raise
        return _follow(popen, timeout, stdout_fd, keep)


def run_or_say(
    argv: Sequence[str],
    *,
    cwd: str | bytes,
    env: Mapping[str, str] | None = None,
    timeout: float | None = None,
    stdout_fd: int = 1,
    keep: int = 16384,
    terminal: bool = True,
) -> Ran:
    """Run a command as `run` does; one that cannot be started says so on stderr and ends with 126 or 127."""
    try:
        return run(argv, cwd=cwd, env=env, timeout=timeout, stdout_fd=stdout_fd, keep=keep, terminal=terminal)
    except (FileNotFoundError, PermissionError, NotADirectoryError) as error:
        line = f"{argv[0]}: {error.strerror}\n".encode("utf-8", "surrogateescape")
        os.write(2, line)
        return Ran(126 if isinstance(error, PermissionError) else 127, line, False)


def _follow(popen: subprocess.Popen[bytes], timeout: float | None, stdout_fd: int, keep: int) -> Ran:
    assert popen.stdout is not None and popen.stderr is not None
    streams = {popen.stdout.fileno(): stdout_fd, popen.stderr.fileno(): 2}
    tail = bytearray()
    timed_out = False
    deadline = None if timeout is None else time.monotonic() + timeout
    ended_at: float | None = None
    try:
        while streams:
            now = time.monotonic()
            if ended_at is None and popen.poll() is not None:
                ended_at = now
            if ended_at is not None and now > ended_at + _DRAIN:
                break
            if deadline is not None and now >= deadline and ended_at is None:
                timed_out = True
                _end_group(popen)
                continue
            for fd in select.select(list(streams), [], [], 0.05)[0]:
                data = os.read(fd, 65536)
                if not data:
                    del streams[fd]
                    continue
                _pass_on(streams[fd], data)
                tail += data
                del tail[:-keep]
        code = _wait(popen, deadline)
        if code is None:
            timed_out = True
            _end_group(popen)
            code = popen.wait()
        if streams:
            _leave_forwarder(streams)
    except BaseException:
        _end_group(popen)
        raise
    finally:
        popen.stdout.close()
        popen.stderr.close()
    return Ran(124 if timed_out else _code(code), bytes(tail), timed_out, not timed_out and _by_keys(code))


def _run_on_terminal(
    argv: Sequence[str], cwd: str | bytes, env: Mapping[str, str] | None, timeout: float | None
) -> Ran:
    """Give the terminal itself to the command, as a shell does; then no tail can be kept."""
    with _terminal() as give, ended_by_signals():
        popen = subprocess.Popen(argv, cwd=cwd, env=env, process_group=0)
        try:
            give(popen.pid)
            code = popen.wait(timeout)
            return Ran(_code(code), b"", False, _by_keys(code))
        except subprocess.TimeoutExpired:
            _end_group(popen)
            popen.wait()
            return Ran(124, b"", True)
        except BaseException:
            _end_group(popen)
            raise


@contextmanager
def _terminal() -> Iterator[Callable[[int], None]]:
    """Let the command's process group read the terminal while it runs: in the background it would be stopped."""
    if not os.isatty(0):
        yield lambda _: None
        return

    def give(group: int) -> None:
        try:
            os.tcsetpgrp(0, group)
            if group != os.getpgrp():
                os.killpg(group, signal.SIGCONT)  # it may have read before it was allowed to, and been stopped
        except OSError:
            pass

    old = signal.signal(signal.SIGTTOU, signal.SIG_IGN)
    try:
        yield give
    finally:
        give(os.getpgrp())
        signal.signal(signal.SIGTTOU, old)


@contextmanager
def ended_by_signals() -> Iterator[None]:
    """Who ends us means the command too: then it is ended, and its end recorded, before we go."""

    def stop(number: int, _: object) -> None:
        raise SystemExit(128 + number)

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    old = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in old.items():
            signal.signal(number, handler)


def _wait(popen: subprocess.Popen[bytes], deadline: float | None) -> int | None:
    try:
        return popen.wait(None if deadline is None else max(0.0, deadline - time.monotonic()))
    except subprocess.TimeoutExpired:
        return None


def _code(code: int) -> int:
    return 128 - code if code < 0 else code


def _by_keys(code: int) -> bool:
    """Whether a command that had the terminal was ended from its keyboard; a shell says 128+n for what it ran."""
    return _code(code) in (128 + signal.SIGINT, 128 + signal.SIGQUIT) and os.isatty(0)


def _end_group(popen: subprocess.Popen[bytes]) -> None:
    """End the command's own process group, all of it; it is ours, because it was made for it."""
    if popen.poll() is not None:
        return  # it ended by itself: what it left behind may stay
    for number, grace in ((signal.SIGTERM, _GRACE), (signal.SIGKILL, 0.0)):
        try:
            os.killpg(popen.pid, number)
        except (ProcessLookupError, PermissionError):
            return
        try:
            popen.wait(grace or _GRACE)
        except subprocess.TimeoutExpired:
            continue
        # A shell goes at once, and what it started may not: it would write on into what was taken back by then.
        if not grace or _group_is_gone(popen.pid):
            return


def _group_is_gone(group: int) -> bool:
    until = time.monotonic() + _LEFT_BEHIND
    while time.monotonic() < until:
        try:
            os.killpg(group, 0)
        except (ProcessLookupError, PermissionError):  # macOS refuses where only the dead are left
            return True
        time.sleep(0.02)
    return False


def _pass_on(fd: int, data: bytes) -> None:
    try:
        view = memoryview(data)
        while view:
            view = view[os.write(fd, view) :]
    except OSError:
        pass  # our own reader went away; the step still runs to its end


def _leave_forwarder(streams: Mapping[int, int]) -> None:
    """Processes left behind (a dev server) hold our pipes: a small child goes on reading them.

    Closing the pipes would end such a process at its next write.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    if os.fork() != 0:
        return
    try:
        os.setsid()
        null = os.open(os.devnull, os.O_RDONLY)
        os.dup2(null, 0)
        left = dict(streams)
        while left:
            for fd in select.select(list(left), [], [])[0]:
                data = os.read(fd, 65536)
                if data:
                    _pass_on(left[fd], data)
                else:
                    del left[fd]
    finally:
        os._exit(0)
