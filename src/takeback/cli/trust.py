"""`takeback trust`: accept what a project's policy loosens."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from takeback import documents
from takeback.cli import options
from takeback.cli.output import Face, printable
from takeback.errors import UsageError

if TYPE_CHECKING:
    from takeback.config.levels import Loosened

_FORGET = "takeback trust --forget"


@click.command(
    "trust",
    cls=options.Command,
    short_help="Accept what this project's policy loosens.",
    examples=[
        ("takeback trust", "show what .takeback.toml loosens, ask, and remember the answer"),
        ("takeback trust --json", "show it only"),
        ("takeback trust --forget", "only what it makes stricter counts again"),
    ],
)
@click.option("-y", "--yes", is_flag=True, help="Accept without being asked.")
@click.option("--forget", is_flag=True, help="Take back what was accepted here.")
@options.speaking
def command(face: Face, yes: bool, forget: bool) -> int:
    """Accept what the policy of this project makes looser than your own.

    A project's .takeback.toml can always make stricter; looser only when a person at a terminal accepted it, and only
    while not a byte of it changes. With --json and without --yes it is shown and nothing is accepted.
    """
    from takeback.app import trusting

    review = trusting.review(face.project)
    if forget:
        trusting.forget(review)
        _answer(face, review.policies.root, review.policies.project.digest, review.loosened, trusted=False)
        face.say("forgotten: only what the project's policy makes stricter counts")
        return 0
    trusted = bool(review.loosened) and review.policies.trusted
    if review.needs_trust and not face.json:
        for line in lines(review.loosened):
            face.data(line)
        face.data("")
        if not yes and not face.at_terminal:
            raise UsageError(
                detail="only a person at a terminal can trust a policy; where none can be asked, say --yes"
            )
        if not yes and not click.confirm("Accept this?", default=False, err=True):
            face.note("Nothing was accepted.")
            return 1
    if not trusted and (yes or not face.json):
        trusting.accept(review)
        trusted = True
    _answer(face, review.policies.root, review.policies.project.digest, review.loosened, trusted=trusted)
    if trusted:
        face.say("trusted while the file stays as it is")
        face.say(f"Take this back with: {_FORGET}")
    return 0


def lines(loosened: Sequence[Loosened]) -> list[str]:
    """Return what is loosened, a line each, for a person."""
    return [printable(f"{one.where}: {one.what}: {one.was} -> {one.becomes}") for one in loosened]


def _answer(face: Face, root: str, digest: str, loosened: Sequence[Loosened], *, trusted: bool) -> None:
    shown = [dataclasses.asdict(one) for one in loosened]
    document = documents.document(
        trusted=trusted, root=root, digest=digest, loosened=shown, undo_with=_FORGET if trusted else None
    )
    face.answer(document)
