"""`takeback du`: disk used for this project."""

from __future__ import annotations

import dataclasses

import click

from takeback import documents
from takeback.cli import options
from takeback.cli.output import Face
from takeback.cli.values import format_size
from takeback.errors import HomeDirectory, NoProject
from takeback.model import Usage


@click.command(
    "du",
    cls=options.Command,
    short_help="Disk used for this project's checkpoints, and for machines.",
    examples=[
        ("takeback du", "in words"),
        ("takeback du --json", "in bytes"),
    ],
)
@options.speaking
def command(face: Face) -> int:
    """Show the disk that this project's checkpoints use. `linked` is shared with the project and costs nothing more.

    Below, what all sandboxes, snapshots and images of this user have, where there are any.
    """
    machines = _machines(face)
    try:
        with options.opened(face, strict=False) as project:
            usage = project.du()
    except (NoProject, HomeDirectory):
        if machines is None:
            raise
        face.answer(documents.document(machines=machines))
    else:
        face.answer(documents.document(**dataclasses.asdict(usage), machines=machines))
        _project(face, usage)
    if machines is not None:
        for name in ("total", "images", "snapshots"):
            face.data(f"{'machines' if name == 'total' else '  ' + name:<12} {format_size(machines[name]):>10}")
        if machines["limit"]:
            face.data(f"{'  limit':<12} {format_size(machines['limit']):>10}")
    return 0


def _machines(face: Face) -> dict[str, int] | None:
    """Return what machines have on the disk, None where there never were any."""
    from takeback.sandboxes import Snapshots, client

    way = client(report=face.note)
    return Snapshots(way).used() if way.directory.keeper.parent.joinpath("sandboxes").is_dir() else None


def _project(face: Face, usage: Usage) -> None:
    for name in ("total", "objects", "linked", "timeline", "worktrees"):
        face.data(f"{name:<12} {format_size(getattr(usage, name)):>10}")
    face.data(f"{'checkpoints':<12} {usage.checkpoints:>10}")
