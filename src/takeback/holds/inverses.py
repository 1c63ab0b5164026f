"""What would undo an action that leaves this machine, if anything, and for how long: a table by effect, as data.

The table is `inverses.table`, which says how it is read. Does not cover: doing it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cache
from importlib import resources
from typing import NamedTuple

from takeback.guard.model import Class, Verdict, What

_GIT = r"\bgit( -[cC] \S+| -[\w-]+)* "


class Inverse(NamedTuple):
    """One entry: `looks` is searched in a command whose words are separated by single blanks."""

    effect: str
    looks: str
    undo: str
    window: str = ""

    @property
    def words(self) -> str:
        """The inverse with its window, for people."""
        return f"{self.undo} ({self.window})" if self.window else self.undo


@cache
def table() -> tuple[Inverse, ...]:
    """Return all entries."""
    return tuple(_entries(resources.files("takeback.holds").joinpath("inverses.table").read_text(encoding="utf-8")))


def _entries(text: str) -> Iterator[Inverse]:
    for block in re.split(r"^@ ", text, flags=re.MULTILINE)[1:]:
        effect, *lines = block.strip().splitlines()
        said: dict[str, list[str]] = {"looks": [], "undo": [], "window": []}
        for line in lines:
            word, _, rest = line.partition(" ")
            said[word].append(rest)
        looks = "|".join(re.sub(r"^GIT ", lambda _: _GIT, one) for one in said["looks"])
        yield Inverse(effect.strip(), looks, " ".join(said["undo"]), " ".join(said["window"]))


@cache
def _compiled() -> tuple[tuple[Inverse, re.Pattern[str]], ...]:
    return tuple((row, re.compile(row.looks)) for row in table())


def _named(effect: str) -> Inverse:
    return next(row for row in table() if row.effect == effect)


def of_command(command: str) -> Inverse | None:
    """Return the row that fits one command."""
    words = " ".join(command.split())
    return next((row for row, looks in _compiled() if looks.search(words)), None)


def of(verdict: Verdict) -> tuple[Inverse, ...]:
    """Return the rows for all that leaves this machine in a step, each once, in the order of the commands."""
    found: dict[Inverse, None] = {}
    for part in verdict.part.walk():
        outside = [effect for effect in part.effects if effect.cls is Class.OUTSIDE]
        if not outside:
            continue
        row = of_command(part.text)
        if row is None and any(effect.what is What.DATABASE for effect in outside):
            row = _named("database")
        if row is None and any(effect.method for effect in outside):
            row = _named("api")
        if row is not None:
            found[row] = None
    return tuple(found)


def in_words(rows: Sequence[Inverse]) -> str:
    """Return what would undo a step, "" when nothing is known to."""
    return "; ".join(row.words for row in rows)
