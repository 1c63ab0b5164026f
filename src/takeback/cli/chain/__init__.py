"""`takeback chain`: the group of commands about remembered steps of a sandbox; each loads when it is named.

Does not cover: any single one.
"""

from __future__ import annotations

import difflib
import importlib

import click

from takeback.cli import options
from takeback.cli.options import write_epilog

COMMANDS = ("remember", "show", "back", "drop")


class ChainCommands(click.Group):
    """The group; a command's module is imported when its name is looked up."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        command = importlib.import_module(f"takeback.cli.chain.{cmd_name}").command
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and not args[0].startswith("-") and args[0] not in COMMANDS:
            near = difflib.get_close_matches(args[0], COMMANDS, 1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise click.UsageError(f"there is no command `chain {args[0]}`{hint}", ctx)
        return super().resolve_command(ctx, args)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        write_epilog(
            formatter,
            (
                ("takeback chain remember db 'schema made'", "after a step that went well"),
                ("takeback chain back db 3", "put the whole machine to the third step"),
                ("takeback chain show db", "the steps, as a tree"),
            ),
        )


@click.group("chain", cls=ChainCommands, short_help="Remember steps of a sandbox, and go back to any of them.")
@options.common
def command() -> int:
    """Remember the steps of a sandbox with files, memory and processes, and put it to any of them, in place.

    Going back deletes nothing: later steps stay, as a branch.
    """
    return 0
