"""The ignore rules that a files tree does not hold: what could not be seen must not be taken for what was not there.

A `.gitignore` that ignores itself (`*`) is no file git would see, and excludes files lie outside the worktree. Their
text goes with a checkpoint. Does not cover: `.gitignore` files in the files tree.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from typing import NamedTuple


class Rule(NamedTuple):
    """One rules file: its text, st_mode and mtime in ns (both 0 for lines of excludes files)."""

    text: bytes
    mode: int = 0
    mtime_ns: int = 0


Rules = dict[bytes, Rule]
EXCLUDES = b""  # the name for the lines of all excludes files, of which the last that matches counts
NAME = b".gitignore"


def is_rules(path: bytes) -> bool:
    """Whether git reads ignore rules from a path."""
    return path.rpartition(b"/")[2] == NAME


def read(root: bytes, ignored: Iterable[bytes], nested: Iterable[bytes], excludes: bytes) -> Rules:
    """Return the text of rules files among `ignored` paths, and at the top of `nested` repositories."""
    result: Rules = {}
    paths = {path for path in ignored if is_rules(path)} | {path + b"/" + NAME for path in nested}
    for path in sorted(paths):
        rule = _read(root + b"/" + path)
        if rule is not None:
            result[path] = rule
    lines = [line for line in excludes.splitlines() if line.strip() and not line.startswith(b"#")]
    if lines:
        result[EXCLUDES] = Rule(b"".join(line + b"\n" for line in lines))
    return result


def _read(full: bytes) -> Rule | None:
    """Git follows no link to rules in a worktree."""
    try:
        if not stat.S_ISREG(os.lstat(full).st_mode):
            return None
        with open(os.open(full, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            found = os.fstat(file.fileno())
            return Rule(file.read(), found.st_mode, found.st_mtime_ns)
    except OSError:
        return None


def to_json(rules: Rules) -> dict[str, list[object]]:
    """Return rules for a JSON document, bytes as latin-1."""
    return {path.decode("latin-1"): [rule.text.decode("latin-1"), *rule[1:]] for path, rule in sorted(rules.items())}


def from_json(data: dict[str, tuple[str, int, int]]) -> Rules:
    """Return what `to_json` was given."""
    return {path.encode("latin-1"): Rule(text.encode("latin-1"), *rest) for path, (text, *rest) in data.items()}
