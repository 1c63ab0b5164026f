"""Who started this process: its ancestors, nearest first, with their words and what of their environment may be read.

Does not cover: what an ancestor means (`app.person`).
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass

from takeback.host import process

_DEEPEST = 200


@dataclass(frozen=True)
class Ancestor:
    """One process: its words, its program's path ("" when unknown), the names in its environment that can be seen."""

    pid: int
    argv: tuple[str, ...]
    program: str
    environ: frozenset[str]


def ancestors() -> Iterator[Ancestor]:
    """Yield this process's parent, that one's parent, and so on."""
    if sys.platform == "linux":
        yield from _of_proc(os.getppid())
    else:
        yield from _of_ps(os.getppid())


def _of_proc(pid: int) -> Iterator[Ancestor]:
    for _ in range(_DEEPEST):
        if pid <= 0:
            return
        try:
            with open(f"/proc/{pid}/stat", "rb") as file:
                parent = int(file.read().rsplit(b")", 1)[1].split()[1])
            argv = tuple(_read(f"/proc/{pid}/cmdline").rstrip("\0").split("\0"))
        except (OSError, ValueError, IndexError):
            return
        try:
            program = os.readlink(f"/proc/{pid}/exe")
        except OSError:
            program = ""
        names = frozenset(one.partition("=")[0] for one in _read(f"/proc/{pid}/environ").split("\0"))
        yield Ancestor(pid, argv, program, names)
        pid = parent


def _read(path: str) -> str:
    try:
        with open(path, "rb") as file:
            return os.fsdecode(file.read())
    except OSError:
        return ""


def _of_ps(pid: int) -> Iterator[Ancestor]:
    try:
        child = process.start(["ps", "-axo", "pid=,ppid=,command="], env=process.clean_environment())
        out = child.finish(10).out.decode("utf-8", "replace")
    except (OSError, subprocess.TimeoutExpired):
        return
    table: dict[int, tuple[int, str]] = {}
    for line in out.splitlines():
        fields = line.split(None, 2)
        if len(fields) == 3 and fields[0].isdigit() and fields[1].isdigit():
            table[int(fields[0])] = (int(fields[1]), fields[2])
    for _ in range(_DEEPEST):
        if pid not in table:
            return
        parent, command = table[pid]
        # ps gives one text; a program's path with blanks in it is not told apart, its last part still is.
        yield Ancestor(pid, tuple(command.split()), "", frozenset())
        pid = parent


def has_terminal(pid: int) -> bool:
    """Whether a terminal controls a process; False where that cannot be seen (without /proc)."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rsplit(b")", 1)[1].split()[4] != b"0"  # proc(5): field 7 is tty_nr
    except (OSError, IndexError):
        return False
