"""The entry: text or words in, verdict out, whatever they are.

Does not cover: tool calls (`toolcalls`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from takeback.guard import brake
from takeback.guard.command import simple
from takeback.guard.context import Context
from takeback.guard.model import Class, Effect, Part, Verdict, What, verdict
from takeback.guard.rules import Library, builtin
from takeback.guard.statements import GRAMMAR
from takeback.guard.walk import Walk


def classify(source: str, context: Context | None = None, library: Library | None = None) -> Verdict:
    """Return what a shell's source would do; never raises for any text."""
    return _read(source, context, library, lambda walk: walk.shell(source))


def classify_argv(words: Sequence[str], context: Context | None = None, library: Library | None = None) -> Verdict:
    """Return what a command would do that is started without a shell; its words are as the program gets them."""
    text = " ".join(words)
    return _read(text, context, library, lambda walk: simple(walk, list(words), (), text) if words else None)


def _read(text: str, context: Context | None, library: Library | None, read: Callable[[Walk], None]) -> Verdict:
    walk = Walk(context or Context(), library or builtin(), GRAMMAR)
    walk.part = Part(text)
    top = walk.part
    try:
        read(walk)
    except RecursionError:
        # What is nested so deeply was not written to be read.
        top.effects.append(Effect(Class.OUTSIDE, What.CODE, "nested too deeply to be read"))
    found = verdict(top)
    held = brake.said(text, found)
    if held is None:
        return found
    top.effects.append(held)
    return verdict(top)
