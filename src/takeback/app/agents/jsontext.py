"""Edit JSON settings as text: what is added or taken out changes no other byte; comments, order and layout stay.

Comments and trailing commas are read, as the programs whose settings these are read them. Does not cover: TOML.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

_BLANK = re.compile(r"(?:\s+|//[^\n]*|/\*.*?\*/)*", re.DOTALL)
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"')
_WORD = re.compile(r"[^\s,\]\}/]+")
_DEEPEST = 200


@dataclass
class Node:
    """A value in the text, from `start` to `end`; of objects and arrays the members with where their text begins."""

    start: int
    end: int
    value: Any
    members: list[tuple[str, int, Node]] = field(default_factory=list)  # of an array with "" for the key
    comma: bool = False  # after the last member

    def get(self, key: str) -> Node | None:
        """Return the last member of that name, which is the one that counts."""
        return next((node for name, _, node in reversed(self.members) if name == key), None)


def parse(text: str) -> Node:
    """Return the tree of a whole text; raises ValueError with the line where it is no JSON."""
    start = 1 if text.startswith("\ufeff") else 0
    node = _value(text, _skip(text, start), 0)
    if _skip(text, node.end) != len(text):
        raise _wrong(text, node.end)
    return node


def add(text: str, path: Sequence[str], item: Any) -> str:
    """Return the text with `item` appended to the array at `path`, made when missing, with the objects above it.

    Raises ValueError when the text is no JSON, or something else is in that place.
    """
    if not text.strip():
        text = "{}\n"
    node = parse(text)
    at, rest = node, list(path)
    while rest:
        if not isinstance(at.value, dict):
            raise ValueError(f"`{'.'.join(path)}` has no place, since what is above it is no object")
        found = at.get(rest[0])
        if found is None:
            value: Any = [item]
            for key in reversed(rest[1:]):
                value = {key: value}
            return _insert(text, node, at, value, rest[0])
        at = found
        rest.pop(0)
    if not isinstance(at.value, list):
        raise ValueError(f"`{'.'.join(path)}` is no list")
    return _insert(text, node, at, item, None)


def remove(text: str, path: Sequence[str], ours: Callable[[Any], bool]) -> str:
    """Return the text without the items of the array at `path` that are ours; what is empty then goes too.

    Raises ValueError when the text is no JSON.
    """
    while True:
        at: Node | None = parse(text)
        above: list[tuple[Node, int]] = []
        for key in path:
            if at is None or not isinstance(at.value, dict) or at.get(key) is None:
                return text
            index = max(number for number, one in enumerate(at.members) if one[0] == key)
            above.append((at, index))
            at = at.members[index][2]
        if at is None or not isinstance(at.value, list):
            return text
        found = next((number for number, one in enumerate(at.members) if ours(one[2].value)), None)
        if found is None:
            return text
        holder, index = at, found
        while len(holder.members) == 1 and above:
            holder, index = above.pop()
        text = _cut(text, holder, index)


def _insert(text: str, root: Node, at: Node, value: Any, key: str | None) -> str:
    newline = "\r\n" if "\r\n" in text else "\n"
    step = _step(text, root)
    flat = bool(at.members) and "\n" not in text[at.start : at.end]
    depth = _depth(root, at) + 1
    if flat:
        body = json.dumps(value, ensure_ascii=False)
    else:
        body = json.dumps(value, ensure_ascii=False, indent=step)
        body = body.replace("\n", newline + step * depth)
    if key is not None:
        body = f"{json.dumps(key, ensure_ascii=False)}: {body}"
    close = at.end - 1
    if not at.members:
        inner = text[at.start + 1 : close].rstrip()
        return (
            text[: at.start + 1] + inner + newline + step * depth + body + newline + step * (depth - 1) + text[close:]
        )
    last = at.members[-1][2].end
    tail = text[last:close]
    kept = tail.rstrip()
    if flat:
        return text[:last] + ("" if at.comma else ",") + kept + " " + body + tail[len(kept) :] + text[close:]
    comma = "" if at.comma else ","
    space = tail[len(kept) :]
    if "\n" not in space:
        space = newline + step * (depth - 1)
    return text[:last] + comma + kept + newline + step * depth + body + space + text[close:]


def _cut(text: str, holder: Node, index: int) -> str:
    start, node = holder.members[index][1], holder.members[index][2]
    if len(holder.members) == 1:
        inner = text[holder.start + 1 : start] + text[node.end : holder.end - 1].lstrip(",")
        return text[: holder.start + 1] + (inner.rstrip() if inner.strip() else "") + text[holder.end - 1 :]
    if index == 0:
        return text[:start] + text[holder.members[1][1] :]
    before = holder.members[index - 1][2].end
    if index == len(holder.members) - 1 and holder.comma:
        after = text.index(",", _skip(text, node.end)) + 1
        return text[: _comma(text, before) + 1] + text[after:]
    comma = _comma(text, before)
    between = text[comma + 1 : start].rstrip()
    if index == len(holder.members) - 1:
        return text[:before] + text[before:comma] + between + text[node.end :]
    return text[: comma + 1] + between + text[_comma(text, node.end) + 1 :]


def _comma(text: str, at: int) -> int:
    return text.index(",", _skip(text, at))


def _step(text: str, root: Node) -> str:
    """Return the indentation of one level, as the file has it."""
    for _, start, _ in root.members:
        line = text[text.rfind("\n", 0, start) + 1 : start]
        if line and not line.strip() and "\n" in text[:start]:
            return line
    return "  "


def _depth(root: Node, at: Node) -> int:
    if root is at:
        return 0
    below = (_depth(node, at) for _, _, node in root.members if node.start <= at.start and at.end <= node.end)
    return 1 + next(below, 0)


def _skip(text: str, at: int) -> int:
    found = _BLANK.match(text, at)
    return found.end() if found else at


def _value(text: str, at: int, depth: int) -> Node:
    if depth > _DEEPEST or at >= len(text):
        raise _wrong(text, at)
    if text[at] in "{[":
        return _container(text, at, depth)
    found = _STRING.match(text, at) or _WORD.match(text, at)
    if found is None:
        raise _wrong(text, at)
    try:
        return Node(at, found.end(), json.loads(found[0]))
    except ValueError:
        raise _wrong(text, at) from None


def _container(text: str, at: int, depth: int) -> Node:
    is_object = text[at] == "{"
    node = Node(at, at, {} if is_object else [])
    close = "}" if is_object else "]"
    here = _skip(text, at + 1)
    while text[here : here + 1] != close:
        if node.members and not node.comma:
            raise _wrong(text, here)
        start, key = here, ""
        if is_object:
            found = _STRING.match(text, here)
            colon = _skip(text, found.end()) if found else here
            if found is None or text[colon : colon + 1] != ":":
                raise _wrong(text, here)
            key = json.loads(found[0])
            here = _skip(text, colon + 1)
        inner = _value(text, here, depth + 1)
        node.members.append((key, start, inner))
        if is_object:
            node.value[key] = inner.value
        else:
            node.value.append(inner.value)
        here = _skip(text, inner.end)
        node.comma = text[here : here + 1] == ","
        if node.comma:
            here = _skip(text, here + 1)
    node.end = here + 1
    return node


def _wrong(text: str, at: int) -> ValueError:
    return ValueError(f"line {text.count(chr(10), 0, at) + 1} is no JSON")
