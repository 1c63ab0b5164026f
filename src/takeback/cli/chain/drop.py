"""`takeback chain drop`: forget remembered steps."""

from __future__ import annotations

import click

from takeback import documents
from takeback.cli import options
from takeback.cli.output import Face, printable
from takeback.cli.sandbox import common


@click.command(
    "drop",
    cls=options.Command,
    short_help="Forget remembered steps.",
    examples=[
        ("takeback chain drop db 2", "one step"),
        ("takeback chain drop --yes db", "all of them"),
    ],
)
@common.id_argument
@click.argument("step", metavar="[STEP]", required=False)
@click.option("-y", "--yes", is_flag=True, help="Go on without asking.")
@options.speaking
def command(face: Face, id: str, step: str | None, yes: bool) -> int:
    """Forget one step of a sandbox's chain, or all of them. The sandbox stays as it is; this cannot be taken back."""
    from takeback.sandboxes import Chain

    chain = Chain(common.find(face, id))
    before = chain.steps
    if face.at_terminal and not yes:
        what = "all steps" if step is None else f"step {step}"
        options.agreed_to(f"Forget {printable(what)} of {printable(id)}? This cannot be taken back.")
    chain.drop(None if step is None else int(step) if step.isdigit() else step)
    left = {link.id for link in chain.steps}
    gone = [link for link in before if link.id not in left]
    face.answer(documents.document(removed=[link.id for link in gone]))
    for link in gone:
        face.say(f"forgot {link.number} {printable(link.step)}")
    return 0
