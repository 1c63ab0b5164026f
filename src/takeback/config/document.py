"""A settings file as it is read: its tables, the line a key stands in, and the error that names both.

Does not cover: which keys there are (`config`, `config.policy`).
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from takeback.errors import BadSetting, CannotRead

_HEADER = re.compile(r"\s*(\[\[?)\s*([^\]#]+?)\s*\]\]?\s*(?:#.*)?$")
_KEY = re.compile(r"\s*((?:[\w-]+|\"[^\"]*\"|'[^']*')(?:\s*\.\s*(?:[\w-]+|\"[^\"]*\"|'[^']*'))*)\s*=")


@dataclass(frozen=True)
class Document:
    """One file: its path, text and tables; without a file all are empty."""

    path: Path
    text: str = ""
    tables: dict[str, Any] = field(default_factory=dict)

    def line(self, *keys: str, nth: int = 0) -> int | str:
        """Return the line of a key by its path (`policy`, `outside`), of the nth table of an array; "?" if not found.

        A key inside a value of its own, as in `hosts = {allow = []}`, has the line of that.
        """
        for length in range(len(keys), 0, -1):
            wanted = ".".join(keys[:length])
            header, counts = "", {"": 0}
            for number, line in enumerate(self.text.splitlines(), 1):
                found = _HEADER.match(line)
                if found:
                    header = _plain(found[2])
                    counts[header] = counts.get(header, -1) + 1
                    here = header
                elif given := _KEY.match(line):
                    here = f"{header}.{_plain(given[1])}".lstrip(".")
                else:
                    continue
                if (here == wanted or here.startswith(wanted + ".")) and counts[header] >= nth:
                    return number
        return "?"

    def bad(self, line: int | str, problem: str, nearest: str) -> BadSetting:
        """Return the error for a line of this file."""
        return BadSetting(file=os.fspath(self.path), line=line, problem=problem, nearest=nearest)

    def unknown(self, what: str, key: str, known: Iterable[str], *path: str, nth: int = 0) -> BadSetting:
        """Return the error for a key that is not known, with the nearest right one."""
        problem = f"unknown {what} `{key}`"
        return self.bad(self.line(*path, key, nth=nth), problem, near(key, known))


def near(text: str, known: Iterable[str]) -> str:
    """Return what may have been meant, else all there is."""
    import difflib  # only for who made a mistake

    known = list(known)
    found = difflib.get_close_matches(text, known, 1, 0.4)
    return f"did you mean `{found[0]}`?" if found else f"known are: {', '.join(sorted(known))}"


def resembles(text: str, word: str) -> bool:
    """Whether `word` was probably meant."""
    import difflib

    return bool(difflib.get_close_matches(text.lower(), [word], 1, 0.7))


def read(path: Path) -> Document:
    """Read a settings file; one that is not there is empty. Raises BadSetting with the line, CannotRead.

    Where only `[policy]` cannot be read, the rest is: that mistake is told with the policy.
    """
    raw = read_bytes(path)
    try:
        return parse(path, raw)
    except BadSetting:
        rest = _beside_policy(raw)
        if rest == raw:
            raise
        try:
            return parse(path, rest)
        except BadSetting:
            pass
        raise


def read_bytes(path: Path) -> bytes:
    """Return the content of a settings file, empty when it is not there. Raises CannotRead."""
    try:
        return path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return b""
    except OSError as error:
        raise CannotRead(path=os.fspath(path), why=error.strerror) from error


def parse(path: Path, raw: bytes) -> Document:
    """Read the content of a settings file. Raises BadSetting with the line."""
    if not raw.strip():
        return Document(path)
    import tomllib  # a hook without settings starts without it

    try:
        text = raw.decode()
        return Document(path, text, tomllib.loads(text))
    except tomllib.TOMLDecodeError as error:
        line = re.search(r"line (\d+)", str(error))
        nearest = "mend it, or remove the line"
        raise Document(path).bad(line[1] if line else "?", str(error), nearest) from None
    except (UnicodeDecodeError, RecursionError):
        raise Document(path).bad("?", "not UTF-8 text", "save it as UTF-8") from None


def _beside_policy(raw: bytes) -> bytes:
    """Return a file's content with the lines of `[policy]` empty."""
    lines = raw.split(b"\n")
    inside = False
    for number, line in enumerate(lines):
        if re.match(rb"\s*\[", line):
            inside = re.match(rb"\s*\[\[?\s*[\"']?policy\b", line) is not None
        if inside or re.match(rb"\s*policy\s*[.=]", line):
            lines[number] = b""
    return b"\n".join(lines)


def _plain(dotted: str) -> str:
    return ".".join(part.strip().strip("\"'") for part in dotted.split("."))
