"""What is in a frozen disk layer, in one text that is cheap to make again: it differs once a file was cut or removed.

It is made of path, mode, size and time of change of each entry, in a fixed order, up to `LIMIT` of them: so it takes
one or two tenths of a second at most, at a save and before each restore. A save for copies alone makes none.

Does not cover: content that was changed while size and time were kept, and what lies behind the first `LIMIT` entries.
"""

from __future__ import annotations

import hashlib
import os
import stat
from pathlib import Path

LIMIT = 20_000


def summary(folder: Path, limit: int = LIMIT) -> tuple[str, int]:
    """Return the text for a folder, and how many entries were looked at. Raises OSError."""
    found = hashlib.blake2b(digest_size=16)
    top = os.fsencode(folder)
    waiting, seen = [top], 0
    while waiting and seen < limit:
        inside = waiting.pop()
        with os.scandir(inside) as entries:
            for entry in sorted(entries, key=lambda entry: entry.name):
                if seen == limit:
                    break
                seen += 1
                info = entry.stat(follow_symlinks=False)
                about = (info.st_size, info.st_mtime_ns, info.st_rdev)
                if stat.S_ISDIR(info.st_mode):
                    waiting.append(entry.path)
                    about = (0, 0, 0)  # its names say what is in it; filesystems differ in the rest
                found.update(b"%s\0%o %d %d %d\n" % (entry.path[len(top) :], info.st_mode, *about))
    return f"{seen}:{found.hexdigest()}", seen
