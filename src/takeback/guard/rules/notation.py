"""The notation of rules, and matching a program's words against them.

    @ NAME NAME..             an entry, for a program under these names (`\\` at the end: they go on in the next line)
    like NAME                 begin with all of that entry
    value -o --output         options that take a value
    style long                words with one dash are one option (`-auto-approve`)
    stop N: run, exec         options end after N operands (of these sub-commands, else always)
    ends -c                   options end behind these
    folder -C --prefix        options that name the folder it works in
    each                      every operand is a sub-command of its own (`mvn clean deploy`)
    DEED DEED: PATTERN, ..    what the program does when a pattern fits; the most specific one counts
    +DEED: PATTERN, ..        what it does besides
    !DEED: PATTERN, ..        the last word when it fits: `!none: clean -n`
    match CLASS: EXAMPLE      a command of that class (`not_match`: of another); tests check each

A deed is a class (none files state opaque system destroys outside) or a handler with arguments: write(last).
A pattern is a row of: `a|b` the next operand · `*` any operand · `$` no further operand · `... a|b` the first operand
that any such pattern of the entry knows · `-x|--long` one of these options · `-x=a|b` with that value · `!-x` not that
option · `any:GLOB` some operand fits · `.` nothing more. `let NAME = a|b`, before
the first entry, defines `$NAME`.
Does not cover: what deeds do (`deeds`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from takeback.guard.later import pattern as regex
from takeback.guard.options import Parsed, read
from takeback.guard.rules.pattern import Call, Pattern, Words, better, compile_pattern

_DEED = regex(r"([a-z_]+)(?:\(([^)]*)\))?")
# So that `tool apps delete status` is not taken for `tool status`.
_CHANGING = regex(
    r"(.*:)?(create|delete|destroy|remove|rm|update|apply|deploy|publish|push|edit|put|patch|replace|rename|purge|reset|revoke|drop"
    r"|kill|cancel|promote|rollback|terminate|disable|enable|stop|erase|wipe|uninstall|unset)(-.*|:.*)?$"
)
_MACRO = regex(r"\$([a-z]\w*)")


class RuleError(ValueError):
    """A line of rules that cannot be read; the text names file, line and what is wrong."""

    def __init__(self, file: str, line: int, problem: str) -> None:
        super().__init__(f"{file}, line {line}: {problem}")
        self.file, self.line, self.problem = file, line, problem


@dataclass(frozen=True, slots=True)
class Example:
    """An example of a rule, with where it stands."""

    command: str
    cls: str
    fits: bool
    where: str


@dataclass
class Entry:
    """What is known of one program."""

    names: tuple[str, ...]
    values: set[str] = field(default_factory=set)
    long_style: bool = False
    stop: int | None = None
    stops: dict[str, int] = field(default_factory=dict)
    ends: set[str] = field(default_factory=set)
    folders: list[str] = field(default_factory=list)
    first: dict[str, list[Pattern]] = field(default_factory=dict)
    others: list[Pattern] = field(default_factory=list)
    verbs: list[Words] = field(default_factory=list)
    examples: list[Example] = field(default_factory=list)
    each: bool = False
    wraps: bool = False  # runs something else that is named in its words

    def read(self, words: list[str]) -> Parsed:
        """Read the words after the program's name."""
        return read(
            words,
            values=self.values,
            long_style=self.long_style,
            stop=self.stop,
            stops=self.stops,
            ends=self.ends,
        )

    def match(self, parsed: Parsed) -> list[Call] | None:
        """Return what the program does, None when no pattern fits."""
        if self.each and len(parsed.operands) > 1:
            alone = [
                Parsed(parsed.options, [word], [place], -1)
                for word, place in zip(parsed.operands, parsed.places, strict=False)
            ]
            found = [self.match(one) for one in alone]
            return None if None in found else [call for calls in found for call in calls or ()]
        verb = None
        if self.verbs:
            verb = self._verb(parsed.operands)
        keyed = self.first.get(parsed.operands[0], ()) if parsed.operands else ()
        best: Pattern | None = None
        final: Pattern | None = None
        added: list[Call] = []
        for pattern in (*keyed, *self.others):
            if not pattern.fits(parsed, verb):
                continue
            if pattern.mode == "+":
                added.extend(pattern.calls)
            elif pattern.mode == "!":
                final = better(final, pattern)
            else:
                best = better(best, pattern)
        if final is not None:
            return list(final.calls)
        if best is None:
            return added or None
        return [*best.calls, *added]

    def _verb(self, operands: list[str]) -> str | None:
        """Return the first operand that `...` patterns know, unless one before it is plainly another verb."""
        for word in operands:
            if any(word in one for one in self.verbs):
                return word
            if _CHANGING.match(word):
                return None
        return None

    def copy(self, other: Entry) -> None:
        """Take over all that another entry knows, but for its examples."""
        self.values |= other.values
        self.long_style, self.stop, self.wraps = other.long_style, other.stop, other.wraps
        self.stops.update(other.stops)
        self.ends |= other.ends
        self.each = other.each
        self.folders += other.folders
        for name, patterns in other.first.items():
            self.first.setdefault(name, []).extend(patterns)
        self.others += other.others
        self.verbs += other.verbs

    def add(self, pattern: Pattern) -> None:
        """File a pattern under its first word."""
        self.wraps = self.wraps or any(call.name in _WRAPPING for call in pattern.calls)
        first = pattern.path[0] if pattern.path else None
        if pattern.verb is not None:
            self.verbs.append(pattern.verb)
        if first is None or first.globs is not None:
            self.others.append(pattern)
            return
        for name in first.exact:
            self.first.setdefault(name, []).append(pattern)


