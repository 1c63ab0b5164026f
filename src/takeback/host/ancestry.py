"""The processes above this one: their command lines and whether they have a terminal.

Does not cover: systems without /proc, where nothing is known and the list is empty.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import NamedTuple


class Above(NamedTuple):
    """One process above: number, the words it was started with, and whether a terminal controls it."""

    pid: int
    words: tuple[str, ...]
    terminal: bool


def above() -> Iterator[Above]:
    """Yield the processes above this one, the nearest first, without number 1."""
    pid = os.getppid()
    while pid > 1:
        try:
            with open(f"/proc/{pid}/stat", "rb") as file:
                fields = file.read().rsplit(b")", 1)[1].split()
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                words = tuple(os.fsdecode(word) for word in file.read().split(b"\0")[:-1])
        except (OSError, IndexError):
            return
        yield Above(pid, words, fields[4] != b"0")  # proc(5): field 7 is tty_nr
        pid = int(fields[1])
