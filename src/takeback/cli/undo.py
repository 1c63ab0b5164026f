"""`takeback undo`: take back what one step changed."""

from __future__ import annotations

import click

from takeback import model
from takeback.cli import options
from takeback.cli.carry_out import carry_out
from takeback.cli.output import Face


@click.command(
    "undo",
    cls=options.Command,
    short_help="Take back what one step changed.",
    examples=[
        ("takeback undo --dry-run", "what would the newest step's undo change?"),
        ("takeback undo s7", "take back step s7; later work of other hands stays"),
        ("takeback undo --session agent-1", "the newest step of that session only"),
    ],
)
@click.argument("step", required=False)
@options.session_option
@options.task_option
@click.option("--prompt", is_flag=True, help="All steps since the last prompt a person gave.")
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
    prompt: bool,
    partial: bool,
    shared: bool,
    dry_run: bool,
    yes: bool,
) -> int:
    """Take back what one step changed, in files, ignored files, index and refs.

    Without STEP: the newest step or restore that is not taken back yet. Undo again to go back one more.
    Any conflict: nothing is written, all are named, exit code 1.
    """
    options.no_path(step)
    with options.opened(face, strict=False) as project:

        def call(*, dry_run: bool, yes: bool) -> model.RestoreResult:
            return project.undo(
                step,
                session=session,
                task=task,
                prompt=prompt,
                partial=partial,
                shared=shared,
                dry_run=dry_run,
                yes=yes,
            )

        return carry_out(face, call, doing="Undo", dry_run=dry_run, yes=yes)
