"""A group of commands of which each is imported when it is named, so that each starts with what it needs.

Does not cover: which commands there are (`main`, `sandbox`, `chain`).
"""

from __future__ import annotations

import difflib
import importlib
from typing import ClassVar

import click

from takeback.cli.options import write_epilog


class LazyGroup(click.Group):
    """Looks a command up as `command` in the module of its name below `package`; help ends with `examples`."""

    package: ClassVar[str]
    commands_in_order: ClassVar[tuple[str, ...]]
    examples: ClassVar[tuple[tuple[str, str], ...]]
    said_before: ClassVar[str] = ""  # the words between `takeback` and the command
    other_names: ClassVar[dict[str, str]] = {}  # second names, which are not listed

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands_in_order)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        cmd_name = self.other_names.get(cmd_name, cmd_name)
        if cmd_name not in self.commands_in_order:
            return None
        # `try` is no name for a module, and none has a dash.
        module = "try_" if cmd_name == "try" else cmd_name.replace("-", "_")
        command = importlib.import_module(f"{self.package}.{module}").command
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        known = {*self.commands_in_order, *self.other_names}
        if args and not args[0].startswith("-") and args[0] not in known:
            near = difflib.get_close_matches(args[0], self.commands_in_order, 1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            asked = f"`{self.said_before} {args[0]}`" if self.said_before else repr(args[0])
            raise click.UsageError(f"there is no command {asked}{hint}", ctx)
        return super().resolve_command(ctx, args)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        write_epilog(formatter, self.examples)
