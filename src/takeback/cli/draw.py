"""Typed results as lines for people.

Does not cover: JSON (see `documents`), colours of errors (see `output`). Functions here return lines and print nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime

import click

from takeback import model
from takeback.cli.output import printable, shown
from takeback.cli.values import format_age, format_size

# More paths than this are counted, not listed, without --verbose; conflicts are always all named.
SHOWN = 20

_PAST = {
    "write": "written",
    "change": "changed",
    "delete": "deleted",
    "mode": "with another mode",
    "time": "with another time only",
    "mkdir": "made as a directory",
    "rmdir": "removed as a directory",
    "index": "set in the index",
    "move": "moved as a ref",
}
_SIGNS = {
    model.ChangeKind.ADDED: "A",
    model.ChangeKind.DELETED: "D",
    model.ChangeKind.MODIFIED: "M",
    model.ChangeKind.MODE: "m",
    model.ChangeKind.TYPE: "T",
}


def preview(result: model.RestoreResult, *, doing: str, verbose: bool) -> list[str]:
    """Return what is taken back: its age and text, the paths, the counts, and all that stays as it is."""
    about = f": {shown(result.title)}" if result.title else ""
    lines = [f"{doing} {' '.join(result.targets)} ({format_age(result.age_s)}){about}"]
    width = max((len(action.verb) for action in result.restored), default=0)
    paths = [f"  {action.verb:<{width}}  {_path(action)}" for action in result.restored]
    lines += _capped(paths, verbose)
    if result.restored:
        lines.append(f"  {counts(result.restored)}")
    elif not result.conflicts:
        lines.append("  nothing to change: the tree already is as wanted")
    lines += _section("Conflicts, left as they are:", (_not_covered(item) for item in result.conflicts), True)
    lines += _section("Shared with other steps, left (--shared takes them):", map(printable, result.shared), verbose)
    lines += _section("Not covered by the checkpoint:", map(_not_covered, result.not_covered), verbose)
    lines += _section("Cannot be taken back:", map(shown, result.not_undone), True)
    lines += [f"Note: {shown(note)}" for note in result.notes]
    if not result.exact:
        lines.append("Not exact: the tree differs from the checkpoint in what is named above.")
    return lines


def outcome(result: model.RestoreResult) -> list[str]:
    """Return the last lines of an undo, redo or restore: what was saved before, and how to take this back."""
    if result.dry_run:
        return ["Nothing was written (--dry-run)."]
    lines = []
    if result.checkpoint and result.checkpoint not in result.targets:
        lines.append(f"Saved before as {result.checkpoint}.")
    if result.undo_with:
        lines.append(f"Take this back with: {result.undo_with}")
    return lines


def counts(actions: Sequence[model.Action]) -> str:
    """Return how many paths each verb has, with the bytes written."""
    parts = [f"{count} {_PAST.get(verb, verb)}" for verb, count in Counter(a.verb for a in actions).items()]
    size = sum(action.size for action in actions)
    return ", ".join(parts) + (f" ({format_size(size)})" if size else "")


def changes(items: Sequence[model.Change], *, verbose: bool) -> list[str]:
    """Return one line per change, A D M m(ode) T(ype), with line counts where they are known, then a total."""
    lines = _capped([_change(item) for item in items], verbose)
    total = number(len(items), "path")
    if any(item.added_lines is not None for item in items):
        added = sum(item.added_lines or 0 for item in items)
        total += f", +{added} -{sum(item.deleted_lines or 0 for item in items)}"
    return [*lines, total] if items else ["no difference"]


def number(count: int, noun: str) -> str:
    """Return `1 path`, `2 paths`."""
    return f"{count} {noun}{'' if count == 1 else 's'}"


def event_text(event: model.Event) -> str:
    """Return what an event was, for a log: what it did to which other event, and the text it was given."""
    done = " ".join((event.kind.value, *event.targets))
    if event.targets:
        return f"{done}: {shown(event.text)}" if event.text else done
    return shown(event.text) or done


def event_lines(event: model.Event, now_ns: int) -> list[str]:
    """Return everything a person wants to know about one event."""
    when = datetime.fromtimestamp(event.at_ns / 1e9).astimezone().strftime("%Y-%m-%d %H:%M:%S %z")
    rows = [
        ("when", f"{when} ({format_age((now_ns - event.at_ns) / 1e9)})"),
        ("text", shown(event.text)),
        ("session", printable(event.session or "")),
        ("task", printable(event.task or "")),
        ("before", event.before or ""),
        ("after", event.after or ""),
        ("targets", " ".join(event.targets)),
        ("exit", str(event.data.get("exit", ""))),
    ]
    return [f"{event.kind.value} {event.id}", *(f"  {name:<8} {value}" for name, value in rows if value)]


def not_covered(items: Iterable[model.NotCovered], *, verbose: bool) -> list[str]:
    """Return the paths a checkpoint does not hold, each with the command that makes it again."""
    return _section("Not covered:", map(_not_covered, items), verbose)


def _change(item: model.Change) -> str:
    lines = ""
    if item.added_lines is not None or item.deleted_lines is not None:
        lines = f"  +{item.added_lines or 0} -{item.deleted_lines or 0}"
    where = "" if item.where == "files" else f"  ({item.where})"
    return f"{_SIGNS.get(item.kind, '?')} {printable(item.path)}{lines}{where}"


def _path(action: model.Action) -> str:
    where = "" if action.where == "files" else f"  ({action.where})"
    return printable(action.path) + where


def _not_covered(item: model.NotCovered) -> str:
    rebuild = f"; make it again with: {printable(item.rebuild)}" if item.rebuild else ""
    why = f": {printable(item.why)}" if item.why else ""
    return f"{printable(item.path)}{why}{rebuild}"


def _section(title: str, items: Iterable[str], verbose: bool) -> list[str]:
    lines = [f"  {item}" for item in items]
    return [click.style(title, bold=True), *_capped(lines, verbose)] if lines else []


def _capped(lines: list[str], verbose: bool) -> list[str]:
    if verbose or len(lines) <= SHOWN:
        return lines
    return [*lines[:SHOWN], f"  ... and {len(lines) - SHOWN} more (-v lists all)"]
