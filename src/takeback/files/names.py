"""Names inside stored trees: which ones git reserves, and how they and sizes are written for people.

Does not cover: names on disk, which are any bytes but `/` and NUL.
"""

from __future__ import annotations

import re

# A tree may not hold `.git` in any letter case, and `%meta` is ours. One more `%` in front makes room for both:
# `.git` -> `%.git`, `%.git` -> `%%.git`, `%meta` -> `%%meta`.
_RESERVED = re.compile(rb"%*\.git|%+meta", re.IGNORECASE)
META = b"%meta"


def stored(name: bytes) -> bytes:
    """Return how a name on disk is written in a tree."""
    return b"%" + name if _RESERVED.fullmatch(name) else name


def on_disk(name: bytes) -> bytes:
    """Return the name on disk of a name in a tree."""
    return name[1:] if name[:1] == b"%" and _RESERVED.fullmatch(name[1:]) else name


def has_dot_git(path: bytes) -> bool:
    """Whether git's index would refuse the path because a component is `.git` in some letter case."""
    return b".git" in path.lower() and any(part.lower() == b".git" for part in path.split(b"/"))


def parents(path: bytes) -> list[bytes]:
    """Return the directories above a path, outermost first, without the root."""
    parts = path.split(b"/")
    return [b"/".join(parts[:count]) for count in range(1, len(parts))]


def show(path: bytes) -> str:
    """Return a path for messages: UTF-8 where it is, escapes where it is not, control characters visible."""
    text = path.decode("utf-8", "backslashreplace")
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)


def human(size: float) -> str:
    """Return a size in words, in powers of 1024."""
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if size < 1024 or unit == "GiB":
            return f"{size:.0f} {unit}" if unit == "bytes" else f"{size:.1f} {unit}"
        size /= 1024
    raise AssertionError
