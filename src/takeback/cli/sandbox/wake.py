"""`takeback sandbox wake`: let a paused sandbox go on, or start one again whose files were kept."""

from __future__ import annotations

import click

from takeback import documents
from takeback.cli import options
from takeback.cli.output import Face, printable
from takeback.cli.sandbox import common


@click.command(
    "wake",
    cls=options.Command,
    short_help="Let a paused sandbox go on.",
    examples=[
        ("takeback sandbox wake db", "one"),
        ("takeback sandbox wake db web", "several"),
    ],
)
@common.ids_argument
@options.speaking
def command(face: Face, ids: tuple[str, ...]) -> int:
    """Let paused sandboxes go on. One that is awake is left as it is.

    One that was stopped, died, or ended with this machine boots from its files, where those were kept.
    """
    boxes = [common.find(face, named) for named in ids]
    for named, box in zip(ids, boxes, strict=True):
        if box.state == "stopped" and box.info["diskKept"]:
            box.restart()
        else:
            box.wake()
        face.say(f"awake: {printable(named)}")
    face.answer(documents.document(sandboxes=[box.info for box in boxes]))
    return 0
