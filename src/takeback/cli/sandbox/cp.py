"""`takeback sandbox cp`: copy files and folders into a sandbox and out of it."""

from __future__ import annotations

import os

import click

from takeback import documents
from takeback.cli import options
from takeback.cli.output import Face, printable
from takeback.cli.sandbox import common
from takeback.errors import UsageError


@click.command(
    "cp",
    cls=options.Command,
    short_help="Copy files into a sandbox and out of it.",
    examples=[
        ("takeback sandbox cp . db:/workspace/project", "this folder into it"),
        ("takeback sandbox cp db:/workspace/report.html .", "a file out of it"),
    ],
)
@click.argument("source", metavar="FROM")
@click.argument("target", metavar="TO")
@options.speaking
def command(face: Face, source: str, target: str) -> int:
    """Copy a file or a whole folder; FROM or TO is ID:/PATH. An existing folder as TO gets a file into it."""
    inside_source, inside_target = _split(source), _split(target)
    if (inside_source is None) == (inside_target is None):
        raise UsageError(detail="one of FROM and TO must be a path in a sandbox: ID:/PATH")
    if inside_target is not None:
        box = common.find(face, inside_target[0])
        path = inside_target[1]
        found = box.files.stat(path)
        if not os.path.isdir(source) and (path.endswith("/") or found.get("type") == "directory"):
            path = f"{path.rstrip('/')}/{os.path.basename(os.path.abspath(source))}"
        box.files.upload(source, path)
        face.answer(documents.document(sandbox=box.id, path=path, local=os.path.abspath(source)))
        face.say(f"copied to {printable(path)}")
    elif inside_source is not None:
        box = common.find(face, inside_source[0])
        box.files.download(inside_source[1], target)
        face.answer(documents.document(sandbox=box.id, path=inside_source[1], local=os.path.abspath(target)))
        face.say(f"copied to {printable(target)}")
    return 0


def _split(word: str) -> tuple[str, str] | None:
    """Return sandbox and path of ID:/PATH, or None for a path of this machine."""
    named, colon, path = word.partition(":")
    return (named, path) if colon and named and "/" not in named and path.startswith("/") else None
