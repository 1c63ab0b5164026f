"""`takeback holds`: what waits for a person."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import click

from takeback import documents
from takeback.cli import options
from takeback.cli.output import Face, printable, shown
from takeback.cli.values import format_age, format_span

if TYPE_CHECKING:
    from takeback.holds.model import Hold


@click.command(
    "holds",
    cls=options.Command,
    short_help="What cannot be taken back and waits for a person.",
    examples=[
        ("takeback holds", "what waits, why, and what would undo it"),
        ("takeback holds --all", "also what was approved, denied, changed or expired"),
        ("takeback approve h3", "run one of them, once"),
    ],
)
@click.option("--all", "all_", is_flag=True, help="Also those that ended.")
@options.speaking
def command(face: Face, all_: bool) -> int:
    """List held actions, oldest first: what an agent wanted to do that no checkpoint covers. Secrets are blanked."""
    from takeback.app import holding

    with options.opened(face, strict=False) as project:
        found = holding.list(project, all=all_)
    face.answer(documents.redacted_document(holds=[document(one) for one in found]))
    if face.json:
        return 0
    if not found:
        face.note("nothing waits" + ("" if all_ else "; `takeback holds --all` shows what ended"))
    for number, one in enumerate(found):
        if number:
            face.data("")
        for line in lines(one, time.time_ns()):
            face.data(line)
    return 0


def document(one: Hold) -> dict[str, Any]:
    """Return a hold for JSON; secrets are blanked by who writes it."""
    from takeback.app import holding

    return {
        "id": one.id,
        "command": one.command,
        "class": one.cls,
        "state": one.state.value,
        "why": one.why,
        "created": documents.utc(one.created_ns),
        "now": holding.in_words(one),
        "reason": one.reason,
        "cwd": one.request.cwd,
        "session": one.request.session,
        "task": one.request.task,
        "agent": one.request.agent,
        "undone_by": one.undone_by,
        "payload": sorted(one.payload),
        "expires": documents.utc(one.expires_ns),
        "notified": one.notified,
        "step": one.step or None,
        "exit": one.exit,
        "tail": one.tail,
        "because": one.because,
    }


def lines(one: Hold, now_ns: int) -> list[str]:
    """Return a hold for people."""
    from takeback.app import holding
    from takeback.holds.model import State

    age = format_age((now_ns - one.created_ns) / 1e9)
    rows = [
        ("in", printable(one.request.cwd)),
        ("by", " ".join(filter(None, map(_named, ("agent", "session", "task"), _who(one))))),
        ("why", shown(one.why)),
        ("undo", shown(one.undone_by) or "nothing known takes it back"),
        ("sends", _capped(sorted(one.payload))),
        ("because", shown(one.because)),
        ("step", one.step),
        ("note", shown(one.notified)),
    ]
    if one.state is State.WAITING:
        left = format_span((one.expires_ns - now_ns) / 1e9)
        rows.append(
            ("answer", f"takeback approve {one.id}, or takeback deny {one.id} --because ...; expires in {left}")
        )
    head = f"{click.style(one.id, bold=True)}  {holding.in_words(one)}, {age}: {shown(one.command)}"
    return [head, *(f"  {name:<8} {value}" for name, value in rows if value)]


def _who(one: Hold) -> tuple[str | None, ...]:
    return (one.request.agent, one.request.session, one.request.task)


def _named(name: str, value: str | None) -> str:
    return f"{name} {printable(value)}" if value else ""


def _capped(names: list[str], most: int = 6) -> str:
    more = f", and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(map(shown, names[:most])) + more
