"""`takeback approve`: run a held action, once."""

from __future__ import annotations

import time

import click

from takeback import documents
from takeback.cli import holds, options
from takeback.cli.output import Face

_STDOUT, _STDERR = 1, 2


@click.command(
    "approve",
    cls=options.Command,
    short_help="Run a held action, once, as you.",
    examples=[
        ("takeback approve h3", "look at it and run it now, in its own folder"),
        ('takeback approve "$TAKEBACK_HOLD" --token "$TAKEBACK_TOKEN"', "from the notification command"),
    ],
)
@click.argument("id")
@click.option("--token", metavar="T", help="The token the notification command was given, where there is no terminal.")
@options.speaking
def command(face: Face, id: str, token: str | None) -> int:
    """Run the held action ID once, in your environment and its own folder. The agent's retry gets the result.

    The exit code is the action's own. Refused when what it would send, or the policy, changed since. Not for agents: it
    needs a terminal of your own, or the token. A tool call that only the agent can make is let through once instead.
    """
    from takeback.app import holding
    from takeback.app.person import require_person

    with options.opened(face) as project:
        one = holding.get(project, id)
        person = require_person(token, hold=one if token is not None else None)
        if not face.json:
            for line in holds.lines(one, time.time_ns()):
                face.note(line)
        done = holding.approve(project, id, person=person, stdout_fd=_STDERR if face.json else _STDOUT)
    face.answer(documents.redacted_document(ran=done.ran, **holds.document(done.hold)))
    if not done.ran:
        face.say(f"{id}: approved; the agent may do it once")
        return 0
    if not face.json:
        face.note(f"{id}: {holding.in_words(done.hold)}, recorded as {done.hold.step}")
    return done.hold.exit or 0
