"""Options that many commands share, the command class that draws examples, and the way into a project.

Does not cover: what any single command does.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

import click

from takeback.cli.output import Face, printable
from takeback.errors import NothingToDo, UnknownId
from takeback.model import Finding

if TYPE_CHECKING:
    from takeback.app.project import Project

P = ParamSpec("P")
R = TypeVar("R")

_ID = re.compile(r"[a-z]\d+")
WHICH = (
    ("undo", "takes back what one step changed"),
    ("restore", "puts the whole tree to a checkpoint"),
    ("revert", "takes back one landed task"),
)


class Command(click.Command):
    """A command whose help ends with examples and the table that tells undo, restore and revert apart."""

    def __init__(self, *args: Any, examples: Sequence[tuple[str, str]] = (), **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.examples = tuple(examples)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        write_epilog(formatter, self.examples)


def write_epilog(formatter: click.HelpFormatter, examples: Sequence[tuple[str, str]]) -> None:
    """Write the examples, what each does above it, and the three-line table."""
    with formatter.section("Examples"):
        for line, meaning in examples:
            formatter.write(f"{'':>{formatter.current_indent}}# {meaning}\n")
            formatter.write(f"{'':>{formatter.current_indent}}{line}\n")
    with formatter.section("Which one"):
        formatter.write_dl(WHICH)


def _remember(ctx: click.Context, param: click.Parameter, value: Any) -> None:
    if value and param.name is not None:
        setattr(ctx.ensure_object(Face), param.name, value)


# Each may stand before the command and after it, so neither order is a mistake.
_COMMON = (
    click.option(
        "--project",
        metavar="DIR",
        expose_value=False,
        callback=_remember,
        help="Work on the project at DIR instead of the one around the current directory.",
    ),
    click.option(
        "--json", is_flag=True, expose_value=False, callback=_remember, help='Print one JSON object ("schema": 1).'
    ),
    click.option(
        "-q", "--quiet", is_flag=True, expose_value=False, callback=_remember, help="Print only data and errors."
    ),
    click.option(
        "-v", "--verbose", is_flag=True, expose_value=False, callback=_remember, help="List every path; name causes."
    ),
)


def common(function: Callable[P, R]) -> Callable[P, R]:
    """Add --project, --json, -q and -v."""
    for option in reversed(_COMMON):
        function = option(function)
    return function


def speaking(function: Callable[Concatenate[Face, P], R]) -> Callable[P, R]:
    """Add the common options and pass the Face they fill as the first argument."""
    return common(click.make_pass_decorator(Face, ensure=True)(function))


def agreed_to(question: str) -> None:
    """Ask a person about what nothing brings back. Raises NothingToDo on a no; Ctrl-C is an interruption as ever."""
    if not click.confirm(question):
        raise NothingToDo(sentence="nothing was removed", next="--yes does it without asking")


def no_path(step: str | None) -> None:
    """Tell who names a path where a step is meant how a path comes back. Raises UnknownId."""
    if step is not None and not _ID.fullmatch(step) and (os.sep in step or os.path.lexists(step)):
        nearest = f"a path comes back with `takeback restore ID {printable(step)}`; `takeback log` lists the ids"
        raise UnknownId(what="step", id=printable(step), nearest=nearest)


def project_may_be_named(command: click.Command) -> None:
    """Let `--project` stand without a DIR too: this project, where the other choice is a person's own settings."""
    given = click.Option(
        ["--project"],
        is_flag=False,
        flag_value="",
        metavar="DIR",
        expose_value=False,
        callback=_remember,
        help="In this project (the default), or the one at DIR.",
    )
    command.params = [given if one.name == "project" else one for one in command.params]


session_option = click.option("--session", metavar="NAME", help="Only this agent's or terminal's session.")
task_option = click.option("--task", metavar="ID", help="Only this task.")
dry_run_option = click.option("--dry-run", is_flag=True, help="Show what would happen; write nothing.")
yes_option = click.option("-y", "--yes", is_flag=True, help="Go on without asking, also when much would be deleted.")
partial_option = click.option("--partial", is_flag=True, help="Leave out what conflicts and do the rest.")
shared_option = click.option("--shared", is_flag=True, help="Include changes that overlapping steps share.")


def tell(face: Face, findings: Sequence[Finding]) -> None:
    """Write one line for each finding, and its fix below; with --quiet only what is not well."""
    for finding in findings:
        if finding.ok and face.quiet:
            continue
        mark = click.style("ok ", fg="green") if finding.ok else click.style("BAD", fg="red", bold=True)
        face.data(f"{mark} {finding.name}: {printable(finding.detail)}")
        if finding.fix and not finding.ok:
            face.data(f"    fix: {printable(finding.fix)}")


@contextmanager
def opened(face: Face, *, strict: bool = True) -> Iterator[Project]:
    """Open the project that `face` names, with a progress bar for long work. Raises NoProject and others.

    Without `strict` a mistake in the project's settings is told and they are left out: for what looks or takes back.
    """
    from takeback.app.project import Project
    from takeback.cli.progress import reporting

    with reporting(face) as report, Project.open(face.project, progress=report, strict=strict) as project:
        if project.problem is not None:
            face.note(f"The project's settings do not count: {project.problem}")
        yield project
