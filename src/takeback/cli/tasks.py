"""`takeback tasks`: what agents were given to do here, and what came of it."""

from __future__ import annotations

import time

import click

from takeback import documents
from takeback.cli import options
from takeback.cli.output import Face, printable
from takeback.cli.task import common
from takeback.cli.values import format_age


@click.command(
    "tasks",
    cls=options.Command,
    short_help="All tasks, and what came of each.",
    examples=[
        ("takeback tasks", "oldest first"),
        ("takeback tasks --json", "every field, for programs"),
    ],
)
@options.speaking
def command(face: Face) -> int:
    """List the tasks of this project, oldest first: what came of each, its commit, the command that takes it back."""
    from takeback.app.tasks import list_tasks

    with options.opened(face, strict=False) as project:
        found = list_tasks(project)
    face.answer(documents.document(tasks=[{**common.plain(task), "created_ns": task.created_ns} for task in found]))
    if not found:
        face.note("no task yet: `takeback task run --help` begins one")
    now = time.time_ns()
    for task in found:
        age = format_age((now - task.created_ns) / 1e9)
        how = "reverted" if task.reverted_by else str(task.outcome)
        rest = task.undo or printable(task.reason)
        face.data("\t".join((f"t:{task.id}", age, how, task.commit[:12] or "-", printable(task.branch), rest)))
    return 0
