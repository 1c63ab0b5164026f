"""Which process is that, is it still the same one, and who holds a file open or locked.

Does not cover: starting or ending processes. Without /proc a start time is asked of `ps` and holders of `lsof`.
"""

from __future__ import annotations

import fcntl
import os
import struct
import subprocess
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache

from takeback.host import process

# struct flock of fcntl(2) with a 64-bit off_t: Linux starts with the two shorts, the BSDs and macOS end with them.
_FLOCK = "@hhqqi4x" if sys.platform == "linux" else "@qqihh"
_ASK_SECONDS = 10.0


@dataclass(frozen=True)
class ProcessId:
    """A process that can be told from a later one with the same number."""

    pid: int
    start: str

    def alive(self) -> bool:
        """Whether this very process still runs."""
        return start_time(self.pid) == self.start and self.start != ""


@dataclass(frozen=True)
class Holder:
    """A process that has a file open or locked; pid 0 is one that cannot be seen from here."""

    pid: int
    command: str


def start_time(pid: int) -> str:
    """Return a text that differs between two processes that had the same pid; empty when there is none."""
    if sys.platform == "linux":
        try:
            with open(f"/proc/{pid}/stat", "rb") as file:
                fields = file.read().rsplit(b")", 1)[1].split()
        except (OSError, IndexError):
            return ""
        if fields[0] in (b"Z", b"X"):
            return ""
        # proc(5): field 22 is starttime in ticks since boot; the boot id tells two boots apart.
        return f"{_boot_id()}:{fields[19].decode()}"
    return _ask(["ps", "-o", "lstart=", "-p", str(pid)]).decode("ascii", "replace").strip()


@cache
def _boot_id() -> str:
    try:
        with open("/proc/sys/kernel/random/boot_id") as file:
            return file.read().strip()[:8]
    except OSError:
        return ""


def myself() -> ProcessId:
    """Return this process."""
    return ProcessId(os.getpid(), start_time(os.getpid()))


def users_here() -> int:
    """Return how many user ids there are in this user namespace (user_namespaces(7)): 1 for one made without help."""
    try:
        with open("/proc/self/uid_map") as file:
            return sum(int(line.split()[2]) for line in file)
    except OSError:
        return 1 << 32


def command_of(pid: int) -> str:
    """Return the command line of a process for messages: printable, at most 80 characters, `?` when unknown."""
    if pid <= 0:
        return "a process that cannot be seen from here"
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            words = file.read()
        if not words:
            with open(f"/proc/{pid}/comm", "rb") as file:
                words = file.read()
    except OSError:
        words = b"" if sys.platform == "linux" else _ask(["ps", "-o", "command=", "-p", str(pid)])
    text = words.replace(b"\0", b" ").decode("utf-8", "replace").strip()
    return "".join(char if char.isprintable() else " " for char in text)[:80] or "?"


def open_here() -> frozenset[tuple[int, int]]:
    """Return (device, inode) of every file this very process has open.

    POSIX record locks die when ANY descriptor of the file is closed by their process (fcntl(2)). So a file in this
    set must not be opened and closed here: SQLite in the same process would lose its locks and other writers would
    corrupt the database. Read such a file in a child process.
    """
    try:
        numbers = [int(name) for name in os.listdir("/dev/fd")]
    except (OSError, ValueError):
        numbers = list(range(1024))
    found = set()
    for number in numbers:
        try:
            status = os.fstat(number)
        except OSError:
            continue
        found.add((status.st_dev, status.st_ino))
    return frozenset(found)


def head_of_open(found: os.stat_result, length: int) -> bytes:
    """Return the first bytes of a file this process has open, through the descriptor it has; empty when it cannot."""
    for name in os.listdir("/dev/fd") if os.path.isdir("/dev/fd") else []:
        try:
            status = os.fstat(int(name))
            if (status.st_dev, status.st_ino) == (found.st_dev, found.st_ino):
                return os.pread(int(name), length, 0)
        except OSError:
            continue
    return b""


def holders(paths: Iterable[bytes], *, include_self: bool = False) -> dict[bytes, list[int]]:
    """Return which of `paths` processes hold open (by device and inode), as path -> pids; one scan for all paths.

    Only processes whose /proc/PID/fd may be read are seen: all of them as root, one's own otherwise. This process
    is left out unless `include_self`.
    """
    wanted: dict[tuple[int, int], list[bytes]] = {}
    for path in paths:
        try:
            status = os.stat(path)
        except OSError:
            continue
        wanted.setdefault((status.st_dev, status.st_ino), []).append(path)
    if not wanted:
        return {}
    if os.path.isdir("/proc/self/fd"):
        pairs = _scan_proc(wanted)
    else:
        pairs = _scan_lsof(wanted)
    result: dict[bytes, list[int]] = {}
    for path, pid in pairs:
        if pid != os.getpid() or include_self:
            pids = result.setdefault(path, [])
            if pid not in pids:
                pids.append(pid)
    return result


def _scan_proc(wanted: dict[tuple[int, int], list[bytes]]) -> list[tuple[bytes, int]]:
    pairs = []
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        directory = f"/proc/{name}/fd"
        try:
            numbers = os.listdir(directory)
        except OSError:
            continue
        for number in numbers:
            try:
                held = os.stat(f"{directory}/{number}")
            except OSError:
                continue
            pairs += [(path, int(name)) for path in wanted.get((held.st_dev, held.st_ino), ())]
    return pairs


def _scan_lsof(wanted: dict[tuple[int, int], list[bytes]]) -> list[tuple[bytes, int]]:
    names = [path for paths in wanted.values() for path in paths]
    # lsof(8) -F: one field per line; `p` starts a process, `D` is the device in hex, `i` the inode of one descriptor.
    out = _ask(["lsof", "-w", "-F", "pDi", "--", *names])
    pairs: list[tuple[bytes, int]] = []
    pid = device = 0
    for line in out.splitlines():
        try:
            if line.startswith(b"p"):
                pid = int(line[1:])
            elif line.startswith(b"D"):
                device = int(line[1:], 16)
            elif line.startswith(b"i"):
                pairs += [(path, pid) for path in wanted.get((device, int(line[1:])), ())]
        except ValueError:
            continue
    return pairs


def lock_holder(fd: int, start: int, length: int) -> int | None:
    """Return the pid of another process with a POSIX record lock in this byte range, or None.

    Sees locks of every user's processes; 0 when the owner has no pid here (another pid namespace or host, or an
    open-file-description lock). Takes no lock. The caller's `close(fd)` drops this process's own locks: `open_here`.
    """
    if sys.platform == "linux":
        asked = struct.pack(_FLOCK, fcntl.F_WRLCK, os.SEEK_SET, start, length, 0)
    else:
        asked = struct.pack(_FLOCK, start, length, 0, fcntl.F_WRLCK, os.SEEK_SET)
    try:
        answer = struct.unpack(_FLOCK, fcntl.fcntl(fd, fcntl.F_GETLK, asked))
    except OSError:
        return None
    kind, pid = (answer[0], answer[4]) if sys.platform == "linux" else (answer[3], answer[2])
    return None if kind == fcntl.F_UNLCK else max(int(pid), 0)


def _ask(argv: Sequence[str | bytes]) -> bytes:
    try:
        return process.start(argv, env=process.clean_environment()).finish(_ASK_SECONDS).out
    except (OSError, subprocess.TimeoutExpired):
        return b""
