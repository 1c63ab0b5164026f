"""What was installed, as it was before: kept in the data directory, so that removing gives back the very bytes.

```
DATA/agents.json           one entry a file: agent, whose, path, was it there, hash of what we wrote, folders we made
DATA/agents/HASH           the bytes of a file as it was before
```

Does not cover: what is written (`installing`).
"""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import asdict, dataclass, field
from pathlib import Path

from takeback.app.agents.places import MARK
from takeback.host import atomic
from takeback.model import Hooked

_FORMAT = 1


@dataclass(frozen=True)
class Entry:
    """One changed file; `root` is the project's folder or "" for a person's own settings."""

    agent: str
    root: str
    path: str
    before: str | None  # hash of the bytes before, None when there was no file
    after: str  # hash of the bytes we wrote
    exact: bool = True  # whether `before` is without anything of ours
    made: list[str] = field(default_factory=list)  # folders made for it, the deepest first

    @property
    def has_hooks(self) -> bool:
        """Whether it is a settings file with hooks, not one of the commands of an agent."""
        return "/commands/" not in self.path and not self.path.endswith(".toml")


class Installed:
    """The list of a data directory."""

    def __init__(self, data: Path) -> None:
        self._data = data
        self.entries: dict[str, Entry] = {}
        try:
            known = json.loads((data / "agents.json").read_text("utf-8"))
            self.entries = {one["path"]: Entry(**one) for one in known["installed"]}
        except (OSError, ValueError, KeyError, TypeError):
            pass  # without the list, what is ours is still known by its text

    def keep(self, raw: bytes) -> str:
        """Keep the bytes of a file and return their hash."""
        name = digest(raw)
        folder = self._data / "agents"
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not (folder / name).exists():
            atomic.write_bytes(folder / name, raw)
        return name

    def kept(self, name: str) -> bytes | None:
        """Return bytes that were kept, None when they are gone or not what they were."""
        try:
            raw = (self._data / "agents" / name).read_bytes()
        except OSError:
            return None
        return raw if digest(raw) == name else None

    def backup(self, name: str) -> Path:
        """Return where the bytes are kept."""
        return self._data / "agents" / name

    def save(self) -> None:
        """Write the list."""
        self._data.mkdir(mode=0o700, parents=True, exist_ok=True)
        text = json.dumps({"format": _FORMAT, "installed": [asdict(one) for one in self.entries.values()]}, indent=1)
        atomic.write_bytes(self._data / "agents.json", text.encode())


def hooked(data: Path, root: str) -> tuple[Hooked, ...]:
    """Return the agents with hooks for a project, by the list and by what is still in the files; none is fired."""
    found = set()
    for one in Installed(data).entries.values():
        if one.root not in ("", root) or not one.has_hooks:
            continue
        try:
            if MARK in Path(one.path).read_text("utf-8", "replace"):
                found.add((one.agent, one.root == ""))
        except OSError:
            continue
    return tuple(Hooked(agent, user) for agent, user in sorted(found))


def digest(raw: bytes) -> str:
    """Return what tells one content from another."""
    return hashlib.sha256(raw).hexdigest()


def make_folders(folder: Path) -> list[str]:
    """Make a folder with those above it; returns which were made, the deepest first."""
    made = []
    at = folder
    while not at.is_dir():
        made.append(os.fspath(at))
        at = at.parent
    folder.mkdir(parents=True, exist_ok=True)
    return made
