"""What differs between two states of a sandbox's files: entries, listings, and the answer a caller sees.

Does not cover: reading the layers of an overlay (`overlay`), or listing what is inside (`keeper.listings`).
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

# What is not on the disk, and what a copy's own identity changes.
EXCLUDED = frozenset(
    os.fsencode(path)
    for path in (
        "/.takeback", "/dev", "/etc/hostname", "/etc/machine-id", "/proc", "/run", "/sys", "/tmp",
        "/var/lib/dbus/machine-id", "/var/tmp",
    )
)  # fmt: skip
_TYPES = {stat.S_IFREG: "file", stat.S_IFDIR: "directory", stat.S_IFLNK: "symlink"}


@dataclass(frozen=True, slots=True)
class Entry:
    """One name: `size` in bytes (0 but for files), `target` of a link."""

    type: str
    size: int
    mode: int
    uid: int
    gid: int
    mtime_ns: int
    target: str = ""

    @classmethod
    def of(cls, found: os.stat_result, target: str = "") -> Entry:
        """Return the entry of a path on this machine."""
        kind = _TYPES.get(stat.S_IFMT(found.st_mode), "other")
        size = found.st_size if kind == "file" else 0
        mode = stat.S_IMODE(found.st_mode)
        return cls(kind, size, mode, found.st_uid, found.st_gid, found.st_mtime_ns, target)

    def alike(self, other: Entry) -> bool:
        """Whether all but content and time is the same."""
        return (self.type, self.size, self.mode, self.uid, self.gid, self.target) == (
            other.type, other.size, other.mode, other.uid, other.gid, other.target,
        )  # fmt: skip


@dataclass
class Changes:
    """Paths as bytes, with what was there before and what is there now."""

    found: list[tuple[bytes, Entry | None, Entry | None]] = field(default_factory=list)

    def note(self, path: bytes, before: Entry | None, after: Entry | None) -> None:
        self.found.append((path, before, after))

    def to_dict(self) -> dict[str, Any]:
        """Return `added`, `changed` and `deleted`, each a list of path, type, size and oldSize sorted by path.

        `totals` counts each, `bytes` is what the added and changed files hold. A name that is not UTF-8 is in `path` as
        `os.fsdecode` gives it.
        """
        lists: dict[str, list[dict[str, Any]]] = {"added": [], "changed": [], "deleted": []}
        held = 0
        for path, before, after in sorted(self.found, key=lambda one: one[0]):
            now = after or before
            assert now is not None
            kind = "added" if before is None else "deleted" if after is None else "changed"
            held += after.size if after is not None else 0
            lists[kind].append(
                {
                    "path": os.fsdecode(path),
                    "type": now.type,
                    "size": after.size if after is not None else None,
                    "oldSize": before.size if before is not None else None,
                }
            )
        return {**lists, "totals": {name: len(entries) for name, entries in lists.items()}, "bytes": held}


def between(before: Mapping[bytes, Entry], after: Mapping[bytes, Entry]) -> Changes:
    """Compare two listings. What each file held is not known: another time at the same size counts as a change."""
    changes = Changes()
    for path in before.keys() | after.keys():
        old, new = before.get(path), after.get(path)
        if old is not None and new is not None:
            if old.alike(new) and (new.type != "file" or old.mtime_ns == new.mtime_ns):
                continue
        changes.note(path, old, new)
    return changes


def is_excluded(path: bytes) -> bool:
    """Whether a whole path is one of EXCLUDED; what is below one never comes up when that is asked first."""
    return path in EXCLUDED
