"""The section `[task]` of a settings file, a key at a time.

Does not cover: what the settings mean (`tasks.settings`).
"""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

from takeback.config.document import Document
from takeback.errors import BadSetting
from takeback.tasks.model import FLAGS
from takeback.tasks.settings import TaskSettings


def set_key(document: Document, task: TaskSettings, key: str, value: Any) -> TaskSettings:
    """Return the settings with one key set. Raises BadSetting with the line and what would be right."""
    known = {field.name for field in fields(TaskSettings)}
    if key not in known:
        raise document.unknown("key", key, known, "task")
    default = getattr(TaskSettings(), key)
    right: Any = value

    def wrong(what: str) -> BadSetting:
        problem = f"`{key}` must be {what}, not {value!r}"
        nearest = f"one of {', '.join(FLAGS)}" if key == "allow" else f"the default is {_as_toml(default)}"
        return document.bad(document.line("task", key), problem, nearest)

    if isinstance(default, tuple):
        if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
            raise wrong("a list of texts")
        if key == "allow" and not set(value) <= set(FLAGS):
            raise wrong("a list of flags")
        if key in ("share", "clone") and any(_leads_out(one) for one in value):
            raise wrong("a list of directories in the project")
        right = tuple(value)
    elif isinstance(default, str):
        if not isinstance(value, str):
            raise wrong("a command")
    elif isinstance(value, bool) or not isinstance(value, int | float) or value <= 0:
        raise wrong("a number of seconds above 0")
    else:
        right = float(value)
    return replace(task, **{key: right})


def _leads_out(path: str) -> bool:
    return not path.strip("/") or path.startswith("/") or ".." in path.split("/")


def _as_toml(value: Any) -> str:
    if isinstance(value, tuple):
        shown = ", ".join(f'"{one}"' for one in value[:4])
        return f"[{shown}{', ...' if len(value) > 4 else ''}]"
    return f'"{value}"' if isinstance(value, str) else str(value)
