"""What the user says about holds, in the section `holds` of the user's own file.

Does not cover: whom to tell of a hold, which is of the policy (`config.policy`).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any

from takeback.config.document import Document

_KEYS = ("expire", "notify_seconds")
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}


@dataclass(frozen=True)
class HoldsSettings:
    """How long a hold waits for a person, and the notification command may take; in seconds."""

    expire: float = 3 * 86400.0
    notify_seconds: float = 5.0


def of(document: Document) -> HoldsSettings:
    """Return the settings of a file. Raises BadSetting with the line."""
    found = HoldsSettings()
    table: Any = document.tables.get("holds", {})
    if not isinstance(table, dict):
        raise document.bad(document.line("holds"), "`holds` must be a section", "write [holds] on a line of its own")
    for key, value in table.items():
        if key not in _KEYS:
            raise document.unknown("key", key, _KEYS, "holds")
        seconds = _seconds(value)
        if seconds is None:
            raise document.bad(
                document.line("holds", key), f"`{key}` cannot be {value!r}", "a time such as 30s, 12h or 3d"
            )
        found = replace(found, expire=seconds) if key == "expire" else replace(found, notify_seconds=seconds)
    return found


def _seconds(value: object) -> float | None:
    """Return the seconds of a time such as 30s, 12h or 3d, None for what is none."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value) if value > 0 else None
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([smhdw])", value) if isinstance(value, str) else None
    seconds = float(found[1]) * _UNITS[found[2]] if found else 0.0
    return seconds or None
