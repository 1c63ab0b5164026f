"""aider at a pinned version, installed once into this clone's `.cache/agents`, beside those of `tests/agents`."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
import venv
from pathlib import Path

import pytest

from tests.agents import programs

PINNED = "aider-chat==0.86.2"
_NEWEST_PYTHON = (3, 12)
_PATIENCE = 600.0
_OFFLINE = ("NewConnectionError", "NameResolutionError", "No matching distribution", "ConnectTimeoutError")


def program() -> Path:
    """Return aider's executable, installed if need be; the test is skipped when that cannot be done here."""
    if sys.version_info[:2] > _NEWEST_PYTHON:
        pytest.skip(f"{PINNED} needs Python {'.'.join(map(str, _NEWEST_PYTHON))} or older")
    target = programs.CACHE / "aider"
    programs.CACHE.mkdir(parents=True, exist_ok=True)
    with open(programs.CACHE / "aider.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        stamp = target / "stamp"
        wanted = f"{PINNED} {sys.version}"
        if not stamp.is_file() or stamp.read_text("utf-8") != wanted:
            venv.create(target, clear=True, with_pip=True)
            _install(target)
            stamp.write_text(wanted, "utf-8")
    return target / "bin" / "aider"


def _install(target: Path) -> None:
    argv = [target / "bin" / "python", "-m", "pip", "install", "--quiet", "--no-input", PINNED]
    pip = subprocess.Popen(
        argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True
    )
    try:
        said = pip.communicate(timeout=_PATIENCE)[0].decode("utf-8", "replace")
    except BaseException:
        os.killpg(pip.pid, signal.SIGKILL)
        pip.communicate()
        raise
    if pip.returncode and any(word in said for word in _OFFLINE):
        pytest.skip(f"pip found no network to install {PINNED} from")
    assert pip.returncode == 0, said
