"""`takeback chain remember`: save a sandbox as it is now, as a step."""

from __future__ import annotations

import click

from takeback import documents
from takeback.cli import options
from takeback.cli.chain.show import plain
from takeback.cli.output import Face, printable
from takeback.cli.sandbox import common


@click.command(
    "remember",
    cls=options.Command,
    short_help="Save a sandbox as it is now, as a step.",
    examples=[
        ("takeback chain remember db 'schema made'", "the next step of its chain"),
        ("takeback chain remember --keep 10 --days 7 db 'data in'", "the last ten stay, each for a week"),
    ],
)
@common.id_argument
@click.argument("step", metavar="STEP")
@click.option("--keep", type=int, default=50, metavar="N", help="How many steps stay; the oldest go first (50).")
@click.option("--days", type=int, metavar="N", help="Delete the step after so many days, 1 to 365.")
@options.speaking
def command(face: Face, id: str, step: str, keep: int, days: int | None) -> int:
    """Save a sandbox as it is now, with memory and processes, as a step of its chain called STEP."""
    from takeback.sandboxes import Chain

    box = common.find(face, id)
    chain = Chain(box, keep=keep, retention_days=days)
    with common.timed(face, f"saving {id}"):
        link = chain.remember(step)
    back = f"takeback chain back {common.short(box.info)} {link.number}"
    face.answer(documents.document(step=plain(link, chain.at), back_with=back))
    face.say(f"{link.number} {printable(link.step)}")
    if face.at_terminal:
        face.note(f"Go back to it with: {back}")
    return 0
