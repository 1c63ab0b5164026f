"""One pattern of a rule, compiled, and how specific it is.

Does not cover: entries and their lines (`notation`).
"""

from __future__ import annotations

import fnmatch
import re
from dataclasses import dataclass, field

from takeback.guard.later import pattern
from takeback.guard.model import Deed
from takeback.guard.options import Parsed

_GLOB = pattern(r"[*?\[]")


@dataclass(frozen=True, slots=True)
class Call:
    """One deed of a rule: a class or a handler, with its arguments."""

    name: str
    args: tuple[str, ...] = ()

    @property
    def rank(self) -> tuple[int, int]:
        """How heavy it is, for two patterns that fit equally well."""
        if self.name.upper() in Deed.__members__:
            cls, reason = Deed[self.name.upper()].value
            return (cls, reason is not None)
        return (2, 1)


class Words:
    """One operand's alternatives."""

    __slots__ = ("exact", "globs")

    def __init__(self, text: str) -> None:
        parts = text.split("|")
        self.exact = frozenset(part for part in parts if not _GLOB.search(part))
        globs = [fnmatch.translate(part) for part in parts if _GLOB.search(part)]
        self.globs = re.compile("|".join(globs)) if globs else None

    def __contains__(self, word: str) -> bool:
        return word in self.exact or (self.globs is not None and self.globs.match(word) is not None)


@dataclass(slots=True)
class Pattern:
    """A compiled pattern; `weight` says how specific it is."""

    calls: tuple[Call, ...]
    mode: str
    path: list[Words | None] = field(default_factory=list)
    ends: bool = False
    verb: Words | None = None
    options: list[tuple[tuple[str, ...], Words | None, bool]] = field(default_factory=list)
    some: Words | None = None
    weight: int = 0

    def fits(self, parsed: Parsed, verb: str | None) -> bool:
        """Whether the words that were read are of this kind."""
        operands = parsed.operands
        if len(operands) < len(self.path) or (self.ends and len(operands) != len(self.path)):
            return False
        for known, word in zip(self.path, operands, strict=False):
            if known is not None and word not in known:
                return False
        if self.verb is not None and (verb is None or verb not in self.verb):
            return False
        for names, value, wanted in self.options:
            given = [one for name in names if name in parsed.options for one in parsed.options[name]]
            found = bool(given) if value is None else any(one in value for one in given)
            if found is not wanted:
                return False
        return self.some is None or any(word in self.some for word in operands)


def better(one: Pattern | None, other: Pattern) -> Pattern:
    """Return the more specific of two patterns, of equals the heavier one."""
    if one is None or other.weight > one.weight:
        return other
    if other.weight < one.weight:
        return one
    return max(one, other, key=lambda pattern: max(call.rank for call in pattern.calls))


def compile_pattern(text: str, calls: tuple[Call, ...], mode: str) -> Pattern:
    """Compile one pattern of a line. Raises ValueError."""
    made = Pattern(calls, mode)
    words = iter(text.split())
    for word in words:
        if word == ".":
            continue
        if word == "$":
            made.ends = True
            made.weight += 2
        elif word == "...":
            made.verb = Words(next(words, ""))
            made.weight += 2
        elif word.startswith("any:"):
            made.some = Words(word[4:])
            made.weight += 3
        elif "$" in word or (("|-" in word or ("|" in word and word[0] == "-")) and not _alike(word)):
            raise ValueError(f"{word!r} mixes operands with options or `$`")
        elif word[0] == "-" or word[:2] == "!-":
            wanted = word[0] == "-"
            names, _, value = word.removeprefix("!").partition("=")
            made.options.append((tuple(names.split("|")), Words(value) if value else None, wanted))
            made.weight += 3 if wanted else 1
        elif word == "*":
            made.path.append(None)
            made.weight += 1
        else:
            made.path.append(Words(word))
            made.weight += 4
    return made


def _alike(word: str) -> bool:
    """Whether the alternatives of a word are all options, or all operands."""
    parts = word.removeprefix("!").partition("=")[0].split("|")
    return len({part[:1] == "-" for part in parts}) == 1
