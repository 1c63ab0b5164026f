"""Run one program unattended to its end, its output into a file, and leave nothing of it running.

Does not cover: what the program is or what its end means (`tasks.agents`). A process that leaves the session AND clears
its environment is not found; without /proc only the program's own process group is.
"""

from __future__ import annotations

import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO

from takeback.host import command, proc, process

# In the environment of everything a run starts: names the runs it belongs to, the outermost first.
MARKER = "TAKEBACK_RUN"
_KEPT_OUT = 16 << 20
_KEPT_ERR = 1 << 20
_UNKILLABLE = 10.0
_POLL = 0.02
_staying: list[subprocess.Popen[bytes]] = []  # not to be forgotten: what is, is complained about


@dataclass(frozen=True)
class Ended:
    """How a run ended.

    `exit` is the exit code, 128+n for signal n, -1 when the program itself could not be ended. `out` and `err` are the
    ends of its output: 16 MiB and 1 MiB at most. `left` names what could not be ended: git at work past the bound, or
    a process the kernel holds.
    """

    exit: int
    timed_out: bool
    out: bytes
    err: bytes
    ended_ns: int
    left: tuple[str, ...] = ()


@dataclass(frozen=True)
class Runner:
    """Runs programs; `grace` is the time between SIGTERM and SIGKILL, `git_grace` how long git may take (seconds)."""

    grace: float = 10.0
    git_grace: float = 60.0
    clock: Callable[[], int] = time.time_ns

    def find(self, program: str, env: Mapping[str, str], cwd: str | None = None) -> str | None:
        """Return where a program is on this PATH, or None; one with a slash is looked up from `cwd`."""
        if "/" in program and cwd is not None:
            program = os.path.join(cwd, program)
        return shutil.which(program, path=env.get("PATH", os.defpath))

    def run(
        self,
        argv: Sequence[str],
        *,
        cwd: str,
        env: Mapping[str, str],
        output: str,
        marker: str,
        feed: bytes = b"",
        timeout: float | None = None,
    ) -> Ended:
        """Run a program in a session of its own; when it has ended, or `timeout` has passed, end all that is left.

        `feed` is all its stdin holds. `output` gets its stdout, and at the end its stderr too. `marker` names this run
        alone, on the whole machine. Who ends us by a signal ends the run first.
        Raises FileNotFoundError, PermissionError, NotADirectoryError or another OSError when it cannot be started.
        """
        env = {**env, MARKER: f"{env.get(MARKER, '')} {marker}".strip()}
        popen: subprocess.Popen[bytes] | None = None
        errors = output + ".stderr"
        left: tuple[str, ...] = ()
        # SIGTERM and SIGHUP become an exception. Should it come before `popen` is known, the marker finds the process.
        with command.ended_by_signals(), _stdin(feed) as stdin, _private(output) as out, _private(errors) as err:
            try:
                popen = subprocess.Popen(
                    argv, cwd=cwd, env=env, stdin=stdin, stdout=out, stderr=err, start_new_session=True
                )
                timed_out = not _wait(popen, timeout)
            finally:
                left = self._end(marker, popen)
        ended = Ended(
            _code(popen), timed_out, _tail(output, _KEPT_OUT), _tail(errors, _KEPT_ERR),
            self.clock(), left,
        )  # fmt: skip
        _join(output, errors)
        return ended

    def end_left(self, marker: str) -> tuple[str, ...]:
        """End what a run has left whose takeback was killed; return what could not be ended."""
        return self._end(marker, None)

    def _end(self, marker: str, leader: subprocess.Popen[bytes] | None) -> tuple[str, ...]:
        """End every process of a run: SIGTERM, SIGKILL after the grace, never SIGKILL to git.

        A killed git strands its index.lock; at SIGTERM it removes it. So git is waited for, and named when it stays.
        """
        session = None if leader is None else leader.pid
        try:
            return self._ask_then_kill(marker, session)
        except BaseException:  # a second Ctrl-C: no time to ask
            for one, is_git in _living(marker, session).items():
                if not is_git:
                    _send(one, signal.SIGKILL)
            raise

    def _ask_then_kill(self, marker: str, session: int | None) -> tuple[str, ...]:
        asked: set[proc.ProcessId] = set()
        begun = time.monotonic()
        while living := _living(marker, session):
            passed = time.monotonic() - begun
            others = [one for one, is_git in living.items() if not is_git]
            for one in living.keys() - asked:
                _send(one, signal.SIGTERM, signal.SIGCONT)
            asked |= living.keys()
            if passed > self.grace:
                for one in others:
                    _send(one, signal.SIGKILL)
            if passed > (self.grace + _UNKILLABLE if others else self.git_grace):
                break
            time.sleep(_POLL)
        return tuple(sorted(proc.command_of(one.pid) for one in living))


