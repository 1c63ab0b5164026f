"""Run a child process with a clean environment: the one place that spawns.

Does not cover: what is run (see `git`), or an agent's own steps (see `command`).
"""

from __future__ import annotations

import errno
import os
import shutil
import signal
import subprocess
import threading
import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO

# What a tool of ours may see of the caller's environment. Anything else could change what it does:
# GIT_DIR pointed a user's checkpoint at another repository, LC_ALL=zh_CN changed messages.
_PASSED = ("PATH", "HOME", "TMPDIR", "USER", "LOGNAME", "SYSTEMROOT", "XDG_CONFIG_HOME")
_END_GRACE = 10.0
Pipe = subprocess.Popen[bytes]
TimeoutExpired = subprocess.TimeoutExpired


def clean_environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the allow-listed environment for our own tools, with `extra` on top."""
    env = {name: os.environ[name] for name in _PASSED if name in os.environ}
    env["LC_ALL"] = "C"
    env.update(extra or {})
    return env


@dataclass(frozen=True)
class Finished:
    """How a process ended: exit code, all of stdout and stderr as bytes."""

    code: int
    out: bytes
    err: bytes


_running: set[subprocess.Popen[bytes]] = set()
# What a reaper of orphans must leave alone: the exit codes of these are asked for by whoever started them.
_own: dict[int, weakref.ref[subprocess.Popen[bytes]]] = {}
_own_lock = threading.Lock()


def end_running() -> None:
    """End every process that was started and not finished, for when what wanted their answers is given up."""
    for popen in list(_running):
        end(popen)


_interruption: list[BaseException] = []
_starting = 0


def interrupt(why: BaseException) -> None:
    """Raise `why` here, for a signal handler; while a child is being started, once it is known and can be ended."""
    if _starting:
        _interruption.append(why)
    else:
        raise why


@contextmanager
def _uninterrupted() -> Iterator[None]:
    global _starting
    if threading.current_thread() is not threading.main_thread():
        yield  # signals arrive in the main thread only, and what they raise belongs there
        return
    _starting += 1
    try:
        yield
    finally:
        _starting -= 1
        if _interruption and not _starting:
            raise _interruption.pop()


class Child:
    """A started process whose output is collected by `finish`."""

    def __init__(self, popen: subprocess.Popen[bytes], feed: bytes | None) -> None:
        _running.add(popen)
        self._popen = popen
        self._feed = feed

    @property
    def pid(self) -> int:
        return self._popen.pid

    def finish(self, timeout: float | None = None, *, kill: bool = False) -> Finished:
        """Wait for the end; on timeout or an exception the process is ended with SIGTERM and waited for.

        `kill` is for programs that have nothing to put in order, or hang: SIGKILL at once.
        """
        try:
            out, err = self._popen.communicate(self._feed, timeout)
        except BaseException:
            if kill:
                self._popen.kill()
            end(self._popen)
            raise
        finally:
            _running.discard(self._popen)
        return Finished(self._popen.returncode, out or b"", err or b"")

    def stop(self) -> None:
        """Ask the process to end (SIGTERM); whoever is in `finish` gets how it ended."""
        self._popen.terminate()

    def wait(self) -> None:
        """Wait until the process has ended, while another thread collects its output."""
        self._popen.wait()

    def __enter__(self) -> Child:
        return self

    def __exit__(self, *exc: object) -> None:
        if self._popen in _running:  # nobody wants its output any more
            _running.discard(self._popen)
            end(self._popen)


def start(
    argv: Sequence[str | bytes],
    *,
    env: Mapping[str, str],
    cwd: str | bytes | None = None,
    feed: bytes | None = None,
    stdin: int | IO[bytes] | None = None,
    stdout: int | IO[bytes] | None = None,
    stderr: int | IO[bytes] = subprocess.PIPE,
) -> Child:
    """Start a process; `feed` is written to its stdin by `Child.finish`.

    Raises FileNotFoundError when the program is not there.
    """
    if stdin is None:
        stdin = subprocess.PIPE if feed is not None else subprocess.DEVNULL
    output = subprocess.PIPE if stdout is None else stdout
    with _uninterrupted():
        return Child(_spawn(argv, env, cwd, stdin, output, stderr), feed)


def pipe(
    argv: Sequence[str | bytes], *, env: Mapping[str, str], cwd: str | bytes | None = None
) -> subprocess.Popen[bytes]:
    """Start a long-lived process that is talked to over its stdin and stdout.

    Raises FileNotFoundError when the program is not there.
    """
    return _spawn(argv, env, cwd, subprocess.PIPE, subprocess.PIPE, subprocess.DEVNULL)


def _spawn(
    argv: Sequence[str | bytes],
    env: Mapping[str, str],
    cwd: str | bytes | None,
    stdin: int | IO[bytes],
    stdout: int | IO[bytes],
    stderr: int | IO[bytes],
) -> subprocess.Popen[bytes]:
    try:
        with _own_lock:
            popen = subprocess.Popen(argv, env=dict(env), cwd=cwd, stdin=stdin, stdout=stdout, stderr=stderr)
            _own[popen.pid] = weakref.ref(popen)
        return popen
    except PermissionError as error:
        # execvp(3) answers so for a program that is nowhere when one directory of PATH may not be searched.
        name = os.fsdecode(argv[0])
        if "/" not in name and shutil.which(name, path=env.get("PATH", os.defpath)) is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), name) from error
        raise


def detach(argv: Sequence[str], *, env: Mapping[str, str], log: int, keep: Sequence[int] = ()) -> None:
    """Start a process that outlives this one, in a session of its own; stdout and stderr go to `log`.

    `keep` are descriptors it gets too. Returns when the starter has ended, not the process.
    Raises FileNotFoundError when setsid(1) is not there.
    """
    starter = subprocess.Popen(
        ["setsid", "--fork", *argv], env=dict(env), cwd="/", stdin=subprocess.DEVNULL, stdout=log, stderr=log,
        pass_fds=tuple(keep),
    )  # fmt: skip
    starter.wait(_END_GRACE)


def reap_orphans() -> int:
    """Wait for every ended child that nobody here started, and return how many there were.

    For a process that is a child subreaper or PID 1: orphans become its children, and stay zombies until it waits.
    """
    reaped = 0
    # Under the lock no child is between its start and its entry in the list.
    with _own_lock:
        for pid, known in list(_own.items()):
            popen = known()
            if popen is None or popen.returncode is not None:
                del _own[pid]
        for pid in _children():
            if pid not in _own:
                try:
                    reaped += os.waitpid(pid, os.WNOHANG)[0] == pid
                except ChildProcessError:
                    continue
    return reaped


def _children() -> list[int]:
    found: list[int] = []
    for thread in os.listdir("/proc/self/task"):
        try:
            with open(f"/proc/self/task/{thread}/children") as file:
                found += [int(pid) for pid in file.read().split()]
        except OSError:
            continue
    return found


def become_subreaper() -> None:
    """Get every orphan below this process as its child, to be reaped here (prctl(2), PR_SET_CHILD_SUBREAPER)."""
    import ctypes

    ctypes.CDLL(None, use_errno=True).prctl(36, 1, 0, 0, 0)


def end(popen: subprocess.Popen[bytes]) -> None:
    """End a process of ours with SIGTERM and wait; never SIGKILL, which strands git's lock files."""
    if popen.poll() is None:
        popen.send_signal(signal.SIGTERM)
        try:
            popen.wait(_END_GRACE)
        except subprocess.TimeoutExpired:
            pass
    for stream in (popen.stdin, popen.stdout, popen.stderr):
        if stream is not None:
            try:
                stream.close()
            except OSError:
                pass
