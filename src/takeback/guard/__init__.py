"""Sorts what an agent is about to do by how it can be taken back: shell text or a tool call in, a verdict out.

    classify(source, context) -> Verdict        shell source
    classify_argv(words, context) -> Verdict    a command that no shell reads
    classify_tool(call, context) -> Verdict     a tool call of an agent

Pure: nothing is opened, run or asked; what the project is like comes with the context (`ground` makes one from a real
project). Does not cover: what is done about a class.
"""

from collections.abc import Mapping
from typing import Any

from takeback.guard.classify import classify, classify_argv
from takeback.guard.context import Context
from takeback.guard.model import Class, Effect, Part, Reason, Verdict, What
from takeback.guard.rules import Library

__all__ = [
    "Class",
    "Context",
    "Effect",
    "Part",
    "Reason",
    "Verdict",
    "What",
    "classify",
    "classify_argv",
    "classify_tool",
]


def classify_tool(call: Mapping[str, Any], context: Context | None = None, library: Library | None = None) -> Verdict:
    """Return what a tool call of an agent would do; what is not known is opaque, and so `machine` at least."""
    from takeback.guard.toolcalls import classify_tool as read

    return read(call, context, library)
