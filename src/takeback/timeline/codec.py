"""Events and checkpoints as JSON bytes, and back.

Does not cover: where the bytes are kept (see `store`, `files`), or what the events mean together (see `fold`).
The format is described in docs/formats/timeline.md.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from typing import Any, Final, NoReturn, TypeVar

from takeback.errors import Damaged, StoreReadOnly, UsageError
from takeback.model import Checkpoint, Event, EventKind, Kind

SCHEMA: Final = 1
MAX_BYTES: Final = 16 << 20
REBUILD: Final = "`takeback doctor --rebuild` makes the timeline again from the saved checkpoints"

# Values JSON has no word for are objects of exactly one of these keys.
_BYTES = "$bytes"
_BYTES64 = "$bytes64"
_TEXT64 = "$text64"
_PAIRS = "$pairs"

_K = TypeVar("_K", EventKind, Kind)


def encode(event: Event) -> bytes:
    """Return an event as UTF-8 JSON without line breaks; fields at their default are left out.

    Raises UsageError over MAX_BYTES, and TypeError or ValueError for a `data` that is not made of None, bool, int,
    finite float, str, bytes, list, tuple and dict with str keys. Tuples come back as lists.
    """
    doc: dict[str, Any] = {"schema": SCHEMA, "seq": event.seq, "id": _plain(event.id), "kind": event.kind.value}
    doc["at_ns"] = event.at_ns
    for name in ("worktree", "session", "task", "before", "after", "targets", "text", "data"):
        value = getattr(event, name)
        if value is not None and len(value):
            doc[name] = _plain(value)
        elif value is not None and name in ("session", "task", "before", "after"):
            doc[name] = value
    return _write(doc, f"event {event.id or event.kind}")


def decode(raw: bytes) -> Event:
    """Return the event in `raw`; keys this version does not know are dropped.

    Raises Damaged when `raw` is no event, StoreReadOnly when its schema or kind is of a newer takeback.
    """
    try:
        doc = _read(raw)
        return Event(
            seq=_int(doc, "seq"),
            id=_str(doc, "id"),
            kind=_kind(EventKind, doc),
            at_ns=_int(doc, "at_ns"),
            worktree=_str(doc, "worktree", ""),
            session=_str_or_none(doc, "session"),
            task=_str_or_none(doc, "task"),
            before=_str_or_none(doc, "before"),
            after=_str_or_none(doc, "after"),
            targets=_strs(doc, "targets"),
            text=_str(doc, "text", ""),
            data=_dict(doc, "data"),
        )
    except (ValueError, RecursionError) as exc:
        raise Damaged(what="an event of the timeline", detail=str(exc), next=REBUILD) from exc


def encode_checkpoint(checkpoint: Checkpoint) -> bytes:
    """Return a checkpoint's catalogue entry as UTF-8 JSON; raises UsageError over MAX_BYTES."""
    doc: dict[str, Any] = {"schema": SCHEMA, "kind": checkpoint.kind.value, "at_ns": checkpoint.at_ns}
    doc["files"] = checkpoint.files
    for name in ("id", "commit", "worktree", "root", "text", "session", "task", "only"):
        value = getattr(checkpoint, name)
        if value is not None:
            doc[name] = _plain(value)
    return _write(doc, f"checkpoint {checkpoint.id}")


def decode_checkpoint(raw: bytes) -> Checkpoint:
    """Return the checkpoint in `raw`; raises as `decode` does."""
    try:
        doc = _read(raw)
        root = _value(doc.get("root"))
        only = _value(doc.get("only", []))
        if not isinstance(root, bytes) or not isinstance(only, list):
            raise ValueError("`root` is not bytes or `only` is not a list")
        if not all(isinstance(path, bytes) for path in only):
            raise ValueError("`only` holds something that is not bytes")
        return Checkpoint(
            id=_str(doc, "id"),
            commit=_str(doc, "commit"),
            kind=_kind(Kind, doc),
            at_ns=_int(doc, "at_ns"),
            worktree=_str(doc, "worktree"),
            root=root,
            text=_str(doc, "text", ""),
            session=_str_or_none(doc, "session"),
            task=_str_or_none(doc, "task"),
            files=_int(doc, "files"),
            only=tuple(only),
        )
    except (ValueError, RecursionError) as exc:
        raise Damaged(what="a checkpoint of the timeline", detail=str(exc), next=REBUILD) from exc


