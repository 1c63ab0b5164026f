"""Reads a program's words into options and operands, as getopt would.

Does not cover: which options take a value (rules say so).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass


@dataclass(slots=True)
class Parsed:
    """Options with their values ("" for a bare one), operands, and where in the words each operand stands."""

    options: dict[str, list[str]]
    operands: list[str]
    places: list[int]
    dashes: int  # where `--` stands, -1 when it does not

    def has(self, *names: str) -> bool:
        """Whether one of the options was given."""
        return any(name in self.options for name in names)

    def values(self, *names: str) -> list[str]:
        """All values of these options, in no order of their own."""
        return [value for name in names for value in self.options.get(name, ())]


def read(
    words: Sequence[str],
    *,
    values: Collection[str] = (),
    long_style: bool = False,
    stop: int | None = None,
    stops: Mapping[str, int] | None = None,
    ends: Collection[str] = (),
) -> Parsed:
    """Read `words` (without the program's name).

    Options end after `stop` operands, or as `stops` says by the first operand, or behind an option of `ends`.
    """
    options: dict[str, list[str]] = {}
    operands: list[str] = []
    places: list[int] = []
    dashes = -1
    number, end = 0, len(words)
    while number < end:
        word = words[number]
        if len(word) < 2 or word[0] != "-" or (stop is not None and len(operands) >= stop):
            operands.append(word)
            places.append(number)
            if stops and len(operands) == 1:
                stop = stops.get(word, stop)
            number += 1
            continue
        if word == "--":
            dashes = number
            operands.extend(words[number + 1 :])
            places.extend(range(number + 1, end))
            break
        if word[1] == "-" or long_style:
            name, equals, value = word.partition("=")
            if not equals and name in values and number + 1 < end:
                number += 1
                value = words[number]
            options.setdefault(name, []).append(value)
            if name in ends:
                stop = 0
            if long_style:
                options.setdefault(name[1:] if word[1] == "-" else "-" + name, []).append(value)
            number += 1
            continue
        last = _cluster(words, number, values, options)
        if ends and any(name in ends for name in ("-" + letter for letter in word[1:]) if name in options):
            stop = 0
        number = last + 1
    return Parsed(options, operands, places, dashes)


def _cluster(words: Sequence[str], number: int, values: Collection[str], options: dict[str, list[str]]) -> int:
    """Read `-abc`; returns where the last word that belongs to it stands."""
    word = words[number]
    if word in values and number + 1 < len(words):
        options.setdefault(word, []).append(words[number + 1])
        return number + 1
    if len(word) > 2:
        # Some programs have long options with one dash.
        options.setdefault(word.partition("=")[0], []).append(word.partition("=")[2])
    for at, letter in enumerate(word[1:], 1):
        name = "-" + letter
        if name not in values:
            options.setdefault(name, []).append("")
            continue
        rest = word[at + 1 :]
        if not rest and number + 1 < len(words):
            number += 1
            rest = words[number]
        options.setdefault(name, []).append(rest)
        break
    return number
