"""`takeback deny`: say no to a held action."""

from __future__ import annotations

import click

from takeback import documents
from takeback.cli import holds, options
from takeback.cli.output import Face


@click.command(
    "deny",
    cls=options.Command,
    short_help="Say no to a held action, and why.",
    examples=[
        ("takeback deny h3 --because 'not before the release'", "the agent's retry is told so"),
        ("takeback deny h3", "without a reason"),
    ],
)
@click.argument("id")
@click.option("--because", default="", metavar="TEXT", help="What the agent is told.")
@click.option("--token", metavar="T", help="The token the notification command was given, where there is no terminal.")
@options.speaking
def command(face: Face, id: str, because: str, token: str | None) -> int:
    """Say no to the held action ID. The agent's identical retry is told TEXT.

    It also settles an action that was approved and started and whose end is not known. Not for agents, as `approve`.
    """
    from takeback.app import holding
    from takeback.app.person import require_person

    with options.opened(face, strict=False) as project:
        one = holding.get(project, id)
        require_person(token, hold=one if token is not None else None)
        denied = holding.deny(project, id, because)
    face.answer(documents.redacted_document(**holds.document(denied)))
    face.say(f"{id}: denied")
    return 0
