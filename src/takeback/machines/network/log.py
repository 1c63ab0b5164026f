"""What was decided about every connection: a bounded file of JSON lines.

A connection that was allowed has two lines, so that one that is open, or whose end was lost, is seen too: the decision,
and at its end the bytes and seconds. `entries` puts them together.

Does not cover: deciding (`rules`).
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Entry:
    """One decision; `time` is Unix seconds, `up` and `down` bytes from and to the sandbox, None while it is open."""

    id: int
    time: float
    method: str  # CONNECT, SOCKS5, or the request's for plain HTTP
    host: str
    port: int
    allowed: bool
    code: str
    why: str
    step: str = ""
    address: str = ""
    up: int | None = None
    down: int | None = None
    seconds: float | None = None
    ended: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return what has a value."""
        return {name: value for name, value in asdict(self).items() if value not in (None, "")}


class DecisionLog:
    """A log at `path`; at half of `max_bytes` it is renamed to `path.1`, which replaces an older one."""

    def __init__(self, path: Path, max_bytes: int = 8 << 20) -> None:
        self._path = path
        self._old = path.with_name(path.name + ".1")
        self._half = max_bytes // 2
        self._next = max((entry.id for entry in self.entries()), default=0)

    def next_id(self) -> int:
        self._next += 1
        return self._next

    def add(self, entry: Entry) -> None:
        """Write a decision. A full disk loses the line, never the connection."""
        self._write(entry.to_json())

    def end(self, id: int, *, up: int, down: int, seconds: float, ended: str) -> None:
        """Write how an allowed connection ended."""
        self._write({"end": id, "up": up, "down": down, "seconds": round(seconds, 3), "ended": ended})

    def _write(self, line: dict[str, Any]) -> None:
        try:
            with open(self._path, "a", encoding="utf-8") as file:
                file.write(json.dumps(line, separators=(",", ":")) + "\n")
                size = file.tell()
            if size >= self._half:
                self._path.replace(self._old)
        except OSError:
            pass

    def entries(self, limit: int | None = None) -> list[Entry]:
        """Return what is kept, oldest first; the last `limit`."""
        found: dict[int, Entry] = {}
        for line in self._lines():
            ended = line.pop("end", None)
            try:
                if ended is None:
                    entry = Entry(**line)
                    found[entry.id] = entry
                elif ended in found:
                    found[ended] = replace(found[ended], **line)
            except TypeError:
                continue  # of another version
        entries = list(found.values())
        return entries if limit is None else entries[max(0, len(entries) - limit) :]

    def _lines(self) -> Iterator[dict[str, Any]]:
        for path in (self._old, self._path):
            try:
                with open(path, encoding="utf-8", errors="replace") as file:
                    for text in file:
                        try:
                            line = json.loads(text)
                        except ValueError:
                            continue  # half a line, of a keeper that was killed
                        if isinstance(line, dict):
                            yield line
            except OSError:
                continue
