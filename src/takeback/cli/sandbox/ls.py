"""`takeback sandbox ls`: the sandboxes there are."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import click

from takeback import documents
from takeback.cli import options
from takeback.cli.output import Face, is_terminal, printable
from takeback.cli.sandbox import common

_HEAD = ("ID", "NAME", "STATE", "IMAGE", "CREATED")


@click.command(
    "ls",
    cls=options.Command,
    short_help="List the sandboxes.",
    examples=[
        ("takeback sandbox ls", "those that run, are paused, or can be started again"),
        ("takeback sandbox ls --all --label team=x", "also those that are over, with a label"),
    ],
)
@click.option("-a", "--all", "everything", is_flag=True, help="Also stopped ones whose disk is gone.")
@click.option("--label", "labels", multiple=True, metavar="K=V", callback=common.pairs, help="Only with this label.")
@options.speaking
def command(face: Face, everything: bool, labels: dict[str, str]) -> int:
    """List the sandboxes, newest first: a table on a terminal, tab-separated fields otherwise."""
    from takeback.sandboxes import Sandbox

    found = Sandbox.list(client=common.client(face), include_stopped=everything, labels=labels)
    face.answer(documents.document(sandboxes=[box.info for box in found]))
    rows = [
        (box.id, box.info["name"] or "", _state(box.info), box.info["image"] or "", box.info["createdAt"])
        for box in found
    ]
    table(face, _HEAD, rows)
    return 0


def _state(info: dict[str, object]) -> str:
    return f"{info['state']} (lost)" if info.get("lost") else str(info["state"])


def table(face: Face, head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> None:
    """Write rows as a table with a head on a terminal, and tab-separated without one elsewhere."""
    shown = [tuple(printable(cell) for cell in row) for row in rows]
    if not is_terminal(sys.stdout):
        for row in shown:
            face.data("\t".join(row))
        return
    widths = [max(len(row[at]) for row in [head, *shown]) for at in range(len(head))]
    for row in [head, *shown]:
        face.data("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
