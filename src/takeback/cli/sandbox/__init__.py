"""`takeback sandbox`: the group of commands about machines; each loads when it is named.

Does not cover: any single one.
"""

from __future__ import annotations

import click

from takeback.cli import options
from takeback.cli.groups import LazyGroup

COMMANDS = (
    "create",
    "ls",
    "exec",
    "shell",
    "cp",
    "ps",
    "network",
    "forward",
    "fork",
    "try",
    "diff",
    "snapshot",
    "restore",
    "snapshots",
    "cost",
    "pause",
    "wake",
    "rm",
)


class SandboxCommands(LazyGroup):
    """The group."""

    package = "takeback.cli.sandbox"
    said_before = "sandbox"
    commands_in_order = COMMANDS
    examples = (
        ("takeback sandbox create --name db", "a machine of your own, in a fraction of a second"),
        ("takeback sandbox exec db -- make test", "run something in it"),
        ("takeback sandbox rm db", "remove it for good"),
    )


@click.group("sandbox", cls=SandboxCommands, short_help="Machines of your own: make, use and remove them.")
@options.common
def command() -> int:
    """Work with sandboxes: machines of your own, on this computer, that pause when idle and wake when used.

    A sandbox is named by its id, by the beginning of its id, or by its name.
    """
    return 0
