"""`takeback resume`: end a pause."""

from __future__ import annotations

import click

from takeback import documents
from takeback.cli import options
from takeback.cli.output import Face


@click.command(
    "resume",
    cls=options.Command,
    short_help="End a pause.",
    examples=[
        ("takeback resume", "checkpoints are made again from now on"),
        ("takeback resume --project ~/work/site", "in another project"),
    ],
)
@options.speaking
def command(face: Face) -> int:
    """End a pause: checkpoints are made again from now on."""
    with options.opened(face, strict=False) as project:
        project.resume()
    face.answer(documents.document(paused=False, undo_with="takeback pause"))
    face.say("checkpoints are made again")
    face.say("Take this back with: takeback pause")
    return 0
