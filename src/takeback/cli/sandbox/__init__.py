"""`takeback sandbox`: the group of commands about machines; each loads when it is named.

Does not cover: any single one.
"""

from __future__ import annotations

import difflib
import importlib

import click

from takeback.cli import options
from takeback.cli.options import write_epilog

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


class SandboxCommands(click.Group):
    """The group; a command's module is imported when its name is looked up."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        # `try` is no name for a module.
        module = "try_" if cmd_name == "try" else cmd_name
        command = importlib.import_module(f"takeback.cli.sandbox.{module}").command
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and not args[0].startswith("-") and args[0] not in COMMANDS:
            near = difflib.get_close_matches(args[0], COMMANDS, 1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise click.UsageError(f"there is no command `sandbox {args[0]}`{hint}", ctx)
        return super().resolve_command(ctx, args)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        write_epilog(
            formatter,
            (
                ("takeback sandbox create --name db", "a machine of your own, in a fraction of a second"),
                ("takeback sandbox exec db -- make test", "run something in it"),
                ("takeback sandbox rm db", "remove it for good"),
            ),
        )


@click.group("sandbox", cls=SandboxCommands, short_help="Machines of your own: make, use and remove them.")
@options.common
def command() -> int:
    """Work with sandboxes: machines of your own, on this computer, that pause when idle and wake when used.

    A sandbox is named by its id, by the beginning of its id, or by its name.
    """
    return 0
