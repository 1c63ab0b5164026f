"""Text that the grammar cannot read as a whole: what can be found in it counts, and it is opaque besides.

Does not cover: repairing it. A shell runs the lines before the one it cannot read, so nothing found is left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from takeback.guard.later import pattern
from takeback.guard.model import Deed
from takeback.guard.parse import encode, parse
from takeback.guard.walk import Walk
from takeback.guard.words import split

_LEADING = pattern(r"\s*(\|&|&&|\|\||[|&;]|\n)+")
_TOKEN = pattern(r"'([^']*)'|\"((?:[^\"\\]|\\.)*)\"|((?:[^\s;&|<>()'\"`\\]|\\.)+)|([;&|\n()`]|\$\()", re.DOTALL)
_SOCKET = pattern(r"/dev/(tcp|udp)/[\w.:-]+")
_KEYWORDS = frozenset(
    "if then else elif fi for while until do done case esac in { } ! time coproc function select".split()
)
_MOST = 500


def read(walk: Walk, source: str) -> None:
    """Read what there is to be read in broken text."""
    from takeback.guard import command

    if "\0" in source:
        walk.class_of(Deed.OPAQUE, "text with NUL bytes")
        walk.shell(source.replace("\0", ""))
        return
    leading = _LEADING.match(source)
    if leading is not None:
        rest = parse(encode(source[leading.end() :]))
        if rest is not None:
            # The shell refuses a line that begins with an operator, so nothing more than this can run.
            walk.visit(rest)
            return
    words = split(source)
    if words and words[0] not in _KEYWORDS:
        command.simple(walk, words, (), source)
        return
    walk.class_of(Deed.OPAQUE, "shell that cannot be read")
    for found in _SOCKET.finditer(source):
        walk.write(found[0])
    for number, words in enumerate(_pieces(source)):
        if number > _MOST:
            walk.class_of(Deed.OUTSIDE, "too much shell that cannot be read")
            return
        command.simple(walk, words, (), " ".join(words))


def _pieces(source: str) -> Iterator[list[str]]:
    """Yield rows of words between operators, keywords left out; substitutions count as operators."""
    words: list[str] = []
    for found in _TOKEN.finditer(source):
        operator = found[4]
        if operator:
            if words:
                yield words
            words = []
            continue
        quoted = found[1] if found[1] is not None else found[2]
        word = quoted if quoted is not None else re.sub(r"\\(.)", r"\1", found[3] or "", flags=re.DOTALL)
        if quoted is not None and re.search(r"[\s;&|]", quoted) and words:
            # Perhaps a script, perhaps a quote that was closed in the wrong place.
            yield from _pieces_of_quoted(quoted)
        if quoted is None and not words and word in _KEYWORDS:
            continue
        words.append(word)
    if words:
        yield words


def _pieces_of_quoted(text: str) -> Iterator[list[str]]:
    for line in re.split(r"[;&|\n`]+|\$\(", text):
        words = line.split()
        if words:
            yield words
