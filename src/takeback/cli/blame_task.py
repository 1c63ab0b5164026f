"""`takeback blame-task`: which task broke this check?"""

from __future__ import annotations

import click

from takeback import documents
from takeback.cli import options
from takeback.cli.output import Face, printable
from takeback.cli.task import common
from takeback.cli.values import timeout as as_timeout


@click.command(
    "blame-task",
    cls=options.Command,
    short_help="Which task broke this check?",
    examples=[
        ("takeback blame-task --verify 'make test'", "the first task after which it fails, and how to take it back"),
        ("takeback blame-task --verify 'python -c \"import app\"' --json", "for programs"),
    ],
)
@click.option("--verify", required=True, metavar="CMD", help="Shell source that fails now, and passed before.")
@click.option("--verify-timeout", callback=as_timeout, metavar="T", help="Time of each try; else as the settings say.")
@options.speaking
def command(face: Face, verify: str, verify_timeout: float | None) -> int:
    """Find the first commit after which CMD fails, on the branch that is out, back to before its first task.

    It is tried in a scratch worktree, a few times at most; no model is asked. The exit code is 1 when the commit found
    belongs to no task.
    """
    from takeback.app.tasks import blame_task

    with options.opened(face) as project:
        found = blame_task(project, verify, verify_timeout, common.saying(face))
    face.answer(
        documents.document(
            task=found.task or None, commit=found.commit, revert=found.revert or None, subject=found.subject,
            branch=found.branch, tests=[{"commit": commit, "exit": code} for commit, code in found.tests],
        )
    )  # fmt: skip
    if found.task:
        face.say(f"{found.task} broke it: {found.commit[:12]} {printable(found.subject)}")
        face.say(f"Take it back with: {found.revert}")
    else:
        face.say(f"No task, but this commit broke it: {found.commit[:12]} {printable(found.subject)}")
    return 0 if found.task else 1