def _write(doc: dict[str, Any], what: str) -> bytes:
    raw = json.dumps(doc, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
    if len(raw) > MAX_BYTES:
        raise UsageError(detail=f"{what} takes {len(raw)} bytes, over the cap of {MAX_BYTES}: shorten its text")
    return raw


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, str):
        return str(value) if _is_utf8(value) else {_TEXT64: _b64(value.encode("utf-8", "surrogatepass"))}
    if isinstance(value, bytes):
        try:
            return {_BYTES: value.decode()}
        except UnicodeDecodeError:
            return {_BYTES64: _b64(value)}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        if not all(isinstance(key, str) for key in value):
            raise TypeError("keys of event data must be str")
        if (len(value) == 1 and next(iter(value)).startswith("$")) or not all(map(_is_utf8, value)):
            return {_PAIRS: [[_plain(key), _plain(item)] for key, item in value.items()]}
        return {key: _plain(item) for key, item in value.items()}
    raise TypeError(f"event data cannot hold a {type(value).__name__}")


def _is_utf8(text: str) -> bool:
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _b64(raw: bytes) -> str:
    return b64encode(raw).decode("ascii")


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


_DECODER = json.JSONDecoder(parse_constant=_refuse_constant)


def _read(raw: bytes) -> dict[str, Any]:
    if len(raw) > MAX_BYTES:
        raise ValueError(f"{len(raw)} bytes is over the cap of {MAX_BYTES}")
    doc = _DECODER.decode(raw.decode())
    if not isinstance(doc, dict):
        raise ValueError("not a JSON object")
    schema = _int(doc, "schema")
    if schema > SCHEMA:
        raise StoreReadOnly(found=schema, known=SCHEMA)
    if schema < 1:
        raise ValueError(f"there was never a schema {schema}")
    return doc


def _value(plain: Any) -> Any:
    if isinstance(plain, list):
        return [_value(item) for item in plain]
    if not isinstance(plain, dict):
        return plain
    if len(plain) == 1:
        ((tag, inner),) = plain.items()
        if tag == _BYTES and isinstance(inner, str):
            return inner.encode()
        if tag == _BYTES64 and isinstance(inner, str):
            return b64decode(inner, validate=True)
        if tag == _TEXT64 and isinstance(inner, str):
            return b64decode(inner, validate=True).decode("utf-8", "surrogatepass")
        if tag == _PAIRS and isinstance(inner, list):
            return _from_pairs(inner)
        if tag.startswith("$"):
            raise ValueError(f"{tag} is not a known kind of value")
    return {key: _value(item) for key, item in plain.items()}


def _from_pairs(pairs: list[Any]) -> dict[str, Any]:
    result = {}
    for pair in pairs:
        if not isinstance(pair, list) or len(pair) != 2:
            raise ValueError("a pair is not a list of two")
        key = _value(pair[0])
        if not isinstance(key, str):
            raise ValueError("a key is not text")
        result[key] = _value(pair[1])
    return result


def _kind(kinds: type[_K], doc: dict[str, Any]) -> _K:
    name = _str(doc, "kind")
    try:
        return kinds(name)
    except ValueError:
        raise StoreReadOnly(found=f"{doc['schema']} with {name!r}", known=SCHEMA) from None


def _int(doc: dict[str, Any], key: str) -> int:
    value = doc.get(key)
    if type(value) is not int:
        raise ValueError(f"`{key}` is not a whole number")
    return value


def _str(doc: dict[str, Any], key: str, default: str | None = None) -> str:
    value = doc.get(key, default)
    if type(value) is str:
        return value
    value = _value(value)
    if not isinstance(value, str):
        raise ValueError(f"`{key}` is not text")
    return value


def _str_or_none(doc: dict[str, Any], key: str) -> str | None:
    return None if doc.get(key) is None else _str(doc, key)


def _strs(doc: dict[str, Any], key: str) -> tuple[str, ...]:
    value = doc.get(key)
    if value is None:
        return ()
    value = _value(value)
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise ValueError(f"`{key}` is not a list of texts")
    return tuple(value)


def _dict(doc: dict[str, Any], key: str) -> dict[str, Any]:
    value = doc.get(key)
    if value is None:
        return {}
    value = _value(value)
    if not isinstance(value, dict):
        raise ValueError(f"`{key}` is not an object")
    return value
