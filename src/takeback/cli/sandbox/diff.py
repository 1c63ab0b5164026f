"""`takeback sandbox diff`: the files in which a sandbox differs."""

from __future__ import annotations

import os
from typing import Any

import click

from takeback import documents
from takeback.cli import options
from takeback.cli.output import Face, printable
from takeback.cli.sandbox import common
from takeback.cli.values import format_size

_MARKS = {"added": "A", "changed": "M", "deleted": "D"}


@click.command(
    "diff",
    cls=options.Command,
    short_help="The files in which a sandbox differs.",
    examples=[
        ("takeback sandbox diff db", "since it was made or put to a snapshot"),
        ("takeback sandbox diff db before", "from a snapshot, or from another sandbox, to now"),
    ],
)
@click.argument("id", metavar="ID")
@click.argument("against", metavar="[AGAINST]", required=False)
@options.speaking
def command(face: Face, id: str, against: str | None) -> int:
    """Show the files added (A), changed (M) and deleted (D) from AGAINST to ID, each a sandbox or a snapshot.

    Without AGAINST, since ID was made or put to a snapshot. What lies in memory (/tmp, /run) does not count.
    """
    state = common.find_state(face, id)
    other = None if against is None else common.find_state(face, against)
    if isinstance(state, dict):
        found = common.snapshots(face).diff(state["id"], other)
    else:
        found = state.diff(other)
    face.answer(documents.document(**{**found, **{kind: _exact(found[kind]) for kind in _MARKS}}))
    lines = [(entry["path"], f"{mark}  {_size(entry):>9}") for kind, mark in _MARKS.items() for entry in found[kind]]
    for path, what in sorted(lines):
        face.data(f"{what}  {printable(os.fsencode(path))}")
    totals = found["totals"]
    face.say(f"{totals['added']} added, {totals['changed']} changed, {totals['deleted']} deleted")
    return 0


def _size(entry: dict[str, Any]) -> str:
    size = entry["oldSize"] if entry["size"] is None else entry["size"]
    return format_size(size) if entry["type"] == "file" else entry["type"][:9]


def _exact(entries: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the entries with paths as bytes, which JSON gets twice when they are not UTF-8."""
    return [{**entry, "path": os.fsencode(entry["path"])} for entry in entries]
