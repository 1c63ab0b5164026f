"""`takeback sandbox create`: make a sandbox."""

from __future__ import annotations

from typing import Any

import click

from takeback import documents
from takeback.cli import options
from takeback.cli.output import Face, printable
from takeback.cli.sandbox import common
from takeback.cli.values import size
from takeback.cli.values import timeout as as_timeout

_MIB = 1 << 20


@click.command(
    "create",
    cls=options.Command,
    short_help="Make a sandbox and start it.",
    examples=[
        ("takeback sandbox create --name db", "the default image, with a name"),
        ("takeback sandbox create --memory 1G --allow registries", "a small one that only gets packages"),
        ("takeback sandbox create --snapshot good", "from a snapshot, also of a sandbox that is gone"),
    ],
)
@click.option("--name", metavar="NAME", help="A name, unique among the living ones.")
@click.option(
    "--image",
    metavar="IMAGE",
    help="`debian` (the default), `host`, `host:/folder`, a folder's full path, oci:/layout, name:tag.",
)
@click.option("--snapshot", metavar="ID", help="Start from a snapshot, by id or name, in place of an image.")
@click.option("--label", "labels", multiple=True, metavar="K=V", callback=common.pairs, help="A label; repeatable.")
@click.option("--env", multiple=True, metavar="K=V", callback=common.pairs, help="A variable for all commands in it.")
@click.option("--vcpu", type=int, metavar="N", help="Processors (2).")
@click.option("--memory", callback=size, metavar="S", help="Memory (4G).")
@click.option("--disk", callback=size, metavar="S", help="Changed files (4G).")
@click.option("--timeout", callback=as_timeout, metavar="T", help="Its time limit: 10m, 2h. None unless given.")
@click.option("--at-end", type=click.Choice(("pause", "stop", "delete")), help="What happens then (pause).")
@click.option("--idle-pause", callback=as_timeout, metavar="T", help="Pause when unused for so long (5m); 0s never.")
@click.option("--no-auto-wake", is_flag=True, help="Stay paused until `wake` is said.")
@click.option("--reuse", is_flag=True, help="Use the living one of that name, if there is one.")
@click.option("--offline", is_flag=True, help="It reaches nothing; `sandbox network` changes that later.")
@common.rule_options
@common.user_option
@options.speaking
def command(
    face: Face,
    name: str | None,
    image: str | None,
    snapshot: str | None,
    labels: dict[str, str],
    env: dict[str, str],
    vcpu: int | None,
    memory: int | None,
    disk: int | None,
    timeout: float | None,
    at_end: str | None,
    idle_pause: float | None,
    no_auto_wake: bool,
    reuse: bool,
    offline: bool,
    allow: tuple[str, ...],
    deny: tuple[str, ...],
    connect: tuple[str, ...],
    user: str | None,
) -> int:
    """Make a sandbox, start it, and print its id. What machines need is set up first, when it is missing."""
    from takeback.sandboxes import Sandbox

    if offline and (allow or deny or connect):
        raise click.UsageError("--offline goes with no --allow, --deny or --connect")
    for option, given in (("--memory", memory), ("--disk", disk)):
        if given is not None and given < _MIB:
            raise click.UsageError(f"{option} {given} is a number of bytes, and too few: say 512M or 4G")
    rules = {"internet": not offline, "allow": allow, "deny": deny, "connect": connect}
    fields: dict[str, Any] = {
        "name": name,
        "image": image,
        "snapshot": snapshot and common.find_snapshot(face, snapshot)["id"],
        "labels": labels or None,
        "env": env or None,
        "vcpu": vcpu,
        "memory_mib": memory and memory // _MIB,
        "disk_mib": disk and disk // _MIB,
        "timeout_seconds": timeout and int(timeout),
        "on_lease_end": at_end,
        "idle_pause_seconds": None if idle_pause is None else int(idle_pause),
        "auto_wake": False if no_auto_wake else None,
        "get_or_create": reuse or None,
        "user": user,
        "network": rules if offline or allow or deny or connect else None,
    }
    box = Sandbox.create(client=common.client(face), **fields)
    face.answer(documents.document(sandbox=box.info))
    face.data(box.id)
    if face.at_terminal:
        face.note(f"Use it:    takeback sandbox exec {printable(name or box.id[:8])} -- CMD...")
        face.note(f"Remove it: takeback sandbox rm {printable(name or box.id[:8])}")
    return 0
