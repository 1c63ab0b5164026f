"""Take a folder away at once: moved aside now, deleted while nobody waits.

Does not cover: a folder on another filesystem than its trash.
"""

from __future__ import annotations

import os
import subprocess
import sys
import uuid
from contextlib import suppress

from takeback.host import process

# Runs alone, after whoever started it may be gone. What one that was killed left is deleted by the next.
_DELETE = """
import os, shutil, sys
trash = os.fsencode(sys.argv[1])
for folder, _, _ in os.walk(trash):
    try:
        os.chmod(folder, 0o700)  # dependencies are at times installed read-only
    except OSError:
        pass
for name in os.listdir(trash):
    shutil.rmtree(os.path.join(trash, name), ignore_errors=True)
"""

_at_work: list[subprocess.Popen[bytes]] = []


def discard(path: bytes, trash: bytes) -> bool:
    """Move a folder into `trash`, made when missing, and begin to delete all that is there; False if it cannot move."""
    try:
        os.makedirs(trash, mode=0o700, exist_ok=True)
        os.rename(path, os.path.join(trash, uuid.uuid4().hex.encode()))
    except OSError:
        return False
    _at_work[:] = [one for one in _at_work if one.poll() is None]
    with suppress(OSError):
        _at_work.append(_begin(trash))  # nobody waits for it: it is init's when this process ends first
    return True


def clear(trash: bytes) -> None:
    """Delete what is still in `trash`, and wait until it is gone."""
    if os.path.isdir(trash):
        with suppress(OSError):
            _begin(trash).wait()


def _begin(trash: bytes) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable or "python3", "-I", "-S", "-c", _DELETE, os.fsdecode(trash)],
        env=process.clean_environment(), cwd="/", stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL, start_new_session=True,
    )  # fmt: skip
