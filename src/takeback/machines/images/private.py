"""Find what not every user of this machine may read: in a sandbox on this machine's root it is hidden from root too.

The engine's process reads files as whoever started it. If that is root, or the owner, the permissions that guard a file
from others here would not guard it from what runs inside. A folder that was not looked through is hidden as a whole.

Does not cover: folders that are hidden by name (`host`).
"""

from __future__ import annotations

import os
import stat
from collections import deque
from collections.abc import Set
from pathlib import Path
from typing import NamedTuple

LIMIT = 200_000  # entries looked at below one folder: about a second
_MOST_UNSEEN = 32  # each is a mount of its own


class Private(NamedTuple):
    """Files and sockets, and folders, that others may not read; and folders that nobody looked through."""

    files: set[str]
    folders: set[str]
    unseen: set[str]


def below(root: Path, top: str, hidden: Set[str], *, limit: int = LIMIT) -> Private:
    """Return what is to be hidden in and below `top`; nothing below `hidden`, and nothing below one that is `unseen`.

    Links are not followed: what they name is looked at where it is. Empty files have nothing to hide, and are often
    locks.
    """
    files: set[str] = set()
    folders: set[str] = set()
    waiting = deque([top])
    unseen: set[str] = set()
    left = limit
    while waiting:
        folder = waiting.popleft()
        try:
            with os.scandir(os.path.join(root, folder.lstrip("/"))) as entries:
                for entry in entries:
                    path = f"{folder}/{entry.name}"
                    if left == 0:
                        unseen |= {folder, *waiting}
                        waiting.clear()
                        break
                    left -= 1
                    if path in hidden:
                        continue
                    try:
                        info = entry.stat(follow_symlinks=False)
                    except FileNotFoundError:
                        continue  # it has gone meanwhile
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
    unseen = _few(unseen, top)
    files, folders = ({path for path in some if not inside(path, unseen)} for some in (files, folders))
    return Private(
        {path for path in files if readable(root, path)}, {path for path in folders if readable(root, path)}, unseen
    )


def _few(folders: set[str], top: str) -> set[str]:
    """Return folders, of which there are few, that all of `folders` lie in or are."""
    while len(folders) > _MOST_UNSEEN:
        deepest = max(path.count("/") for path in folders)
        folders = {
            os.path.dirname(path) if path != top and path.count("/") == deepest else path for path in folders
        }  # fmt: skip
    return {path for path in folders if not inside(path, folders - {path})}


def inside(path: str, folders: Set[str]) -> bool:
    """Whether a path is one of the folders or lies in one."""
    while path not in folders:
        if path in ("", "/"):
            return False
        path = os.path.dirname(path)
    return True


def readable(root: Path, path: str) -> bool:
    """Whether we could read it, and thus what runs inside."""
    place = os.path.join(root, path.lstrip("/"))
    return os.access(place, os.R_OK) or (os.path.isdir(place) and os.access(place, os.X_OK))
