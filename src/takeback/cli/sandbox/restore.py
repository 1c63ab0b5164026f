"""`takeback sandbox restore`: put a sandbox to a snapshot, in place."""

from __future__ import annotations

import click

from takeback import documents
from takeback.cli import options
from takeback.cli.output import Face, printable
from takeback.cli.sandbox import common


@click.command(
    "restore",
    cls=options.Command,
    short_help="Put a sandbox to a snapshot, in place.",
    examples=[
        ("takeback sandbox restore db before", "files, memory and processes as they were then"),
        ("takeback sandbox restore db", "to the last one of it"),
    ],
)
@common.id_argument
@click.argument("snapshot", metavar="[SNAPSHOT]", required=False)
@click.option("--no-undo", is_flag=True, help="Do not save what it is now: there is no way back.")
@options.speaking
def command(face: Face, id: str, snapshot: str | None, no_undo: bool) -> int:
    """Put a sandbox to a snapshot: same id and name, files, memory and processes as they were then.

    What it is now is saved first and kept for a day, so that this can be taken back; when that cannot be done it is
    left alone, and --no-undo goes ahead. One that was stopped or died runs again; what is saved of it are its files.
    """
    from takeback.errors import NothingToDo

    box = common.find(face, id)
    if snapshot is None:
        own = [one for one in box.snapshots() if "takeback.undo" not in one["labels"]]
        if not own:
            raise NothingToDo(
                sentence=f"sandbox {printable(id)} has no snapshot yet",
                next=f"`takeback sandbox snapshot {printable(id)}` makes one",
            )
        record = own[0]
    else:
        record = common.find_snapshot(face, snapshot)
    with common.timed(face, f"putting {id} to {record['name'] or record['id'][:8]}"):
        box.restore(record, undo=not no_undo)
    before = box.info["undoSnapshotId"]
    undo = before and f"takeback sandbox restore {common.short(box.info)} {before[:8]}"
    face.answer(documents.document(sandbox=box.info, snapshot=record["id"], undo_with=undo))
    face.say(f"{printable(id)} is at {printable(record['name'] or record['id'][:8])}")
    if undo and not face.json:
        face.note(f"Take this back with: {undo}")
    return 0
