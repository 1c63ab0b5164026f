"""What a command gives: its result, and its output as events with text cut where UTF-8 allows.

Does not cover: running it (`commands`).
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

Event = dict[str, Any]
_NAMES = ("stdout", "stderr")


@dataclass(frozen=True)
class CommandResult:
    """How a command ended and what it wrote.

    `exit_code` is None when it was out of time; 128+n when signal n ended it. A stream is cut at its first 64 KiB, or
    1 MiB where `timeout_ms` is over a minute or callbacks saw it all: `..._truncated` tells. `duration_ms` in ms.
    """

    exit_code: int | None = None
    stdout: str = ""
    stderr: str = ""
    timed_out: bool = False
    stdout_truncated: bool = False
    stderr_truncated: bool = False
    duration_ms: int = 0
    process_id: str = ""
    replayed: bool = False
    out_of_memory: dict[str, Any] | None = None
    files: dict[str, Any] | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the fields under the names of the hosted service; what there is none of is left out."""
        fields = {camel(name): getattr(self, name) for name in self.__dataclass_fields__}
        return {name: value for name, value in fields.items() if value is not None or name == "exitCode"}


class Collected:
    """The first `cap` bytes of each stream."""

    def __init__(self, cap: int) -> None:
        self._cap = cap
        self._held = (bytearray(), bytearray())
        self.cut = [False, False]

    def add(self, stderr: bool, data: bytes) -> None:
        held = self._held[stderr]
        room = self._cap - len(held)
        held += data if len(data) <= room else data[:room]
        self.cut[stderr] |= len(data) > room

    def clear(self) -> None:
        """Begin anew."""
        self._held, self.cut = (bytearray(), bytearray()), [False, False]

    def lost(self) -> None:
        """Note that output was lost, and nobody knows of which stream."""
        self.cut = [True, True]

    def result(self, end: Mapping[str, Any]) -> CommandResult:
        """Return it all with how the command ended; what the keeper let go is cut too."""
        self.cut = [self.cut[0] or end.get("stdoutTruncated", False), self.cut[1] or end.get("stderrTruncated", False)]
        return CommandResult(
            exit_code=end["exitCode"],
            stdout=self._text(False),
            stderr=self._text(True),
            timed_out=end["timedOut"],
            stdout_truncated=self.cut[0],
            stderr_truncated=self.cut[1],
            duration_ms=end["durationMs"],
            process_id=end["processId"],
            out_of_memory=end.get("outOfMemory"),
        )

    def _text(self, stderr: bool) -> str:
        held = bytes(self._held[stderr])
        return (held[: whole(held)] if self.cut[stderr] else held).decode("utf-8", "replace")


class Texts:
    """Makes events of output frames; what may be the beginning of a character waits for the rest of it."""

    def __init__(self, encoding: str = "utf8") -> None:
        self._base64 = encoding == "base64"
        self._held = [b"", b""]
        self._end = [0, 0]

    def feed(self, stderr: bool, offset: int, data: bytes) -> Iterator[Event]:
        """Give the events of one frame; `offset` counts the bytes of both streams together."""
        if not self._base64:
            data = self._held[stderr] + data
            cut = whole(data)
            self._held[stderr], self._end[stderr] = data[cut:], offset + len(data)
            # So that the offset and the length lead to where the next event begins.
            offset = offset + len(data) - len(self._held[stderr]) - cut
            data = data[:cut]
        if data:
            yield self._event(stderr, offset, data)

    def finish(self) -> Iterator[Event]:
        """Give what still waits: it was no character."""
        for stderr in (False, True):
            data, self._held[stderr] = self._held[stderr], b""
            if data:
                yield self._event(stderr, self._end[stderr] - len(data), data)

    def _event(self, stderr: bool, offset: int, data: bytes) -> Event:
        fields: dict[str, Any] = {"offset": max(offset, 0)}
        try:
            fields["data"] = data.decode("utf-8")
        except UnicodeDecodeError:
            fields["data"] = data.decode("utf-8", "replace")
            fields["base64"] = base64.b64encode(data).decode("ascii")
        if self._base64 and "base64" not in fields:
            fields["base64"] = base64.b64encode(data).decode("ascii")
        return event(_NAMES[stderr], fields)


def whole(data: bytes) -> int:
    """Return how many leading bytes of `data` do not end within a UTF-8 character."""
    for back in range(1, min(3, len(data)) + 1):
        byte = data[-back]
        if byte < 0x80:
            break
        if byte >= 0xC0:  # the first byte of a character of 2, 3 or 4, or (from 0xF5 on) of none
            need = 0 if byte >= 0xF5 else 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
            return len(data) - back if need > back else len(data)
    return len(data)


def event(kind: str, fields: Mapping[str, Any]) -> Event:
    """Return an event: `type` (also as `event`), and each field under both spellings, camelCase and snake_case."""
    result: Event = {"type": kind, "event": kind}
    for name, value in fields.items():
        result[name] = value
        result[snake(name)] = value
    return result


def snake(name: str) -> str:
    """`exitCode` -> `exit_code`"""
    return re.sub(r"[A-Z]", lambda found: "_" + found[0].lower(), name)


def camel(name: str) -> str:
    """`exit_code` -> `exitCode`, `memory_mib` -> `memoryMiB`."""
    words = name.split("_")
    return words[0] + "".join("MiB" if word == "mib" else word.title() for word in words[1:])