_WRAPPING = {"run", "shell", "code", "script", "xargs", "find", "container", "sh"}


class Block(NamedTuple):
    """One entry of a file as it stands there, still to be compiled."""

    names: tuple[str, ...]
    body: str
    where: str
    line: int
    macros: Mapping[str, str]


def blocks(text: str, where: str, macros: Mapping[str, str] | None = None) -> Iterator[Block]:
    """Yield the entries of a file, without reading more of them than their names. Raises RuleError."""
    preamble, *rest = re.split(r"^[ \t]*@", text, flags=re.MULTILINE)
    known = dict(macros or {})
    for number, line in enumerate(preamble.splitlines(), 1):
        line = line.strip()
        if not line or line[0] == "#":
            continue
        place = (where, number)
        name, equals, value = line.removeprefix("let ").partition("=")
        if not line.startswith("let "):
            raise RuleError(*place, "no entry begins before this line; one begins with @ NAME")
        if not equals:
            raise RuleError(*place, "`let` needs NAME = a|b")
        known[name.strip()] = _expand(value.strip(), known, place)
    number = preamble.count("\n") + 1
    for part in rest:
        names, _, body = part.partition("\n")
        first = number
        while names.endswith("\\"):
            more, _, body = body.partition("\n")
            names = names[:-1] + " " + more
            first += 1
        yield Block(tuple(names.split()), body, where, first, known)
        number += part.count("\n")


def _expand(line: str, macros: Mapping[str, str], place: tuple[str, int]) -> str:
    def one(found: re.Match[str]) -> str:
        if found[1] not in macros:
            raise RuleError(*place, f"there is no `let {found[1]}` before this line")
        return macros[found[1]]

    return _MACRO.sub(one, line) if "$" in line else line


def compile_entry(block: Block, like: Mapping[str, Entry], deeds: frozenset[str]) -> Entry:
    """Compile an entry; `like` are those it may begin with, `deeds` what it may name. Raises RuleError."""
    entry = Entry(block.names)
    for number, line in enumerate(block.body.splitlines(), block.line + 1):
        line = line.strip()
        if line and line[0] != "#":
            _fill(entry, line, (block.where, number), block.macros, like, deeds)
    return entry


def _fill(
    entry: Entry,
    line: str,
    place: tuple[str, int],
    macros: Mapping[str, str],
    like: Mapping[str, Entry],
    deeds: frozenset[str],
) -> None:
    head, _, rest = line.partition(" ")
    if head == "value":
        entry.values.update(rest.split())
    elif head == "ends":
        entry.ends.update(rest.split())
    elif line == "each":
        entry.each = True
    elif head == "folder":
        entry.folders += rest.split()
        entry.values.update(rest.split())
    elif head == "style" and rest == "long":
        entry.long_style = True
    elif head == "stop":
        count, _, subs = rest.partition(":")
        if not count.strip().isdigit():
            raise RuleError(*place, "`stop` needs a number")
        if subs:
            entry.stops.update((sub.strip(), int(count)) for sub in subs.split(","))
        else:
            entry.stop = int(count)
    elif head == "like":
        if rest not in like:
            raise RuleError(*place, f"there is no entry {rest!r}")
        entry.copy(like[rest])
    elif head in ("match", "not_match"):
        cls, _, command = rest.partition(": ")
        entry.examples.append(Example(command, cls, head == "match", f"{place[0]}, line {place[1]}"))
    else:
        _fill_rule(entry, _expand(line, macros, place), place, deeds)


def _fill_rule(entry: Entry, line: str, place: tuple[str, int], deeds: frozenset[str]) -> None:
    said, colon, patterns = line.partition(": ")
    if not colon:
        raise RuleError(*place, f"a rule is DEED: PATTERN, not {line!r}")
    mode = said[0] if said[0] in "+!" else ""
    calls = []
    for word in said[len(mode) :].split():
        found = _DEED.fullmatch(word)
        if found is None or found[1] not in deeds:
            raise RuleError(*place, f"there is no deed {word!r}")
        calls.append(Call(found[1], tuple(found[2].split(",")) if found[2] else ()))
        # What a deed is to take from an option is its value.
        entry.values.update(name for one in calls[-1].args if one[0] == "-" for name in one.split("|"))
    for pattern in patterns.split(","):
        try:
            entry.add(compile_pattern(pattern, tuple(calls), mode))
        except ValueError as error:
            raise RuleError(*place, str(error)) from None
