"""What went wrong in hooks, kept in a small file until a person has seen it.

    1764576000 claude PreToolUse: it ended by signal 9

Does not cover: looking for what is wrong (`doctor`).
"""

from __future__ import annotations

import os
import time
from pathlib import Path

_NAME = "hook-trouble"
_MOST = 50
_LONGEST = 300


def note(data: Path, host: str, event: str, why: str) -> None:
    """Add a line; a full or read-only disk costs the line and nothing else."""
    line = f"{int(time.time())} {host} {event}: {why}"[:_LONGEST].replace("\n", " ")
    try:
        data.mkdir(mode=0o700, parents=True, exist_ok=True)
        lines = [*read(data), line][-_MOST:]
        # In place: a torn line is worth no temporary file that a kill would leave.
        with open(os.open(data / _NAME, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
            file.write("\n".join(lines) + "\n")
    except OSError:
        pass


def read(data: Path) -> list[str]:
    """Return the lines, oldest first."""
    try:
        return (data / _NAME).read_text("utf-8", "replace").splitlines()
    except OSError:
        return []


def clear(data: Path) -> None:
    """Forget them, when a person has seen them."""
    (data / _NAME).unlink(missing_ok=True)


def sentence(data: Path) -> str:
    """Return what a session is told about it, or an empty string."""
    lines = read(data)
    if not lines:
        return ""
    times = "once" if len(lines) == 1 else f"{len(lines)} times"
    return f"A hook of takeback failed {times} since `takeback doctor` was last asked."
