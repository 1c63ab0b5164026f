"""What undo, redo and restore have in common: preview, question, result, the way back, exit code.

Does not cover: the options of each (see their own files).
"""

from __future__ import annotations

from typing import Protocol

import click

from takeback import documents, model
from takeback.cli import draw
from takeback.cli.output import Face
from takeback.errors import TooManyDeletes


class Call(Protocol):
    """One of Project's undo, redo or restore, with all but these two already chosen."""

    def __call__(self, *, dry_run: bool, yes: bool) -> model.RestoreResult: ...


def carry_out(face: Face, call: Call, *, doing: str, dry_run: bool, yes: bool) -> int:
    """Do it, say it, and return 0, or 1 when something conflicts.

    At a terminal the preview comes before the first write, and a refusal to delete much becomes a question.
    Elsewhere one call does all, and what it did is printed after. Raises whatever `call` raises.
    """
    if dry_run or yes or not face.at_terminal:
        result = call(dry_run=dry_run, yes=yes)
        _say(face, draw.preview(result, doing=doing, verbose=face.verbose))
    else:
        _say(face, draw.preview(call(dry_run=True, yes=True), doing=doing, verbose=face.verbose))
        try:
            result = call(dry_run=False, yes=False)
        except TooManyDeletes as refusal:
            if not click.confirm(f"{str(refusal).capitalize()}. Go on?"):
                raise
            result = call(dry_run=False, yes=True)
    _say(face, draw.outcome(result))
    face.answer(documents.restore(result))
    return 1 if result.conflicts else 0


def _say(face: Face, lines: list[str]) -> None:
    for line in lines:
        face.say(line)
