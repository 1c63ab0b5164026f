"""`takeback task`: the group of commands that do a task; each loads when it is named.

Does not cover: any single one, or looking at tasks (`tasks`, `show`, `attempts`) and taking one back (`revert`).
"""

from __future__ import annotations

import click

from takeback.cli import options
from takeback.cli.groups import LazyGroup

COMMANDS = ("run", "resume")


class TaskCommands(LazyGroup):
    """The group."""

    package = "takeback.cli.task"
    said_before = "task"
    commands_in_order = COMMANDS
    examples = (
        (
            "takeback task run --prompt 'Fix the parser' --verify 'make test' -- my-agent",
            "one task, one commit or none",
        ),
        ("takeback task resume fix-the-parser", "go on where a run was ended"),
        ("takeback revert fix-the-parser", "take a landed one back"),
    )


@click.group("task", cls=TaskCommands, short_help="Let an agent do one task: attempts, checks, one commit or none.")
@options.common
def command() -> int:
    """Let an agent do one task in a tree of its own, judge it by checks, and land it as one commit, or not at all."""
    return 0
