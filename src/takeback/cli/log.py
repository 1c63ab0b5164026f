"""`takeback log`: the timeline, newest first."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence

import click

from takeback import documents, model
from takeback.cli import draw, options
from takeback.cli.output import Face, is_terminal, printable
from takeback.cli.values import format_age

_COLUMNS = ("id", "when", "session", "exit", "what")


@click.command(
    "log",
    cls=options.Command,
    short_help="Steps, checkpoints, undos: the timeline, newest first.",
    examples=[
        ("takeback log -n 5", "the newest five"),
        ("takeback log --session agent-1", "what that session did"),
        ("takeback log --json", "every field, for programs"),
    ],
)
@click.option("-n", "--limit", type=click.IntRange(min=1), metavar="N", help="At most N events.")
@options.session_option
@options.task_option
@options.speaking
def command(face: Face, limit: int | None, session: str | None, task: str | None) -> int:
    """List what happened, newest first. Nothing is ever taken off this list."""
    with options.opened(face, strict=False) as project:
        shown_whole = face.json or face.verbose
        events = project.log(limit=limit if shown_whole else None, session=session, task=task)
    face.answer(documents.document(events=events))
    if face.json:
        return 0
    if not shown_whole:  # checkpoints taken for a step or a restore are shown with -v
        events = [event for event in events if not (event.kind is model.EventKind.CHECKPOINT and event.data.get("own"))]
        events = events[:limit]
    lines = rows(events, time.time_ns())
    if not lines:
        face.note("nothing yet: `takeback checkpoint` or `takeback run -- CMD` begins the timeline")
    elif is_terminal(sys.stdout):
        _draw(lines)
    else:
        for row in lines:
            face.data("\t".join(row))
    return 0


def rows(events: Sequence[model.Event], now_ns: int) -> list[tuple[str, ...]]:
    """Return id, age, session, exit code and text per event; a step's end is shown in the step's own row."""
    ends = {event.targets[0]: event for event in events if event.kind is model.EventKind.STEP_END and event.targets}
    result: list[tuple[str, ...]] = []
    for event in events:
        if event.kind in (model.EventKind.STEP_END, model.EventKind.ROOT):
            continue
        end = ends.get(event.id, event)
        code = end.data.get("exit", "")
        age = format_age((now_ns - event.at_ns) / 1e9)
        result.append((event.id, age, printable(event.session or ""), str(code), draw.event_text(event)))
    return result


def _draw(lines: Sequence[Sequence[str]]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="dim")
    for name in _COLUMNS:
        widest = max((len(row[len(table.columns)]) for row in lines), default=0)
        # A long text gives way, never an id.
        table.add_column(name, no_wrap=True, overflow="ellipsis", min_width=None if name == "what" else widest)
    for row in lines:
        # Text, not str: brackets in a step's command are not markup.
        table.add_row(*(Text(cell) for cell in row))
    Console().print(table)
