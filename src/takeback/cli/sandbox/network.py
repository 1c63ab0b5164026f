"""`takeback sandbox network`: see and change what a sandbox may reach."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from takeback import documents
from takeback.cli import options
from takeback.cli.output import Face, printable
from takeback.cli.sandbox import common
from takeback.cli.sandbox.ls import table

if TYPE_CHECKING:
    from takeback.sandboxes import Sandbox

_HEAD = ("TIME", "VERDICT", "METHOD", "DESTINATION", "BYTES", "WHY", "STEP")
_SHOWN = 50


@click.command(
    "network",
    cls=options.Command,
    short_help="See and change what a sandbox may reach.",
    examples=[
        ("takeback sandbox network db --off", "nothing; open connections are cut at once"),
        ("takeback sandbox network db --allow registries", "only where your pip, npm and apt get packages"),
        ("takeback sandbox network db --log", "what was reached and refused, and why"),
    ],
)
@common.id_argument
@click.option("--off", is_flag=True, help="Nothing at all.")
@click.option("--on", is_flag=True, help="The whole internet.")
@common.rule_options
@click.option("--log", is_flag=True, help=f"Show the last {_SHOWN} decisions; all that are kept with --json.")
@options.speaking
def command(
    face: Face,
    id: str,
    off: bool,
    on: bool,
    allow: tuple[str, ...],
    deny: tuple[str, ...],
    connect: tuple[str, ...],
    log: bool,
) -> int:
    """Show what the sandbox may reach, or replace it: rules given here are the only ones from now on."""
    changed = bool(off or on or allow or deny or connect)
    if off + on > 1 or (off and (allow or deny or connect)) or (log and changed):
        raise click.UsageError("--off, --on and --log go with nothing else, but --on with rules")
    box = common.find(face, id)
    if log:
        return _log(face, box)
    if changed:
        record = box.network.set(internet=not off, allow=allow, deny=deny, connect=connect)
    else:
        record = box.network.get()
    face.answer(documents.document(network=record))
    face.data(f"internet: {'on' if record['internet'] else 'off'}")
    for name in ("allow", "deny", "connect"):
        if record[name]:
            face.data(f"{name}: {' '.join(record[name])}")
    return 0


def _log(face: Face, box: Sandbox) -> int:
    entries = box.network.log(None if face.json else _SHOWN)
    face.answer(documents.document(log=entries))
    table(face, _HEAD, [_row(entry) for entry in entries])
    return 0


def _row(entry: dict[str, Any]) -> tuple[str, ...]:
    from datetime import UTC, datetime

    when = datetime.fromtimestamp(entry["time"], UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    host = f"[{entry['host']}]" if ":" in entry["host"] else entry["host"]
    moved = f"{entry['up']}/{entry['down']}" if "down" in entry else ""
    why = "; ".join(filter(None, (entry["why"], entry.get("ended"))))
    verdict = "allowed" if entry["allowed"] else "refused"
    return (
        when,
        verdict,
        entry["method"],
        f"{host}:{entry['port']}",
        moved,
        printable(why),
        printable(entry.get("step", "")),
    )
