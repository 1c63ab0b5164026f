"""`takeback sandbox ps`: the processes of a sandbox."""

from __future__ import annotations

import click

from takeback import documents
from takeback.cli import options
from takeback.cli.output import Face
from takeback.cli.sandbox import common
from takeback.cli.sandbox.ls import table

_HEAD = ("ID", "STATE", "EXIT", "USER", "STARTED", "COMMAND")


@click.command(
    "ps",
    cls=options.Command,
    short_help="List the processes of a sandbox.",
    examples=[
        ("takeback sandbox ps db", "what runs, and the last 16 that ended"),
        ("takeback sandbox ps db --json", "with all that is known of them"),
    ],
)
@common.id_argument
@options.speaking
def command(face: Face, id: str) -> int:
    """List what was started in the sandbox: what runs, and the last 16 that ended. A paused one wakes for it."""
    records = common.find(face, id).processes()
    face.answer(documents.document(processes=records))
    table(
        face,
        _HEAD,
        [
            (
                one["id"],
                one["state"],
                "" if one["exitCode"] is None else str(one["exitCode"]),
                one["user"],
                one["startedAt"] or "",
                one["command"],
            )
            for one in records
        ],
    )
    return 0
