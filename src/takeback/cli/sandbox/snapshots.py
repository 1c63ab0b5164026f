"""`takeback sandbox snapshots`: the snapshots there are, as a list or a tree; and removing them."""

from __future__ import annotations

import click

from takeback import documents
from takeback.cli import options
from takeback.cli.output import Face, printable
from takeback.cli.sandbox import common
from takeback.cli.sandbox.ls import table
from takeback.cli.values import format_size

_HEAD = ("ID", "NAME", "MODE", "SANDBOX", "SIZE", "CREATED", "EXPIRES")


@click.command(
    "snapshots",
    cls=options.Command,
    short_help="List, draw or remove snapshots.",
    examples=[
        ("takeback sandbox snapshots", "all of them, newest first"),
        ("takeback sandbox snapshots tree", "which came from which"),
        ("takeback sandbox snapshots rm before 5f6a7b8c", "remove some"),
    ],
)
@click.argument("action", type=click.Choice(("list", "tree", "rm")), default="list", metavar="[list|tree|rm]")
@click.argument("ids", nargs=-1, metavar="[ID...]")
@click.option("-y", "--yes", is_flag=True, help="Remove without asking.")
@options.speaking
def command(face: Face, action: str, ids: tuple[str, ...], yes: bool) -> int:
    """List the snapshots (of the sandboxes named, if any), draw the tree of what came from what, or remove some.

    What was made of a snapshot stays when it is removed. A removed one cannot be brought back.
    """
    if action == "rm":
        return _remove(face, ids, yes)
    snapshots = common.snapshots(face)
    if action == "tree":
        tree = snapshots.tree()
        face.answer(documents.document(tree=tree.to_dict()))
        for line in str(tree).splitlines():
            face.data(printable(line))
        return 0
    of: list[str | None] = [common.find(face, named).id for named in ids] if ids else [None]
    found = [record for sandbox in of for record in snapshots.list(sandbox_id=sandbox)]
    face.answer(documents.document(snapshots=found))
    rows = [
        (
            one["id"], one["name"] or "", one["mode"], one["sourceSandboxId"][:8], format_size(one["storedBytes"]),
            one["createdAt"], one["expiresAt"] or "",
        )
        for one in found
    ]  # fmt: skip
    table(face, _HEAD, rows)
    return 0


def _remove(face: Face, ids: tuple[str, ...], yes: bool) -> int:
    if not ids:
        raise click.UsageError("name the snapshots to remove")
    records = [common.find_snapshot(face, named) for named in ids]
    if face.at_terminal and not yes:
        options.agreed_to(f"Remove {printable(', '.join(ids))}? This cannot be taken back.")
    for named, record in zip(ids, records, strict=True):
        common.snapshots(face).delete(record["id"])
        face.say(f"removed {printable(named)}")
    face.answer(documents.document(removed=[record["id"] for record in records]))
    return 0
