"""`takeback pause`: no checkpoints by themselves for a while."""

from __future__ import annotations

import click

from takeback import documents
from takeback.cli import options
from takeback.cli.output import Face
from takeback.cli.values import duration as as_duration
from takeback.cli.values import format_span


@click.command(
    "pause",
    cls=options.Command,
    short_help="Make no checkpoints here for a while.",
    examples=[
        ("takeback pause 10m", "for ten minutes"),
        ("takeback pause", "until `takeback resume`"),
    ],
)
@click.argument("duration", required=False, callback=as_duration)
@options.speaking
def command(face: Face, duration: float | None) -> int:
    """Make no checkpoints in this project for DURATION, or until `takeback resume`.

    What happens meanwhile cannot be taken back step by step.
    """
    with options.opened(face, strict=False) as project:
        project.pause(duration)
    face.answer(documents.document(paused=True, seconds=duration, undo_with="takeback resume"))
    face.say("paused " + (f"for {format_span(duration)}" if duration is not None else "until resumed"))
    face.say("Take this back with: takeback resume")
    return 0
