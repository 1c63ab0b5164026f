"""`takeback sandbox snapshot`: save a sandbox."""

from __future__ import annotations

import click

from takeback import documents
from takeback.cli import options
from takeback.cli.output import Face
from takeback.cli.sandbox import common


@click.command(
    "snapshot",
    cls=options.Command,
    short_help="Save a sandbox with its memory and processes.",
    examples=[
        ("takeback sandbox snapshot db --name before", "all of it; the sandbox goes on"),
        ("takeback sandbox snapshot db --mode disk --days 7", "its files only, for a week"),
    ],
)
@common.id_argument
@click.option("--name", metavar="NAME", help="A name for it.")
@click.option("--label", "labels", multiple=True, metavar="K=V", callback=common.pairs, help="A label; repeatable.")
@click.option("--days", type=int, metavar="N", help="Delete it after so many days, 1 to 365; never unless given.")
@click.option("--mode", type=click.Choice(("memory", "disk")), default="memory", help="With memory, or files only.")
@options.speaking
def command(face: Face, id: str, name: str | None, labels: dict[str, str], days: int | None, mode: str) -> int:
    """Save a sandbox and print the snapshot's id. The sandbox goes on; when it cannot be saved it goes on too."""
    box = common.find(face, id)
    with common.timed(face, f"saving {id}"):
        record = box.snapshot(name=name, labels=labels or None, retention_days=days, mode=mode)
    face.answer(documents.document(snapshot=record))
    face.data(record["id"])
    if face.at_terminal:
        face.note(f"Go back to it: takeback sandbox restore {common.short(box.info)} {common.short(record)}")
        face.note(f"Remove it:     takeback sandbox snapshots rm {common.short(record)}")
    return 0
