"""What the sandbox commands share: finding the sandbox that is meant, and its JSON.

Does not cover: what any single command does.
"""

from __future__ import annotations

import shlex
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import click

from takeback.cli import options
from takeback.cli.output import Face, is_terminal, printable

if TYPE_CHECKING:
    from takeback.sandboxes import Client, Sandbox, Snapshots

F = TypeVar("F", bound=Callable[..., Any])


class WithWords(options.Command):
    """A command that ends with a command line: options after ID are its own only when `--` says where they end."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        ctx.allow_interspersed_args = "--" in args
        return super().parse_args(ctx, args)


id_argument = click.argument("id", metavar="ID")
ids_argument = click.argument("ids", metavar="ID...", nargs=-1, required=True)


def user_option(function: F) -> F:
    """Add --user."""
    option = click.option("--user", type=click.Choice(("sandbox", "root")), help="As whom; the sandbox's own default.")
    return option(function)


def rule_options(function: F) -> F:
    """Add --allow, --deny and --connect."""
    for name, metavar, text in (
        ("--connect", "H:P", "A host and port in addition to --allow; repeatable."),
        ("--deny", "X", "Never this; wins over all. Repeatable."),
        ("--allow", "X", "Only this: a name, *.name, address, range, or `registries`. Repeatable."),
    ):
        function = click.option(name, multiple=True, metavar=metavar, help=text)(function)
    return function


def client(face: Face) -> Client:
    """Return the way to the sandboxes; what a create sets up is told on stderr."""
    from takeback import sandboxes

    return sandboxes.client(report=face.note)


def find(face: Face, named: str) -> Sandbox:
    """Return the sandbox with this id, name, or beginning of an id. Raises SandboxNotFound, AmbiguousId."""
    from takeback.errors import SandboxNotFound, UsageError
    from takeback.sandboxes import Sandbox

    way = client(face)
    found = Sandbox.list(client=way, include_stopped=True)
    exact = [box for box in found if box.id == named] or [box for box in found if box.info["name"] == named]
    # The newest of a name is the living one.
    if exact:
        return exact[0]
    begun = [box for box in found if len(named) >= 4 and box.id.startswith(named)]
    if len(begun) > 1:
        raise UsageError(detail=f"{named!r} begins {len(begun)} ids: name more of it")
    if not begun:
        raise SandboxNotFound(id=named)
    return begun[0]


def snapshots(face: Face) -> Snapshots:
    """Return the way to the snapshots."""
    from takeback.sandboxes import Snapshots

    return Snapshots(client(face))


def find_snapshot(face: Face, named: str) -> dict[str, Any]:
    """Return the record of the snapshot with this id, name, or beginning of an id. Raises SnapshotNotFound."""
    from takeback.errors import SnapshotNotFound, UsageError

    found = snapshots(face).list()
    exact = [one for one in found if one["id"] == named] or [one for one in found if one["name"] == named]
    if exact:
        return exact[0]
    begun = [one for one in found if len(named) >= 4 and one["id"].startswith(named)]
    if len(begun) > 1:
        raise UsageError(detail=f"{named!r} begins {len(begun)} ids: name more of it")
    if not begun:
        raise SnapshotNotFound(id=named)
    return begun[0]


def find_state(face: Face, named: str) -> Sandbox | dict[str, Any]:
    """Return the sandbox, or else the snapshot, of that name. Raises SnapshotNotFound."""
    from takeback.errors import SandboxNotFound

    try:
        return find(face, named)
    except SandboxNotFound:
        return find_snapshot(face, named)


def short(info: Mapping[str, Any]) -> str:
    """Return how a sandbox or snapshot is named in a command that is suggested: by its name, or its id's beginning."""
    return printable(shlex.quote(str(info["name"] or info["id"][:8])))


@contextmanager
def timed(face: Face, what: str) -> Iterator[None]:
    """Tell a person at a terminal what is being done, and how long it took."""
    shown = not face.quiet and not face.json and is_terminal(sys.stderr)
    if shown:
        click.echo(f"{printable(what)} ... ", err=True, nl=False)
    began = time.monotonic()
    try:
        yield
    except BaseException:
        if shown:
            click.echo("", err=True)
        raise
    if shown:
        click.echo(f"{time.monotonic() - began:.2f} s", err=True)


def pairs(ctx: click.Context, param: click.Parameter, values: tuple[str, ...]) -> dict[str, str]:
    """Return NAME=VALUE options as a dict."""
    result = {}
    for value in values:
        name, equals, text = value.partition("=")
        if not equals or not name:
            raise click.BadParameter(f"{value!r} is not NAME=VALUE", ctx, param)
        result[name] = text
    return result
