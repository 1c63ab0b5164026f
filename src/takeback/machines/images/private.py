"""Find what not every user of this machine may read: in a sandbox on this machine's root it is hidden from root too.

The engine's process reads files as whoever started it. If that is root, or the owner, the permissions that guard a file
from others here would not guard it from what runs inside.

Does not cover: folders that are hidden by name (`host`).
"""

from __future__ import annotations

import os
import stat
from collections import deque
from collections.abc import Set
from pathlib import Path

LIMIT = 200_000  # entries looked at below one folder: about a second


def below(root: Path, top: str, hidden: Set[str], *, limit: int = LIMIT) -> tuple[set[str], set[str]]:
    """Return files and sockets in and below `top`, and folders, that others may not read; nothing below `hidden`.

    Links are not followed: what they name is looked at where it is. Empty files have nothing to hide, and are often
    locks.
    """
    files: set[str] = set()
    folders: set[str] = set()
    waiting = deque([top])
    seen = 0
    while waiting and seen < limit:
        folder = waiting.popleft()
        try:
            with os.scandir(os.path.join(root, folder.lstrip("/"))) as entries:
                for entry in entries:
                    path = f"{folder}/{entry.name}"
                    seen += 1
                    if path in hidden:
                        continue
                    info = entry.stat(follow_symlinks=False)
                    mode = info.st_mode
                    if stat.S_ISDIR(mode):
                        if mode & 0o005 != 0o005:
                            folders.add(path)
                        else:
                            waiting.append(path)
                    elif stat.S_ISSOCK(mode) or (stat.S_ISREG(mode) and info.st_size and not mode & 0o004):
                        files.add(path)
        except OSError:
            continue  # what cannot be read here cannot be read inside either
    return {path for path in files if readable(root, path)}, {path for path in folders if readable(root, path)}


def readable(root: Path, path: str) -> bool:
    """Whether we could read it, and thus what runs inside."""
    place = os.path.join(root, path.lstrip("/"))
    return os.access(place, os.R_OK) or (os.path.isdir(place) and os.access(place, os.X_OK))
