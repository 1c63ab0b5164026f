"""What a worktree's last scan knew, so that the next one reads only what changed.

A cache: losing it costs time, never content. Does not cover: stat data of unchanged files (the private index has it).
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from takeback.files import rules as rule_files
from takeback.files.databases import Copy
from takeback.files.reader import Seen, Stamp
from takeback.files.sqlite_copy import Signature
from takeback.host import atomic
from takeback.model import Entry, NotCovered

_FORMAT = 1
DirStamp = tuple[int, int, int, int, int]  # mode, uid, gid, mtime_ns, ctime_ns


@dataclass
class Cursor:
    """`tree` is the last files tree; `overlay` what is known beyond the private index (None: deleted)."""

    tree: str | None = None
    dirs: dict[bytes, DirStamp] = field(default_factory=dict)
    overlay: dict[bytes, Seen | None] = field(default_factory=dict)
    recheck: set[bytes] = field(default_factory=set)
    nested: set[bytes] = field(default_factory=set)
    skipped: dict[bytes, str] = field(default_factory=dict)
    rules: str = ""
    unseen_rules: rule_files.Rules = field(default_factory=dict)
    files: int = 0
    state: str | None = None
    state_skipped: list[NotCovered] = field(default_factory=list)
    git: dict[str, Any] = field(default_factory=dict)
    links: dict[bytes, int] = field(default_factory=dict)
    databases: dict[bytes, tuple[Signature, Copy]] = field(default_factory=dict)
    last: str = ""
    index: list[int] | None = None  # size and mtime of the private index it fits

    def forget_files(self) -> None:
        """Start again with the files of the worktree."""
        self.tree = None
        self.dirs, self.overlay, self.skipped = {}, {}, {}
        self.recheck, self.nested = set(), set()
        self.files = 0

    def save(self, path: Path) -> None:
        """Write the cursor; not durable, since it can always be made again."""
        data = {
            "format": _FORMAT,
            "tree": self.tree,
            "dirs": {_text(name): stamp for name, stamp in self.dirs.items()},
            "overlay": {
                _text(name): None if seen is None else [seen.entry, seen.stamp, seen.trusted]
                for name, seen in self.overlay.items()
            },
            "recheck": [_text(name) for name in self.recheck],
            "nested": [_text(name) for name in self.nested],
            "skipped": {_text(name): why for name, why in self.skipped.items()},
            "rules": self.rules,
            "unseen_rules": rule_files.to_json(self.unseen_rules),
            "files": self.files,
            "state": self.state,
            "state_skipped": [[_text(item.path), item.why, item.rebuild] for item in self.state_skipped],
            "git": self.git,
            "links": {_text(name): mtime for name, mtime in self.links.items()},
            "databases": {
                _text(name): [stamp, {_text(part): oid for part, oid in copy.items()}]
                for name, (stamp, copy) in self.databases.items()
            },
            "last": self.last,
            "index": self.index,
        }
        atomic.write_bytes(path, json.dumps(data, separators=(",", ":")).encode(), durable=False)


def load(path: Path) -> Cursor:
    """Return the saved cursor; an empty one when there is none, or it is damaged or of another format."""
    try:
        data = json.loads(path.read_bytes())
        if data["format"] != _FORMAT:
            return Cursor()
        return Cursor(
            tree=data["tree"],
            dirs={_bytes(name): tuple(stamp) for name, stamp in data["dirs"].items()},
            overlay={
                _bytes(name): None if seen is None else Seen(Entry(*seen[0]), Stamp(*seen[1]), seen[2])
                for name, seen in data["overlay"].items()
            },
            recheck={_bytes(name) for name in data["recheck"]},
            nested={_bytes(name) for name in data["nested"]},
            skipped={_bytes(name): why for name, why in data["skipped"].items()},
            rules=data["rules"],
            unseen_rules=rule_files.from_json(data["unseen_rules"]),
            files=data["files"],
            state=data["state"],
            state_skipped=[NotCovered(_bytes(name), why, make) for name, why, make in data["state_skipped"]],
            git=data["git"],
            links={_bytes(name): mtime for name, mtime in data["links"].items()},
            databases={
                _bytes(name): (
                    tuple(tuple(part) for part in stamp),
                    {_bytes(part): oid for part, oid in copy.items()},
                )
                for name, (stamp, copy) in data["databases"].items()
            },
            last=data["last"],
            index=data.get("index"),
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return Cursor()


def _text(name: bytes) -> str:
    return name.decode("latin-1")


def _bytes(name: str) -> bytes:
    return name.encode("latin-1")
