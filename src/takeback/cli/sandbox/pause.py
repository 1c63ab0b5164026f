"""`takeback sandbox pause`: stop a sandbox's processors; memory and processes stay."""

from __future__ import annotations

import click

from takeback import documents
from takeback.cli import options
from takeback.cli.output import Face, printable
from takeback.cli.sandbox import common


@click.command(
    "pause",
    cls=options.Command,
    short_help="Stop a sandbox's processors; memory and processes stay.",
    examples=[
        ("takeback sandbox pause db", "one"),
        ("takeback sandbox pause db web", "several"),
    ],
)
@common.ids_argument
@options.speaking
def command(face: Face, ids: tuple[str, ...]) -> int:
    """Pause sandboxes: their processors stand still, memory and processes stay. The next use wakes them."""
    boxes = [common.find(face, named) for named in ids]
    for named, box in zip(ids, boxes, strict=True):
        box.pause()
        face.say(f"paused: {printable(named)}")
    face.answer(documents.document(sandboxes=[box.info for box in boxes]))
    return 0
