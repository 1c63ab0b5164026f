"""The one door to the shell grammar: text in, a tree without its known holes out, or None.

The grammar (tree-sitter-bash) hides the command after `time` and `coproc` when it is a compound one, reads
`<<EOF;` as an error, and its scanner crashes on some characters that are not ASCII. Its other holes are mended where
they are met: backticks in heredocs and in backticks by `walk`, names as raw text by `words`.
Does not cover: meaning. A tree with errors is never returned, for commands would be missing from it.
"""

from __future__ import annotations

import re
from functools import cache
from importlib.machinery import PathFinder
from importlib.util import module_from_spec
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tree_sitter import Node, Parser

# More than any person or agent types; a longer text is opaque, and read no further.
LONGEST = 200_000

_KEYWORD = re.compile(rb"time|coproc")
_AT_COMMAND = re.compile(
    rb"((?:^|[;&|({\n!]|\b(?:then|do|else)\b)[ \t]*)"
    rb"(time(?:[ \t]+-p)?(?=[ \t]*[{(]|[ \t]+(?:if|for|while|until|case|\[\[)\b)"
    rb"|coproc(?:[ \t]+\w+(?=[ \t]*[{(]))?(?=[ \t]))"
)
_STRANGE = re.compile(r"[^\x00-\x7f]|[\x01\x02]")
_SPELLED = re.compile(r"\x01([0-9a-f]{1,6})\x02")
_HEREDOC_END = re.compile(rb"(<<-?[ \t]*(['\"]?)\w+\2)(?=[;&|)])")


@cache
def _parser() -> Parser:
    from tree_sitter import Language, Parser  # for shell source only: a hook pays for every import

    return Parser(Language(_grammar()))


def _grammar() -> object:
    """Return the grammar from its package's binding: the package itself imports 20 ms of what is not needed here."""
    package = PathFinder.find_spec("tree_sitter_bash")
    places = package.submodule_search_locations if package is not None else None
    spec = PathFinder.find_spec("tree_sitter_bash._binding", list(places)) if places is not None else None
    if spec is None or spec.loader is None:
        import tree_sitter_bash

        return tree_sitter_bash.language()
    binding = module_from_spec(spec)
    spec.loader.exec_module(binding)
    return binding.language()


def parse(source: bytes) -> Node | None:
    """Return the tree of shell source that `encode` gave, or None when it is not understood as a whole."""
    if b"\0" in source:
        return None
    if _KEYWORD.search(source):
        # Blanked, so that offsets stay and what follows is seen.
        source = _AT_COMMAND.sub(lambda found: found[1] + b" " * len(found[2]), source)
    root = _parser().parse(source).root_node
    if root.has_error and b"<<" in source:
        root = _parser().parse(_HEREDOC_END.sub(rb"\1 ", source)).root_node
    return None if root.has_error else root


def encode(source: str) -> bytes:
    """Return text as the grammar gets it: what is not ASCII is spelled in ASCII, for its scanner reads past its tables.

    It looks characters up without asking how large they are, and ends the process at some; others it takes for blanks.
    """
    if source.isascii() and "\x01" not in source and "\x02" not in source:
        return source.encode()
    return _STRANGE.sub(lambda found: f"\x01{ord(found[0]):x}\x02", source).encode()


def text_of(node: Node) -> str:
    """Return the text of a node, as it was before `encode`."""
    return decode(node.text or b"")


def decode(raw: bytes) -> str:
    """Undo `encode` for a part of its result."""
    text = raw.decode("ascii", "replace")
    return _SPELLED.sub(lambda found: chr(int(found[1], 16)), text) if "\x01" in text else text


def has_coprocess(source: bytes) -> bool:
    """Whether the text may start a coprocess: the grammar does not know the word."""
    return b"coproc" in source and any(found[2].startswith(b"coproc") for found in _AT_COMMAND.finditer(source))
