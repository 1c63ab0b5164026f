"""A Linux of our own as a process (User-mode Linux, Debian's package), for what this machine's is not set up for.

Its root is this machine's, read-only. Does not cover: machines of takeback's, which cannot run in it.
"""

from __future__ import annotations

import functools
import os
import shlex
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

import pytest

from takeback.errors import TakebackError
from takeback.host import apt, apt_sources, system
from tests.support.machines import TOP, offline

_FOLDER = TOP / ".cache" / "uml"
_PATIENCE = 120.0


@functools.cache
def kernel() -> Path:
    """Return the program, fetched once for the clone; skips the test where there is none."""
    program = _FOLDER / "usr" / "bin" / "linux.uml"
    if program.exists():
        return program
    if system.architecture() != "x86_64" or not apt.is_here() or not system.debian():
        pytest.skip("User-mode Linux comes from Debian, for x86-64")
    source = apt_sources.debian_source(system.debian())
    if source is None:
        pytest.skip("apt's sources name no Debian")
    try:
        with apt.private([source]) as private, tempfile.TemporaryDirectory(dir=TOP / ".cache") as made:
            private.update()
            private.unpack("user-mode-linux", Path(made))
            _FOLDER.mkdir(exist_ok=True)
            (Path(made) / "usr").rename(_FOLDER / "usr")
    except TakebackError as error:
        if offline(error):
            pytest.skip(str(error))
        raise
    return program


def run(command: Sequence[str | Path], folder: Path, *, memory_mib: int = 1024) -> str:
    """Run a command as root in it, with an empty /mnt, and return what it says; `folder` is for its own use."""
    script = folder / "begin"
    words = " ".join(shlex.quote(os.fspath(word)) for word in command)
    # Every process is ended before the power goes, else it waits for them.
    script.write_text(
        f"#!/bin/sh\nmount -t proc proc /proc\nmount -t sysfs sysfs /sys\nmount -t tmpfs tmpfs /mnt\n"
        f"{words} 2>&1\nkill -9 -1\necho o >/proc/sysrq-trigger\nsleep 10\n"
    )
    script.chmod(0o755)
    argv = [
        kernel(), f"mem={memory_mib}M", "root=/dev/root", "rootfstype=hostfs", "rootflags=/", "ro",
        f"init={script}", "con=null", "con0=null,fd:1", "quiet",
    ]  # fmt: skip
    env = {"PATH": os.defpath, "TMPDIR": os.fspath(folder), "HOME": os.fspath(folder)}
    done = subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, env=env, timeout=_PATIENCE, text=True)
    return done.stdout
