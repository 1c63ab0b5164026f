"""`takeback diff`: what differs between two checkpoints, or a checkpoint and the tree."""

from __future__ import annotations

import re

import click

from takeback import documents
from takeback.cli import draw, options
from takeback.cli.output import Face

_ID = re.compile(r"[a-z]\d+")


@click.command(
    "diff",
    cls=options.Command,
    short_help="What differs between two checkpoints, or one and now.",
    examples=[
        ("takeback diff", "the tree now against the last checkpoint"),
        ("takeback diff c12 src/", "one directory now against c12"),
        ("takeback diff c12 c15 --stat", "only the names and numbers of lines"),
    ],
)
@click.argument("words", nargs=-1, metavar="[A [B]] [PATH]...")
@click.option("--stat", is_flag=True, help="One line per path instead of the text.")
@options.speaking
def command(face: Face, words: tuple[str, ...], stat: bool) -> int:
    """Show what differs between A and B; without B, the tree as it is now; without A, from the last checkpoint.

    A first word that looks like an id (c12, s7) is one; a path of that name is written ./c12.
    """
    first, second, paths = split(words)
    with options.opened(face, strict=False) as project:
        text = not stat and not face.json
        changes, unified = project.diff(first, second, paths, text=text)
    face.answer(documents.document(a=first, b=second, changes=changes))
    if face.json:
        return 0
    if text:
        # What has no text of its own is listed above the text.
        changes = [change for change in changes if change.where in ("index", "refs")]
    if changes or not unified:
        for line in draw.changes(changes, verbose=face.verbose or stat):
            face.data(line)
    if unified:
        click.echo(unified, nl=False)
    return 0


def split(words: tuple[str, ...]) -> tuple[str | None, str | None, tuple[str, ...]]:
    """Return A, B and the paths: at most two leading words that look like ids."""
    ids: list[str | None] = []
    while len(ids) < 2 and len(ids) < len(words) and _ID.fullmatch(words[len(ids)]):
        ids.append(words[len(ids)])
    paths = words[len(ids) :]
    first, second = [*ids, None, None][:2]
    return first, second, paths
