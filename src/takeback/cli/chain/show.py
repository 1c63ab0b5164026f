"""`takeback chain show`: the remembered steps of a sandbox, as a tree."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from takeback import documents
from takeback.cli import options
from takeback.cli.output import Face, printable
from takeback.cli.sandbox import common

if TYPE_CHECKING:
    from takeback.machines.client.chain import Link


@click.command(
    "show",
    cls=options.Command,
    short_help="The remembered steps, as a tree.",
    examples=[
        ("takeback chain show db", "with a mark at where it stands"),
        ("takeback chain show --json db", "for programs"),
    ],
)
@common.id_argument
@options.speaking
def command(face: Face, id: str) -> int:
    """Draw the remembered steps of a sandbox as a tree, with a mark at where it stands."""
    from takeback.sandboxes import Chain

    chain = Chain(common.find(face, id))
    here = chain.at
    face.answer(documents.document(steps=[plain(link, here) for link in chain.steps]))
    for line in chain.show().splitlines():
        face.data(printable(line))
    return 0


def plain(link: Link, here: Link | None) -> dict[str, Any]:
    """Return a step as the JSON has it."""
    return {
        "number": link.number, "step": link.step, "snapshot": link.id, "parent": link.parent, "here": link == here,
        "created_at": link.snapshot["createdAt"],
    }  # fmt: skip
