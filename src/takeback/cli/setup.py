"""`takeback setup`: bring what machines need, and say what was done."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import click

from takeback import documents
from takeback.cli import options
from takeback.cli.output import Face, is_terminal, printable
from takeback.cli.values import format_size
from takeback.errors import ToolMissing


@click.command(
    "setup",
    cls=options.Command,
    short_help="Get what machines need: an engine and an image.",
    examples=[
        ("takeback setup", "get everything for the first Sandbox.create()"),
        ("takeback setup --check", "what is there, and what is missing?"),
        ("takeback setup --no-image", "the engine only"),
    ],
)
@click.option(
    "--image",
    metavar="NAME",
    default="debian",
    show_default=True,
    help="`debian`, `host`, a directory's path, oci:/a/layout, or a registry's name:tag.",
)
@click.option("--no-image", is_flag=True, help="Get the engine only.")
@click.option("--mirror", metavar="URL", default="", help="Debian mirror, where this machine's apt knows none.")
@click.option("--check", is_flag=True, help="Change nothing; the exit code is 1 when something is missing.")
@click.option("-y", "--yes", is_flag=True, help="As root on Debian, install packages that the work needs.")
@options.speaking
def command(face: Face, image: str, no_image: bool, mirror: str, check: bool, yes: bool) -> int:
    """Get what machines (sandboxes that can be saved and copied while they run) need. Files need none of it.

    Everything goes into takeback's own folder. The system's packages and sources are left as they are. What is there
    already is not fetched again. `Sandbox.create()` does the same by itself when something is missing.
    """
    from takeback.app import machines

    setup = machines.setup(mirror=mirror)
    wanted = None if no_image else image
    if check:
        findings = setup.findings(wanted)
        well = all(finding.ok for finding in findings)
        face.answer(documents.document(ok=well, findings=findings))
        options.tell(face, findings)
        return 0 if well else 1
    steps = _Steps(face)
    try:
        try:
            ready = setup.ensure(wanted, report=steps.begin)
        except ToolMissing as error:
            if not _may_install(face, error, yes):
                raise
            steps.begin(f"installing {error.fields['packages']}")
            machines.install_packages(error.fields["packages"].split())
            ready = setup.ensure(wanted, report=steps.begin)
    finally:
        steps.end()
    engine, found = ready.engine, ready.image
    made = {name: round(seconds, 3) for name, seconds in ready.made}
    shown = {
        "name": "runsc", "version": str(engine.build), "path": str(engine.path), "own": engine.own,
        "platform": ready.platform.name,
    }  # fmt: skip
    inside = found and {"name": found.name, "version": found.version, "rootfs": str(found.rootfs)}
    face.answer(documents.document(engine=shown, image=inside, made=made))
    size = format_size(engine.path.stat().st_size)
    face.say(
        f"engine: runsc {engine.build} on {printable(str(ready.platform))}, {size}, {_ago(made, 'engine')}:"
        f" {printable(str(engine.path))}"
    )
    if found is not None:
        name = " ".join(filter(None, ("directory" if found.name == str(found.rootfs) else found.name, found.version)))
        size = _size(found.rootfs.parent)
        face.say(f"image:  {name}{size}, {_ago(made, f'image {found.name}')}: {printable(str(found.rootfs))}")
    return 0


def _ago(made: dict[str, float], name: str) -> str:
    return f"made in {made[name]:.1f} s" if name in made else "was there"


def _size(folder: Path) -> str:
    from takeback.machines.images import base

    size = base.size(folder)
    return f", {format_size(size)}" if size else ""


def _may_install(face: Face, error: ToolMissing, yes: bool) -> bool:
    from takeback.app import machines

    if not machines.can_install_packages():
        return False
    return yes or (face.at_terminal and click.confirm(f"{error}. Install {error.fields['packages']} with apt-get?"))


class _Steps:
    """Says each step on stderr when a person watches, with its seconds when it is over."""

    def __init__(self, face: Face) -> None:
        self._watched = not face.quiet and not face.json and is_terminal(sys.stderr)
        self._now = ""
        self._began = 0.0

    def begin(self, what: str) -> None:
        self.end()
        if self._watched:
            click.echo(f"  {printable(what)} ... ", nl=False, err=True)
        self._now, self._began = what, time.monotonic()

    def end(self) -> None:
        if self._watched and self._now:
            click.echo(f"{time.monotonic() - self._began:.1f} s", err=True)
        self._now = ""
