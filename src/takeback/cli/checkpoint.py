"""`takeback checkpoint`: save the project as it is now."""

from __future__ import annotations

import click

from takeback import documents
from takeback.cli import draw, options
from takeback.cli.output import Face
from takeback.cli.values import format_span


@click.command(
    "checkpoint",
    cls=options.Command,
    short_help="Save the project as it is now.",
    examples=[
        ('takeback checkpoint -m "before the big rename"', "save everything, with a name to find it by"),
        ("takeback checkpoint --no-state", "leave out what git ignores; quicker the first time"),
        ("takeback checkpoint --json", "for programs: id, ref, tree, and whether it is new"),
    ],
)
@click.option("-m", "--message", default="", metavar="TEXT", help="What this is a checkpoint of.")
@click.option("--task", metavar="ID", help="The task it belongs to.")
@click.option("--session", metavar="NAME", help="The session it belongs to.")
@click.option("--no-state", is_flag=True, help="Only what git sees: no ignored files, no .git/config or hooks.")
@options.speaking
def command(face: Face, message: str, task: str | None, session: str | None, no_state: bool) -> int:
    """Save the project as it is now, outside the project; nothing in it is touched.

    When nothing changed since the last checkpoint, that one is named again.
    """
    with options.opened(face) as project:
        result = project.checkpoint(message, task=task, session=session, state=not no_state)
    if face.quiet:
        face.data(result.id)
    new = "" if result.new else ", nothing changed since"
    face.say(
        f"{result.id} ({result.kind.value}, {draw.number(result.files, 'file')}, {format_span(result.ms / 1000)}{new})"
    )
    for line in draw.not_covered(result.not_covered, verbose=face.verbose):
        face.say(line)
    face.say(f"Come back to it with: takeback restore {result.id}")
    face.answer(documents.checkpoint(result))
    return 0
