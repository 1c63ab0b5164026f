"""`takeback chain back`: put a sandbox to a remembered step, in place."""

from __future__ import annotations

import click

from takeback import documents
from takeback.cli import options
from takeback.cli.chain.show import plain
from takeback.cli.output import Face, printable
from takeback.cli.sandbox import common


@click.command(
    "back",
    cls=options.Command,
    short_help="Put a sandbox to a remembered step.",
    examples=[
        ("takeback chain back db 3", "to the third step"),
        ("takeback chain back db 'schema made'", "by its name; a later step too"),
    ],
)
@common.id_argument
@click.argument("step", metavar="STEP")
@click.option("--no-undo", is_flag=True, help="Do not save what it is now: there is no way back.")
@options.speaking
def command(face: Face, id: str, step: str, no_undo: bool) -> int:
    """Put a sandbox to the step with that number or name, in place: files, memory and processes as they were then.

    The other steps stay. What it is now is saved first and kept for a day, so that this can be taken back; when that
    cannot be done it is left alone, and --no-undo goes ahead.
    """
    from takeback.sandboxes import Chain

    box = common.find(face, id)
    chain = Chain(box)
    with common.timed(face, f"putting {id} to {step}"):
        chain.go_back_to(int(step) if step.isdigit() else step, undo=not no_undo)
    undo = chain.undo and f"takeback sandbox restore {common.short(box.info)} {chain.undo[:8]}"
    here = chain.at
    assert here is not None
    face.answer(documents.document(sandbox=box.info, step=plain(here, here), undo_with=undo))
    face.say(f"{printable(id)} is at {here.number} {printable(here.step)}")
    if undo and not face.json:
        face.note(f"Take this back with: {undo}")
    return 0
