"""`takeback du`: disk used for this project."""

from __future__ import annotations

import dataclasses

import click

from takeback.cli import jsonable, options
from takeback.cli.output import Face
from takeback.cli.values import format_size


@click.command(
    "du",
    cls=options.Command,
    short_help="Disk used for this project's checkpoints.",
    examples=[
        ("takeback du", "in words"),
        ("takeback du --json", "in bytes"),
    ],
)
@options.speaking
def command(face: Face) -> int:
    """Show the disk that this project's checkpoints use. `linked` is shared with the project and costs nothing more."""
    with options.opened(face) as project:
        usage = project.du()
    face.answer(jsonable.document(**dataclasses.asdict(usage)))
    for name in ("total", "objects", "linked", "timeline", "worktrees"):
        face.data(f"{name:<12} {format_size(getattr(usage, name)):>10}")
    face.data(f"{'checkpoints':<12} {usage.checkpoints:>10}")
    return 0
