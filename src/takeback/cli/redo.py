"""`takeback redo`: apply again what an undo took back."""

from __future__ import annotations

import click

from takeback import model
from takeback.cli import options
from takeback.cli.carry_out import carry_out
from takeback.cli.output import Face


@click.command(
    "redo",
    cls=options.Command,
    short_help="Apply again what undo took back.",
    examples=[
        ("takeback redo", "apply the newest undone step again"),
        ("takeback redo s7 --dry-run", "what would applying s7 again change?"),
    ],
)
@click.argument("step", required=False)
@options.session_option
@options.task_option
@options.partial_option
@options.shared_option
@options.dry_run_option
@options.yes_option
@options.speaking
def command(
    face: Face,
    step: str | None,
    session: str | None,
    task: str | None,
    partial: bool,
    shared: bool,
    dry_run: bool,
    yes: bool,
) -> int:
    """Apply again what the newest undo took back, by the same rule as undo.

    A new step ends the redo line of its own session; `takeback log` still has everything.
    """
    options.no_path(step)
    with options.opened(face, strict=False) as project:

        def call(*, dry_run: bool, yes: bool) -> model.RestoreResult:
            return project.redo(
                step, session=session, task=task, partial=partial, shared=shared, dry_run=dry_run, yes=yes
            )

        return carry_out(face, call, doing="Redo", dry_run=dry_run, yes=yes)
