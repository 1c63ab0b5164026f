"""`takeback show`: one checkpoint, step or task, and what it changed."""

from __future__ import annotations

import time

import click

from takeback import documents
from takeback.cli import draw, options
from takeback.cli.output import Face


@click.command(
    "show",
    cls=options.Command,
    short_help="One checkpoint, step or task, and what it changed.",
    examples=[
        ("takeback show s7", "what did step s7 change?"),
        ("takeback show c12", "what is in c12 that the checkpoint before did not have?"),
        ("takeback show t:fix-the-parser", "a task's attempts, commit, and whether its revert applies now"),
    ],
)
@click.argument("id")
@options.speaking
def command(face: Face, id: str) -> int:
    """Show one event: a step with what it changed, a checkpoint with what is new in it; `t:` and an id is a task."""
    if id.startswith("t:"):
        from takeback.cli.task import shown

        return shown.show(face, id)
    from takeback.errors import UnknownId

    with options.opened(face, strict=False) as project:
        try:
            event, checkpoint, changes = project.show(id)
        except UnknownId:
            from takeback.app.tasks import list_tasks

            if id not in {task.id for task in list_tasks(project)}:
                raise
            raise UnknownId(what="event", id=id, nearest=f"it is a task: takeback show t:{id}") from None
    face.answer(documents.redacted_document(event=event, checkpoint=checkpoint, changes=changes))
    if face.json:
        return 0
    for line in draw.event_lines(event, time.time_ns()):
        face.data(line)
    if checkpoint is not None:
        face.data(f"  {'holds':<8} {draw.number(checkpoint.files, 'file')}, {checkpoint.kind.value}")
    for line in draw.changes(changes, verbose=face.verbose):
        face.data(line)
    return 0
