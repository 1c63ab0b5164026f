"""Options that many commands share, the command class that draws examples, and the way into a project.

Does not cover: what any single command does.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

import click

from takeback.cli.output import Face
from takeback.errors import OutsideProject

if TYPE_CHECKING:
    from takeback.app import Project

P = ParamSpec("P")
R = TypeVar("R")

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


session_option = click.option("--session", metavar="NAME", help="Only this agent's or terminal's session.")
task_option = click.option("--task", metavar="ID", help="Only this task.")
dry_run_option = click.option("--dry-run", is_flag=True, help="Show what would happen; write nothing.")
yes_option = click.option("-y", "--yes", is_flag=True, help="Go on without asking, also when much would be deleted.")
partial_option = click.option("--partial", is_flag=True, help="Leave out what conflicts and do the rest.")
shared_option = click.option("--shared", is_flag=True, help="Include changes that overlapping steps share.")


@contextmanager
def opened(face: Face) -> Iterator[Project]:
    """Open the project that `face` names, with a progress bar for long work. Raises NoProject and others."""
    from takeback.app import Project
    from takeback.cli.progress import reporting

    with reporting(face) as report, Project.open(face.project, progress=report) as project:
        yield project


def project_paths(root: bytes, paths: Sequence[str]) -> tuple[bytes, ...]:
    """Return `paths` as the library wants them: bytes below `root`.

    They are taken as relative to the current directory or, when that is outside the project, to `root`.
    Raises OutsideProject. Links in the last part of a path are not followed.
    """
    if not paths:
        return ()
    real_root = os.path.realpath(root)
    here = os.getcwdb()
    start = here if _below(here, real_root) else real_root
    result = []
    for path in paths:
        whole = os.path.normpath(os.path.join(start, os.fsencode(path)))
        parent, name = os.path.split(whole)
        whole = real_root if whole == real_root else os.path.join(os.path.realpath(parent), name)
        if not _below(whole, real_root) and os.path.realpath(whole) == real_root:
            whole = real_root
        if not _below(whole, real_root):
            raise OutsideProject(path=path, root=os.fsdecode(root))
        result.append(os.path.relpath(whole, real_root))
    return tuple(result)


def _below(path: bytes, root: bytes) -> bool:
    return path == root or path.startswith(root.rstrip(b"/") + b"/")
