"""`takeback restore`: put the tree, or some paths, to a checkpoint."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from takeback import model
from takeback.cli import options
from takeback.cli.carry_out import carry_out
from takeback.cli.output import Face

if TYPE_CHECKING:
    from takeback.app.project import Project


@click.command(
    "restore",
    cls=options.Command,
    short_help="Put the whole tree, or some paths, to a checkpoint.",
    examples=[
        ("takeback restore c12 --dry-run", "what would change?"),
        ("takeback restore c12 src/app.py", "only this path"),
        ("takeback restore c12 --to ../rescued", "into a new directory; works when the project is gone"),
    ],
)
@click.argument("id")
@click.argument("paths", nargs=-1, metavar="[PATH]...")
@click.option("--refs", is_flag=True, help="Move HEAD, branches and the stash too.")
@click.option("--to", metavar="DIR", help="Write into this new or empty directory instead; needs no project.")
@options.partial_option
@options.dry_run_option
@options.yes_option
@options.speaking
def command(
    face: Face,
    id: str,
    paths: tuple[str, ...],
    refs: bool,
    to: str | None,
    partial: bool,
    dry_run: bool,
    yes: bool,
) -> int:
    """Put the whole tree, or only PATHs, exactly to checkpoint ID.

    HEAD and branches stay unless --refs. A newer file is deleted only when the checkpoint made first holds its bytes.
    """
    with _opened(face, id, to) as project:
        target = None if to is None else os.path.abspath(to)

        def call(*, dry_run: bool, yes: bool) -> model.RestoreResult:
            return project.restore(id, paths, refs=refs, to=target, dry_run=dry_run, yes=yes, partial=partial)

        return carry_out(face, call, doing="Restore", dry_run=dry_run, yes=yes)


@contextmanager
def _opened(face: Face, id: str, to: str | None) -> Iterator[Project]:
    if to is None:
        with options.opened(face, strict=False) as project:
            yield project
        return
    from takeback.app.project import open_for_restore
    from takeback.cli.progress import reporting

    with reporting(face) as report, open_for_restore(id, face.project, progress=report) as project:
        yield project
