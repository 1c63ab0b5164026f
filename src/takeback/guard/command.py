"""One simple command: variables set for it, what its name stands for, its rule, and what the rule says it does.

Does not cover: the deeds that need more than a class (`deeds` and the modules it names).
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property

from takeback.guard import places
from takeback.guard.later import pattern
from takeback.guard.model import Class, Deed, Effect, Part, Reason, What
from takeback.guard.options import Parsed
from takeback.guard.rules import Entry
from takeback.guard.rules.pattern import Call
from takeback.guard.variables import environment
from takeback.guard.walk import Walk
from takeback.guard.words import UNKNOWN, shown

Handler = Callable[..., None]

# Where programs are what their name says.
_SYSTEM_DIRS = pattern(
    r"/(usr/(local/)?)?s?bin/[^/]+|/opt/homebrew/(s?bin|opt/[^/]+/bin)/[^/]+|/snap/bin/[^/]+"
    r"|(.*/)?(node_modules/\.bin|\.?venv/bin|env/bin|vendor/bin)/[^/]+|/usr/lib/[^/]+/(bin/)?[^/]+"
)
_HOME_DIRS = pattern(r"/(\.local/bin|\.cargo/bin|go/bin|bin|\.bun/bin|\.deno/bin|\.pyenv/shims|\.npm-global/bin)/[^/]+")
_ASSIGNMENT = pattern(r"[^/=\s]*=")
LEAVES = pattern(
    r"(^|[-_:./])(deploy|release|publish|ship|upload|push|rollout|promote|notify|announce|send)($|[-_:./])", re.I
)

_PHRASES = {
    Deed.FILES: "changes files of the project",
    Deed.STATE: "changes what git does not see here",
    Deed.OPAQUE: "runs code that cannot be seen",
    Deed.SYSTEM: "changes this machine outside the project",
    Deed.DESTROYS: "deletes or overwrites on this machine",
    Deed.OUTSIDE: "leaves this machine",
}
_KINDS = {
    Deed.FILES: What.WRITE,
    Deed.STATE: What.WRITE,
    Deed.OPAQUE: What.CODE,
    Deed.SYSTEM: What.SERVICE,
    Deed.DESTROYS: What.DELETE,
    Deed.OUTSIDE: What.NETWORK,
}


def simple(walk: Walk, words: list[str], assigned: Sequence[tuple[str, str]], text: str) -> None:
    """Read one simple command with the variables set before it."""
    part = Part(text)
    walk.part.parts.append(part)
    with walk.at(part):
        for name, value in assigned:
            environment(walk, name, value)
        if words:
            set_before = [f"{name}={value}" for name, value in assigned] if part.effects or part.parts else []
            outer, walk.prefixed = walk.prefixed, {**walk.prefixed, **dict(assigned)}
            dispatch(walk, words)
            walk.prefixed = outer
            part.words = (*set_before, *part.words)
        else:
            walk.scope.variables.update(assigned)


def run(walk: Walk, words: list[str], how: str) -> None:
    """Read a command that another one runs, `how` says by what."""
    if not words:
        return
    with walk.inside(how) as part:
        part.text = shown(" ".join(words))
        if walk.depth > 40:
            walk.class_of(Deed.OUTSIDE, "too much to be read")
            return
        dispatch(walk, words)


def dispatch(walk: Walk, words: list[str], *, plain: bool = False) -> None:
    """Find out what a command's name stands for; `plain`: neither function nor alias."""
    name = words[0]
    walk.part.words = tuple(words)
    if not name and len(words) > 1:
        dispatch(walk, words[1:])
        return
    if UNKNOWN in name or any(mark in name for mark in "*?") or (name != "[" and "[" in name):
        walk.class_of(Deed.OPAQUE, f"runs {shown(name)}, a program that cannot be known")
        _tail(walk, words)
        return
    if _ASSIGNMENT.match(name):
        key, _, value = name.partition("=")
        environment(walk, key, value)
        if len(words) > 1:
            dispatch(walk, words[1:])
        return
    if not plain and name in walk.scope.aliases:
        _alias(walk, name, words)
        return
    if not plain and walk.call(name, words[1:]):
        return
    if "/" in name:
        found = _by_path(walk, name)
        if found is None:
            from takeback.guard.scripts import script

            script(walk, name, words[1:])
            if posixpath.basename(name) not in ("takeback", "tb"):
                return
            found = "takeback"  # what lies there may be it, or anything: both count
        name = found
        walk.part.words = (name, *words[1:])
    entry = walk.library.get(name)
    if entry is None and name.lower() in walk.library:
        # File systems that do not tell case apart.
        words = [word.lower() if word.isupper() else word for word in words]
        name, entry = name.lower(), walk.library[name.lower()]
    if entry is None:
        _unknown(walk, name, words)
        return
    Step(walk, name, words[1:], entry).do()


def _alias(walk: Walk, name: str, words: list[str]) -> None:
    value = walk.scope.aliases.pop(name)
    try:
        first, _, rest = value.partition(" ")
        if UNKNOWN not in value and not re.search(r"[;&|<>()$`'\"\\]", value):
            dispatch(walk, [first, *rest.split(), *words[1:]])
        else:
            walk.shell(value + " " + " ".join(words[1:]), f"alias {name}")
    finally:
        walk.scope.aliases[name] = value


def _by_path(walk: Walk, name: str) -> str | None:
    """Return the program a path names, None when it may be anything."""
    whole = places.absolute(name, walk.scope.cwd) or name
    home = walk.context.home
    if _SYSTEM_DIRS.fullmatch(name) or (whole.startswith(home + "/") and _HOME_DIRS.fullmatch(whole[len(home) :])):
        return posixpath.basename(name)
    base = posixpath.basename(name)
    # Wrappers that build tools put into a project.
    return base if base in ("gradlew", "mvnw") else None


