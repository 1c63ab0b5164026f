"""`takeback status`, and `takeback` alone: protected or not, hooks, the last steps, what undo would take back, disk."""

from __future__ import annotations

import time

import click

from takeback import documents, model
from takeback.cli import draw, options
from takeback.cli.output import Face, printable, shown
from takeback.cli.values import format_age, format_size, format_span
from takeback.errors import HomeDirectory, NoProject, TakebackError


@click.command(
    "status",
    cls=options.Command,
    short_help="Is this project protected, and what would undo take back?",
    examples=[
        ("takeback", "the same"),
        ("takeback status --json", "for a prompt or a status bar"),
    ],
)
@options.speaking
def command(face: Face) -> int:
    """Say whether this project is protected and why, what undo would take back, what waits, hooks, and disk used.

    Of hooks it says which agents have them in their settings; `takeback doctor` fires each, to see whether it runs.
    """
    try:
        with options.opened(face, strict=False) as project:
            status = project.status()
    except (NoProject, HomeDirectory) as error:
        if face.project is not None:
            raise
        return _unprotected(face, error)
    face.answer(documents.redacted_document(**{name: getattr(status, name) for name in _FIELDS}))
    if not face.json:
        for line in lines(status, time.time_ns()):
            face.data(line)
    return 0


def lines(status: model.Status, now_ns: int) -> list[str]:
    """Return the status for people."""
    result = [_headline(status.protected, status.why)]
    result.append(f"project   {printable(status.root)}")
    if status.last_checkpoint:
        age = format_age((now_ns - status.last_checkpoint_ns) / 1e9)
        result.append(f"last      {status.last_checkpoint}, {age}")
    if status.paused_until_ns > now_ns:
        result.append(f"paused    {_until(status.paused_until_ns, now_ns)}; go on with: takeback resume")
    result.append(f"hooks     {_hooks(status.hooks)}")
    result.append(f"disk      {format_size(status.disk_bytes)}")
    result.append(f"undo      {shown(status.undo) or 'nothing to undo'}")
    if status.redo:
        result.append(f"redo      {shown(status.redo)}")
    if status.holds:
        result.append(f"holds     {draw.number(len(status.holds), 'action')} for a person: takeback holds")
    if status.steps:
        result.append("steps")
        for step in status.steps:
            age = format_age((now_ns - step.at_ns) / 1e9)
            result.append(f"  {step.id:<5} {age:<12} {draw.event_text(step)}")
    result += [f"Note: {shown(note)}" for note in status.notes]
    return result


def _hooks(hooked: tuple[model.Hooked, ...]) -> str:
    """Return which agents are looked after; whether their hooks really run is doctor's to say."""
    if not hooked:
        return "in no agent; takeback init puts undo into yours"
    return ", ".join(f"{one.agent} (all your projects)" if one.user else one.agent for one in hooked)


def _unprotected(face: Face, error: TakebackError) -> int:
    """Where there is no project, "not protected" is the answer to the question, not a failure."""
    face.answer(documents.document(**{**dict.fromkeys(_FIELDS), "protected": False, "why": str(error), "steps": []}))
    face.data(_headline(False, str(error)))
    if error.hint_text:
        face.note(f"Hint: {error.hint_text}")
    return 0


def _until(until_ns: int, now_ns: int) -> str:
    # A pause without an end is kept as the largest time there is.
    if until_ns - now_ns > 10 * 365 * 86400 * 10**9:
        return "until resumed"
    return f"for {format_span((until_ns - now_ns) / 1e9)} more"


def _headline(protected: bool, why: str) -> str:
    word = click.style("protected", fg="green") if protected else click.style("not protected", fg="yellow")
    return f"{word}{': ' if why else ''}{printable(why)}"


_FIELDS = (
    "protected",
    "why",
    "root",
    "last_checkpoint",
    "last_checkpoint_ns",
    "steps",
    "undo",
    "redo",
    "disk_bytes",
    "paused_until_ns",
    "notes",
    "holds",
    "hooks",
)
