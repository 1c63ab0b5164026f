"""Results and errors as JSON documents, the same for every face: the shapes of docs/reference/json.md.

Does not cover: writing them out (`cli`) or sending them (`mcp`). A path that is not UTF-8 is given twice: `path`,
readable, with U+FFFD for what cannot be shown, and `path_b64`, the exact bytes in base64.
"""

from __future__ import annotations

import base64
import dataclasses
from datetime import UTC, datetime
from enum import Enum
from typing import Any

from takeback import model
from takeback.errors import TakebackError
from takeback.redact import redacted

SCHEMA = 1
_DELETES = ("delete", "rmdir")
_STEP = (
    "id", "before", "after", "exit", "timed_out", "changed", "ms", "undo_with", "class", "reason", "checkpoint",
    "covers", "checks", "rolled_back", "not_rolled_back", "escapes", "hold",
)  # fmt: skip


def document(**fields: Any) -> dict[str, Any]:
    """Return one JSON document: `schema` first, then `fields` made plain."""
    return {"schema": SCHEMA, **{name: plain(value) for name, value in fields.items()}}


def redacted_document(**fields: Any) -> dict[str, Any]:
    """Return one JSON document in which the secrets of every text are blanked; paths stay exact."""
    return document(**{name: without_secrets(value) for name, value in fields.items()})


def without_secrets(value: Any) -> Any:
    """Return `value` with the secrets in its texts blanked; what holds no texts of its own stays as it is."""
    if isinstance(value, str) and not isinstance(value, Enum):
        return redacted(value)
    if isinstance(value, model.Checkpoint):
        return dataclasses.replace(value, text=redacted(value.text))
    if isinstance(value, dict):
        return {name: without_secrets(item) for name, item in value.items()}
    if isinstance(value, (tuple, list)):
        return [without_secrets(item) for item in value]
    return value


def named_bytes(name: str, value: bytes) -> dict[str, str]:
    """Return `value` under `name`, and under `name`_b64 too when it is not UTF-8."""
    try:
        return {name: value.decode("utf-8")}
    except UnicodeDecodeError:
        return {name: value.decode("utf-8", "replace"), f"{name}_b64": base64.b64encode(value).decode("ascii")}


def plain(value: Any) -> Any:
    """Return `value` as what `json.dumps` takes; a lone bytes value becomes an object with `path`."""
    if isinstance(value, bytes):
        return named_bytes("path", value)
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, model.Event):
        return event(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return _fields({field.name: getattr(value, field.name) for field in dataclasses.fields(value)})
    if isinstance(value, dict):
        return _fields({str(name): item for name, item in value.items()})
    if isinstance(value, (tuple, list, set, frozenset)):
        return [plain(item) for item in value]
    if isinstance(value, str):
        # Arguments that were not UTF-8 arrive with lone surrogates, which no JSON reader has to accept.
        return value.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    return value


def event(item: model.Event) -> dict[str, Any]:
    """Return one event; `at` is UTC in ISO 8601, `at_ns` the same moment in nanoseconds since 1970."""
    return {
        "seq": item.seq,
        "id": item.id,
        "kind": item.kind.value,
        "at": utc(item.at_ns),
        "at_ns": item.at_ns,
        "worktree": item.worktree,
        "session": plain(item.session),
        "task": plain(item.task),
        "before": item.before,
        "after": item.after,
        "targets": list(item.targets),
        "text": plain(redacted(item.text)),
        "data": plain(without_secrets(_data(item))),
    }


def _data(item: model.Event) -> dict[str, Any]:
    """Return an event's data; of the words of its command that may be paths, those that its shown text still has.

    Alone a word has no place by which a secret is known.
    """
    if not item.data.get("named"):
        return item.data
    shown = redacted(item.text)
    named = [one for one in item.data["named"] if redacted(_text(one)) == _text(one)]
    if shown:
        named = [one for one in named if all(part in shown for part in _text(one).split("/"))]
    return {**item.data, "named": named}


def _text(path: bytes | str) -> str:
    return path.decode("utf-8", "surrogateescape") if isinstance(path, bytes) else path


def utc(at_ns: int) -> str:
    """Return a moment as ISO 8601 in UTC with milliseconds."""
    return datetime.fromtimestamp(at_ns / 1e9, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def checkpoint(result: model.CheckpointResult) -> dict[str, Any]:
    """Return what `takeback checkpoint --json` prints."""
    return document(
        id=result.id,
        kind=result.kind,
        ref=result.ref,
        tree=result.tree,
        new=result.new,
        files=result.files,
        not_covered=result.not_covered,
        ms=round(result.ms, 3),
    )


def restore(result: model.RestoreResult) -> dict[str, Any]:
    """Return what undo, redo and restore print with `--json`."""
    return document(
        id=result.id,
        dry_run=result.dry_run,
        targets=result.targets,
        restored=tuple(action for action in result.restored if action.verb not in _DELETES),
        deleted=tuple(action for action in result.restored if action.verb in _DELETES),
        conflicts=result.conflicts,
        shared=result.shared,
        not_covered=result.not_covered,
        not_undone=without_secrets(result.not_undone),
        notes=without_secrets(result.notes),
        exact=result.exact,
        checkpoint=result.checkpoint,
        undo_with=result.undo_with,
    )


def step(result: model.StepResult) -> dict[str, Any]:
    """Return what `takeback run --json` prints."""
    # `class` is a word of Python.
    return document(**{name: getattr(result, "cls" if name == "class" else name) for name in _STEP})


def error(kind: str, message: str, hint: str) -> dict[str, Any]:
    """Return the document of an error."""
    return document(error={"kind": kind, "message": redacted(message), "hint": redacted(hint)})


def known_error(raised: TakebackError) -> dict[str, Any]:
    """Return the document of a known error; what conflicts is in the same place as in a result."""
    told = error(raised.kind, str(raised), raised.hint_text)
    result = raised.fields.get("result")
    if not isinstance(result, model.RestoreResult):
        return told
    # Nothing was written.
    return {**restore(dataclasses.replace(result, restored=())), **told}


def _fields(values: dict[str, Any]) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for name, value in values.items():
        if isinstance(value, bytes):
            result.update(named_bytes(name, value))
        else:
            result[name] = plain(value)
    return result
