"""`takeback sandbox rm`: remove sandboxes for good."""

from __future__ import annotations

import click

from takeback import documents
from takeback.cli import options
from takeback.cli.output import Face, printable
from takeback.cli.sandbox import common


@click.command(
    "rm",
    cls=options.Command,
    short_help="Remove sandboxes for good.",
    examples=[
        ("takeback sandbox rm db", "one, running or not"),
        ("takeback sandbox rm --yes db web", "several, without being asked"),
    ],
)
@common.ids_argument
@click.option("-y", "--yes", is_flag=True, help="Go on without asking.")
@options.speaking
def command(face: Face, ids: tuple[str, ...], yes: bool) -> int:
    """Remove sandboxes with their files, memory and processes. This cannot be taken back."""
    boxes = [common.find(face, named) for named in ids]
    if face.at_terminal and not yes:
        what = printable(", ".join(ids))
        options.agreed_to(f"Remove {what}? This cannot be taken back.")
    for named, box in zip(ids, boxes, strict=True):
        stay = len(box.snapshots())
        box.delete()
        face.say(f"removed {printable(named)}")
        if stay and face.at_terminal:
            face.note(f"Its snapshots stay ({stay}): takeback sandbox snapshots, takeback sandbox create --snapshot ID")
    face.answer(documents.document(removed=[box.id for box in boxes]))
    return 0
