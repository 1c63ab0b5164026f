"""A tiny filesystem of our own, that can be filled to the last bytes.

Does not cover: machines where one may not mount; there the tests are skipped.
"""

from __future__ import annotations

import errno
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

_BALLAST = "ballast"


class Disk:
    """A mounted tmpfs."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def free(self) -> int:
        """Bytes that are left."""
        found = os.statvfs(self.path)
        return found.f_bavail * found.f_frsize

    def fill(self, leave: int) -> None:
        """Fill it until at most `leave` bytes are left."""
        with open(self.path / _BALLAST, "ab") as file:
            rest = self.free - leave
            while rest > 0:
                try:
                    rest -= os.write(file.fileno(), b"\0" * min(rest, 1 << 20))
                except OSError as error:
                    assert error.errno == errno.ENOSPC
                    return

    def empty(self) -> None:
        """Give the space back."""
        (self.path / _BALLAST).unlink(missing_ok=True)


@contextmanager
def mounted(path: Path, size: int) -> Iterator[Disk]:
    """Mount a tmpfs of `size` bytes at a new folder for the block."""
    path.mkdir(parents=True)
    argv = ["mount", "-t", "tmpfs", "-o", f"size={size},mode=0755", "takeback-test", str(path)]
    try:
        done = subprocess.run(argv, capture_output=True)
    except FileNotFoundError:
        pytest.skip("no mount command")
    if done.returncode != 0:
        pytest.skip(f"may not mount here: {done.stderr.decode(errors='replace').strip()}")
    try:
        yield Disk(path)
    finally:
        subprocess.run(["umount", str(path)], check=True)
