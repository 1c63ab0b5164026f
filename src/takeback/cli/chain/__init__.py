"""`takeback chain`: the group of commands about remembered steps of a sandbox; each loads when it is named.

Does not cover: any single one.
"""

from __future__ import annotations

import click

from takeback.cli import options
from takeback.cli.groups import LazyGroup

COMMANDS = ("remember", "show", "back", "drop")


class ChainCommands(LazyGroup):
    """The group."""

    package = "takeback.cli.chain"
    said_before = "chain"
    commands_in_order = COMMANDS
    examples = (
        ("takeback chain remember db 'schema made'", "after a step that went well"),
        ("takeback chain back db 3", "put the whole machine to the third step"),
        ("takeback chain show db", "the steps, as a tree"),
    )


@click.group("chain", cls=ChainCommands, short_help="Remember steps of a sandbox, and go back to any of them.")
@options.common
def command() -> int:
    """Remember the steps of a sandbox with files, memory and processes, and put it to any of them, in place.

    Going back deletes nothing: later steps stay, as a branch.
    """
    return 0