def _code(popen: subprocess.Popen[bytes]) -> int:
    """Return the exit code of a program that has ended, or -1."""
    if not _wait(popen, 0):
        _staying.append(popen)
        return -1
    code = popen.wait()
    return 128 - code if code < 0 else code


def _wait(popen: subprocess.Popen[bytes], timeout: float | None) -> bool:
    """Wait for the end without reaping: until then no other process gets the number, which names the session too."""
    if sys.platform != "linux":
        try:
            popen.wait(timeout)
        except subprocess.TimeoutExpired:
            return False
        return True
    handle = os.pidfd_open(popen.pid)
    try:
        poll = select.poll()
        poll.register(handle, select.POLLIN)
        return bool(poll.poll(None if timeout is None else timeout * 1000))
    finally:
        os.close(handle)


def _living(marker: str, session: int | None) -> dict[proc.ProcessId, bool]:
    """Return the living processes of a run, each with whether it is git."""
    if sys.platform != "linux":
        return _living_by_ps(session)
    found = {}
    for name in os.listdir("/proc"):
        if name.isdigit() and (_session_of(name) == session or marker in _markers_of(name)):
            one = proc.ProcessId(int(name), proc.start_time(int(name)))
            if one.start:
                found[one] = _is_git(name)
    return found


def _session_of(pid: str) -> int:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return int(file.read().rsplit(b")", 1)[1].split()[3])
    except (OSError, IndexError):
        return -1


def _markers_of(pid: str) -> list[str]:
    """Return the runs a process belongs to; those of other users cannot be read."""
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            variables = file.read().split(b"\0")
    except OSError:
        return []
    start = f"{MARKER}=".encode()
    return next((os.fsdecode(one[len(start) :]).split() for one in variables if one.startswith(start)), [])


def _is_git(pid: str) -> bool:
    try:
        path = os.readlink(f"/proc/{pid}/exe").removesuffix(" (deleted)")
    except OSError:
        return False
    return os.path.basename(path) == "git" or "/git-core/" in path


def _living_by_ps(group: int | None) -> dict[proc.ProcessId, bool]:
    listed = process.start(["ps", "-axo", "pid=,pgid=,comm="], env=process.clean_environment()).finish(_POLL * 500)
    rows = [line.split(None, 2) for line in listed.out.decode("utf-8", "replace").splitlines()]
    return {
        proc.ProcessId(int(pid), start): os.path.basename(program) == "git"
        for pid, of, program in (row for row in rows if len(row) == 3)
        if group is not None and int(of) == group and (start := proc.start_time(int(pid)))
    }


def _send(one: proc.ProcessId, *numbers: int) -> None:
    """Send signals to this very process, never to a later one with its number."""
    try:
        if sys.platform != "linux":
            for number in numbers:
                os.kill(one.pid, number)
            return
        handle = os.pidfd_open(one.pid)
        try:
            if one.alive():
                for number in numbers:
                    signal.pidfd_send_signal(handle, number)
        finally:
            os.close(handle)
    except (ProcessLookupError, PermissionError):
        pass


@contextmanager
def _stdin(feed: bytes) -> Iterator[IO[bytes]]:
    """A file, not a pipe: who never reads it blocks nobody."""
    with tempfile.TemporaryFile() as file:
        file.write(feed)
        file.seek(0)
        yield file


@contextmanager
def _private(path: str) -> Iterator[IO[bytes]]:
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o600), "wb") as file:
        yield file


def _tail(path: str, most: int) -> bytes:
    with open(path, "rb") as file:
        file.seek(max(0, os.fstat(file.fileno()).st_size - most))
        return file.read()


def _join(output: str, errors: str) -> None:
    """Put what was said on stderr behind the rest; until then both files are there to be looked at."""
    with open(errors, "rb") as source, open(output, "ab") as target:
        if os.fstat(source.fileno()).st_size:
            target.write(b"\n--- stderr ---\n" if target.tell() else b"")
            shutil.copyfileobj(source, target)
    os.unlink(errors)
