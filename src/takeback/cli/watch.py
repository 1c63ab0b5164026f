"""`takeback watch`: any agent without hooks, its whole run as one step."""

from __future__ import annotations

import os

import click

from takeback import documents
from takeback.cli import draw, options
from takeback.cli.output import Face
from takeback.cli.values import format_span

_STDOUT, _STDERR = 1, 2
_FIELDS = ("id", "before", "after", "exit", "timed_out", "changed", "ms", "undo_with")


@click.command(
    "watch",
    cls=options.Command,
    short_help="Run any other agent so that its whole run can be taken back.",
    context_settings={"allow_interspersed_args": False},
    examples=[
        ("takeback watch -- aider --yes-always", "aider has no hooks: its run is one step"),
        ("takeback undo", "take all of it back"),
    ],
)
@click.argument("words", nargs=-1, required=True, type=click.UNPROCESSED, metavar="AGENT...")
@click.option("--session", metavar="NAME", help="The session the step belongs to; else the program's name.")
@options.speaking
def command(face: Face, words: tuple[str, ...], session: str | None) -> int:
    """Run AGENT with a checkpoint before and after it, as one step.

    For agents that `takeback init` knows nothing of. Its terminal is its own, nothing is asked, and what it does is not
    looked at. The exit code is AGENT's own. With --json its stdout goes to stderr.
    """
    with options.opened(face) as project:
        result = project.run(
            words,
            session=session or os.path.basename(words[0]),
            stdout_fd=_STDERR if face.json else _STDOUT,
        )
    face.answer(documents.document(**{name: getattr(result, name) for name in _FIELDS}))
    if not face.json:
        changed = f"{draw.number(result.changed, 'path')} changed"
        face.note(f"{result.id}: exit code {result.exit}, {changed} ({format_span(result.ms / 1000)})")
        if result.undo_with:
            face.note(f"Take this back with: {result.undo_with}")
    return result.exit