def _unknown(walk: Walk, name: str, words: list[str]) -> None:
    if LEAVES.search(name) or any(LEAVES.fullmatch(word) for word in words[1:3]):
        walk.class_of(Deed.OUTSIDE, f"{name} is not known, and by its name it sends something away")
    else:
        walk.class_of(Deed.OPAQUE, f"{name} is not known")
    _tail(walk, words)


def _tail(walk: Walk, words: list[str]) -> None:
    """A program that is not known may run what its words name, behind `--` or as they stand."""
    if "--" in words[1:-1]:
        run(walk, words[words.index("--", 1) + 1 :], words[0])
        return
    for number, word in enumerate(words[1:], 1):
        if posixpath.basename(word) in walk.library and number + 1 < len(words):
            run(walk, words[number:], shown(words[0]))
            return


class Step:
    """One command with its rule, as deeds see it."""

    def __init__(self, walk: Walk, name: str, words: list[str], entry: Entry) -> None:
        self.walk = walk
        self.name = name
        self.words = words
        self.entry = entry
        self.parsed: Parsed = entry.read(words)
        self.stdin = walk.stdin

    @property
    def operands(self) -> list[str]:
        """The words that are no options."""
        return self.parsed.operands

    @cached_property
    def cwd(self) -> str | None:
        """The folder it works in, None when that cannot be known."""
        cwd = self.walk.scope.cwd
        for value in self.parsed.values(*self.entry.folders):
            if value.endswith(("/.git", "\\.git")) or value == ".git":
                value = value[:-4] or "."
            cwd = places.absolute(value or ".", cwd)
        return cwd

    @property
    def label(self) -> str:
        """The name, and the sub-command where the program has those."""
        first = self.operands[0] if self.operands else ""
        return f"{self.name} {first}" if first in self.entry.first else self.name

    def do(self) -> None:
        """Note all that the command does."""
        if self._asks_for_help():
            return
        calls = self.entry.match(self.parsed)
        if calls is None:
            unseen = [word for word in self.operands[:2] if UNKNOWN in word]
            known = not unseen and any(LEAVES.fullmatch(word) for word in self.operands[:2])
            self.deed(Deed.OUTSIDE if known else Deed.OPAQUE, f"{shown(self.label)}: what it does is not known")
            return
        for call in calls:
            self.perform(call)

    def perform(self, call: Call) -> None:
        """Do one deed of a rule."""
        deed = _DEEDS.get(call.name)
        if deed is not None:
            if deed is not Deed.NONE:
                self.deed(deed)
            return
        from takeback.guard.deeds import handler

        handler(call.name)(self, *call.args)

    def _asks_for_help(self) -> bool:
        options = self.parsed.options
        if "--help" not in options and "--version" not in options:
            return False
        if self.entry.wraps:
            # What it runs may be asked for help, and then it runs.
            return len(options) == 1 and len(self.operands) <= 1 and self.name not in ("find", "gfind")
        return self.words[-1] in ("--help", "--version") or self.words[0] in ("--help", "--version")

    def deed(self, deed: Deed, why: str = "", target: str = "", what: What | None = None) -> None:
        """Note a class; files and state of another folder than the project are the machine's."""
        if deed in (Deed.FILES, Deed.STATE) and not places.at(self.cwd, self.walk.context):
            where = shown(self.cwd or "a folder that cannot be known")
            reason = Reason.SYSTEM if where.startswith("/tmp/") else Reason.DESTROYS
            self.walk.add(
                Effect(
                    Class.MACHINE,
                    What.WRITE,
                    f"{self.label} changes {where}, outside the project",
                    where,
                    reason=reason,
                )
            )
            return
        self.walk.class_of(deed, why or f"{shown(self.label)} {_PHRASES[deed]}", what or _KINDS[deed], target)

    def touch(self, path: str, *, delete: bool = False, deep: bool = False, new: bool = False) -> None:
        """Note that `path` is written or deleted; `new`: made, so that nothing is lost by it."""
        for effect in places.touch(path, self.cwd, self.walk.context, delete=delete, deep=deep):
            if new and effect.reason is Reason.DESTROYS and effect.what is What.WRITE:
                effect = replace(effect, reason=Reason.SYSTEM)
            self.walk.add(effect)

    def select(self, *selectors: str) -> list[str]:
        """Return the words that a rule's arguments name: `*` `2` `2..` `last` `..last` `-o|--out` `'constant'`."""
        found: list[str] = []
        operands = self.operands
        for one in selectors:
            if one == "*":
                found += operands
            elif one == "last":
                found += operands[-1:]
            elif one == "..last":
                found += operands[:-1]
            elif one[0] == "'":
                found.append(one.strip("'"))
            elif one[0] == "-":
                found += [value for value in self.parsed.values(*one.split("|")) if value]
            elif one.endswith(".."):
                found += operands[int(one[:-2]) - 1 :]
            else:
                found += operands[int(one) - 1 : int(one)]
        return found

    def rest(self, number: int) -> list[str]:
        """Return all words from the operand of this number on, as they stand."""
        at = self.parsed.places
        return self.words[at[number - 1] :] if len(at) >= number else []

    def run(self, words: list[str]) -> None:
        """Read a command that this one runs."""
        run(self.walk, words, self.name)

    def shell(self, source: str) -> None:
        """Read shell source that this command runs."""
        self.walk.shell(source, self.name)


_DEEDS = {deed.name.lower(): deed for deed in Deed}
