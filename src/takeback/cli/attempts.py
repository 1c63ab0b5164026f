"""`takeback attempts`: every attempt of one task, each with the checkpoint that brings it back."""

from __future__ import annotations

import click

from takeback import documents
from takeback.cli import options
from takeback.cli.output import Face, printable
from takeback.cli.task import common


@click.command(
    "attempts",
    cls=options.Command,
    short_help="Every attempt of one task, and how to get it back.",
    examples=[
        ("takeback attempts fix-the-parser", "what was tried, and why it was not enough"),
        ("takeback restore t:fix-the-parser/2 --to ../second", "one of them, in a directory of its own"),
    ],
)
@click.argument("id", metavar="TASK")
@options.speaking
def command(face: Face, id: str) -> int:
    """List the attempts of a task: what each came to, its checks, its checkpoint, and the file with its difference."""
    from takeback.app.tasks import tools

    with options.opened(face, strict=False) as project:
        task = tools(project).tasks.get(id)
    face.answer(documents.document(id=task.id, attempts=[common.attempt(one) for one in task.attempts]))
    for one in task.attempts:
        face.data(common.attempt_line(one))
        if one.reason:
            face.data(f"  why      {printable(one.reason)}")
        for label, value in (("diff", one.diff), ("output", one.output)):
            if value:
                face.data(f"  {label:<8} {printable(value)}")
        if one.checkpoint:
            face.data(f"  restore  takeback restore {one.checkpoint} --to DIR")
    return 0
