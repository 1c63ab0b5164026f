"""Copy a directory with everything in it, sharing the blocks where the filesystem can.

Does not cover: trees of a project that are saved (`files`).
"""

from __future__ import annotations

import os
import sys

from takeback.errors import CannotRead
from takeback.host import process

_SECONDS = 1800.0
# cp(1) of GNU and of macOS; `-c` clones there, and copies where it cannot.
_CP = ("cp", "-Rpc") if sys.platform == "darwin" else ("cp", "-a", "--reflink=auto")


def clone(source: bytes, target: bytes) -> None:
    """Make `target` a copy of the directory `source`. Raises CannotRead when not all of it could be copied."""
    try:
        done = process.start([*_CP, source, target], env=process.clean_environment()).finish(_SECONDS)
    except process.TimeoutExpired:
        raise CannotRead(path=os.fsdecode(source), why=f"the copy took longer than {_SECONDS:.0f} s") from None
    if done.code != 0:
        why = done.err.decode("utf-8", "replace").strip().splitlines()
        raise CannotRead(path=os.fsdecode(source), why=why[-1] if why else f"cp ended with {done.code}")
