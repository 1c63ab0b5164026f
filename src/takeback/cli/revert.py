"""`takeback revert`: take back one landed task."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import click

from takeback import documents
from takeback.cli import options
from takeback.cli.output import Face, printable
from takeback.cli.task import common

if TYPE_CHECKING:
    from takeback.tasks.revert import Reverted


@click.command(
    "revert",
    cls=options.Command,
    short_help="Take back one landed task.",
    examples=[
        ("takeback revert fix-the-parser --dry-run", "would it work, and do the checks still pass without it?"),
        ("takeback revert fix-the-parser", "its commit, and nothing else"),
        ("takeback revert fix-the-parser --with-dependants", "also the tasks that were built on it"),
    ],
)
@click.argument("id", metavar="TASK")
@click.option("--with-dependants", is_flag=True, help="Also the tasks in its way, newest first, a commit each.")
@click.option("--verify", multiple=True, metavar="CMD", help="A check besides the task's own; may be given again.")
@options.dry_run_option
@options.speaking
def command(face: Face, id: str, with_dependants: bool, verify: tuple[str, ...], dry_run: bool) -> int:
    """Take back exactly the commit of a landed task, on the branch that holds it.

    It is done in a scratch worktree first, with the task's checks. When it conflicts, or a check fails without it,
    nothing changes, the tasks in its way are named in the order to revert them, and the exit code is 1.
    """
    from takeback.app.tasks import revert_task

    with options.opened(face) as project:
        result = revert_task(
            project, id, dependants=with_dependants, verify=verify, dry_run=dry_run, say=common.saying(face)
        )
    document = {field.name: getattr(result, field.name) for field in dataclasses.fields(result)}
    document["reverts"] = [{"task": task, "commit": commit} for task, commit in result.reverts]
    face.answer(documents.document(**document, applied=result.outcome == "reverted", dry_run=dry_run))
    for line in lines(result):
        face.say(line)
    return 0 if result.outcome in ("reverted", "would-revert") else 1


def lines(result: Reverted) -> list[str]:
    """Return what was done, or why not, for people."""
    if result.outcome == "would-revert":
        tasks = ", ".join(task for task, _ in result.reverts)
        return [f"Would revert {tasks} on {printable(result.branch)}; the checks pass without it."]
    if result.outcome == "reverted":
        said = [f"{task} reverted by {commit[:12]} on {printable(result.branch)}" for task, commit in result.reverts]
        return [*said, f"Take this back with: {result.undo}"]
    said = [f"{result.task} was not reverted, nothing was changed: {printable(result.reason)}"]
    if result.outcome == "conflict" and result.dependants:
        said.append("These were built on it; revert them first, in this order:")
        said += [f"  takeback revert {task}" for task in result.dependants]
        said.append(f"or all at once: takeback revert {result.task} --with-dependants")
    elif result.dependants:
        said.append(f"Later tasks that touch the same files, newest first: {', '.join(result.dependants)}")
    return said
