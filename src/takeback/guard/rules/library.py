"""All rules by program: those that come with takeback, and users' own before them.

Does not cover: where users' files are (the caller passes their text).
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from functools import cache

from takeback.guard.model import Deed
from takeback.guard.rules.notation import Block, Entry, RuleError, blocks, compile_entry

FIELDS = (
    *("shell", "files", "text", "git", "forges", "packages", "languages", "build", "containers", "cloud", "databases"),
    *("system", "network", "backup", "services", "editors"),
)
HANDLERS = frozenset(
    "write make delete read brake guarded copy dd tar rsync sed awk run shell sh env cd define xargs find container "
    "script target code module curl httpie api asks "
    "load sql sqlite query server create gitsettings packages gitconfig gitalias githooks history".split()
)
DEEDS = HANDLERS | frozenset(name.lower() for name in Deed.__members__)


class Library(Mapping[str, Entry]):
    """Entries by program name; each is compiled when it is first asked for."""

    def __init__(self, given: Iterable[tuple[str, str]]) -> None:
        """`given` are (text, where) pairs; of two entries for one name the last counts. Raises RuleError."""
        self._waiting: dict[str, Block] = {}
        self._ready: dict[str, Entry] = {}
        for text, where in given:
            for block in blocks(text, where, MACROS):
                self._waiting.update(dict.fromkeys(block.names, block))

    def __getitem__(self, name: str) -> Entry:
        ready = self._ready.get(name)
        if ready is not None:
            return ready
        block = self._waiting[name]
        entry = compile_entry(block, self, DEEDS)
        self._ready.update((one, entry) for one in block.names if self._waiting[one] is block)
        return entry

    def __contains__(self, name: object) -> bool:
        return name in self._waiting

    def __iter__(self) -> Iterator[str]:
        return iter(self._waiting)

    def __len__(self) -> int:
        return len(self._waiting)

    def check(self, names: Iterable[str]) -> None:
        """Compile the entries of these names. Raises RuleError for the first line that cannot be read."""
        for name in names:
            if not self[name].first and not self[name].others:
                block = self._waiting[name]
                raise RuleError(block.where, block.line, f"the entry {name!r} says nothing")


# Words that read, in the tongues of many programs.
MACROS = {
    "reads": "|".join(
        "list ls get show view describe describe-* get-* list-* status info inspect logs log search search-* "
        "find help version whoami "
        "who-am-i history diff validate lookup lookup-* read cat head head-* tail explain stats batch-get-* "
        "outdated versions events "
        "top plan preview usage health ping doctor count check dump query query-* scan fetch print display".split()
    ),
}


def texts() -> Iterator[tuple[str, str]]:
    """Yield the text and the name of each file of rules that comes with takeback."""
    here = os.path.dirname(os.path.abspath(__file__))
    for name in FIELDS:
        with open(os.path.join(here, name + ".rules"), encoding="utf-8") as file:
            yield file.read(), f"{name}.rules"


@cache
def builtin() -> Library:
    """Return the rules that come with takeback; read once."""
    return Library(texts())


def with_own(own: Iterable[tuple[str, str]]) -> Library:
    """Return the rules with a user's own, as (text, file) pairs, which count more. Raises RuleError."""
    mine = list(own)
    made = Library([*texts(), *mine])
    made.check(name for text, where in mine for block in blocks(text, where, MACROS) for name in block.names)
    return made
