"""A command on a pseudo-terminal: what a person would see, and what they would answer."""

from __future__ import annotations

import os
import pty
import subprocess
from collections.abc import Mapping
from pathlib import Path

from tests.support.cli import PATIENCE, Home


def on_terminal(
    home: Home, cwd: str | bytes | Path, *args: str, answer: bytes = b"", env: Mapping[str, str] | None = None
) -> tuple[int, str]:
    """Run takeback with all three streams on a terminal, `answer` typed ahead; return exit code and what was shown."""
    master, slave = pty.openpty()
    terminal = {"TERM": "xterm-256color", "COLUMNS": "100", "LINES": "40", **(env or {})}
    process = home.start(cwd, *args, env=terminal, stdin=slave, stdout=slave, stderr=slave)
    os.close(slave)
    if answer:
        os.write(master, answer)
    seen = read_all(master)
    os.close(master)
    return process.wait(PATIENCE), seen.decode().replace("\r\n", "\n")


def read_all(master: int) -> bytes:
    """Read a terminal until its other side is closed, which Linux reports as EIO."""
    seen = b""
    while True:
        try:
            chunk = os.read(master, 4096)
        except OSError:
            return seen
        if not chunk:
            return seen
        seen += chunk


def start_on_terminal(argv: list[str], env: Mapping[str, str]) -> tuple[subprocess.Popen[bytes], int]:
    """Start any program with only stderr on a terminal; return it and the terminal's master."""
    master, slave = pty.openpty()
    process = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=slave, env=env)
    os.close(slave)
    return process, master
