"""Remember which commands did more than their class said, so that the next such step gets the heavier checkpoint.

Does not cover: finding that out (`files.escapes`).
"""

from __future__ import annotations

import json
from collections.abc import Iterable

from takeback.files.escapes import Escape
from takeback.guard import Class, Verdict
from takeback.store.base import TimelineStore

_KEY = "raised"
_MOST = 500


def note(store: TimelineStore, escapes: Iterable[Escape]) -> None:
    """Remember the commands of these steps."""
    known = _read(store)
    for escape in escapes:
        for name in escape.step.data.get("raises") or (escape.step.text,):
            if known.get(name) != "state":
                known.pop(name, None)  # the newest come last
                known[name] = escape.cls
    while len(known) > _MOST:
        del known[next(iter(known))]
    store.set_meta(_KEY, json.dumps(known))


def of(store: TimelineStore, names: Iterable[str]) -> Class | None:
    """Return the class the heaviest of these turned out to have, None when none was ever found out."""
    known = _read(store)
    found = [Class[known[name].upper()] for name in names if name in known]
    return max(found, default=None)


def names(verdict: Verdict, text: str) -> list[str]:
    """Return under which names a step is remembered: its text, and its program when it is a single command."""
    parts = [part for part in verdict.part.walk() if not part.parts]
    words = parts[0].text.split() if len(parts) == 1 else []
    return [text, f"program {words[0]}"] if words else [text]


def _read(store: TimelineStore) -> dict[str, str]:
    try:
        found = json.loads(store.get_meta(_KEY) or "{}")
    except ValueError:
        return {}
    return {name: cls for name, cls in found.items() if cls in ("files", "state")} if isinstance(found, dict) else {}
