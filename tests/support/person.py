"""A person at a terminal of their own, and an agent's step: who calls the real command line."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from tests.cli.terminal import read_all
from tests.support.cli import PATIENCE, Home, Result, _parsed, wait_for

_DETACHED = Path(__file__).with_name("detached.py")


def at_own_terminal(
    home: Home, cwd: str | bytes | Path, *args: str, env: Mapping[str, str] | None = None, answer: bytes = b""
) -> Result:
    """Run takeback in a session and on a terminal of its own, with nothing of the tests among its ancestors.

    stdout and stderr both come in `out`, as the terminal shows them.
    """
    result = home.temp / f"code-{os.urandom(6).hex()}"
    command = [*home.python, "-m", "takeback", *args]
    master, slave = pty.openpty()
    starter = subprocess.run(
        [sys.executable, str(_DETACHED), str(result), *command],
        cwd=cwd, env=home.env({"TERM": "xterm", "COLUMNS": "200", **(env or {})}), timeout=PATIENCE,
        stdin=slave, stdout=slave, stderr=slave,
    )  # fmt: skip
    assert starter.returncode == 0
    os.close(slave)
    if answer:
        os.write(master, answer)
    seen = read_all(master).replace(b"\r\n", b"\n")
    os.close(master)
    wait_for(result.exists)
    code = int(result.read_text())
    result.unlink()
    return Result(args, code, seen, b"", _parsed(seen))


def by_program(home: Home, cwd: str | bytes | Path, program: Path, *args: str, script: Path | None = None) -> Result:
    """Run takeback as a child of `program`, a name for the interpreter, which may run it from a `script`."""
    if not program.exists():
        program.parent.mkdir(parents=True, exist_ok=True)
        program.symlink_to(home.python[0])
    source = "import subprocess, sys; sys.exit(subprocess.run(sys.argv[1:]).returncode)"
    if script is not None:
        script.parent.mkdir(parents=True, exist_ok=True)
        script.write_text(source)
    words = [str(script)] if script is not None else ["-c", source]
    done = subprocess.run(
        [str(program), *words, *home.python, "-m", "takeback", *args],
        cwd=cwd, env=home.env({"PYTHONPATH": os.pathsep.join(sys.path)}), capture_output=True, timeout=PATIENCE,
        stdin=subprocess.DEVNULL,
    )  # fmt: skip
    return Result(args, done.returncode, done.stdout, done.stderr, _parsed(done.stdout))
