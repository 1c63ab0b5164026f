"""`takeback task resume`: go on with a task whose run was ended."""

from __future__ import annotations

import click

from takeback.cli import options
from takeback.cli.output import Face
from takeback.cli.task import common


@click.command(
    "resume",
    cls=options.Command,
    short_help="Go on with a task whose run was ended, or whose agent had to log in.",
    examples=[
        ("takeback task resume fix-the-parser", "from where it was"),
        ("takeback task resume --json fix-the-parser", "the same, and one JSON object at the end"),
    ],
)
@click.argument("id", metavar="TASK")
@options.speaking
def command(face: Face, id: str) -> int:
    """Go on with a task whose run was ended by a signal, a crash or a power cut, or that waits for a login.

    Nothing lands twice. An attempt that was cut short is saved as one, and does not count.
    """
    from takeback.app.tasks import resume_task

    with options.opened(face) as project:
        task = common.interruptible(lambda: resume_task(project, id, common.saying(face)), face)
    return common.ended(face, task)
