"""Which snapshot or sandbox came from which, as a tree that can be printed.

    web 1b2c3d4e running
    ├─ before-migration 5f6a7b8c  12.0 MB
    │  └─ try 9d0e1f2a paused
    └─ 3c4d5e6f  13.1 MB

Does not cover: asking for the records (`snapshots`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Node:
    """One snapshot or sandbox; `info` is its record, {} for one that is gone and was not kept."""

    id: str
    kind: str
    info: Mapping[str, Any]
    children: list[Node] = field(default_factory=list)

    def to_dict(self) -> dict[str, Any]:
        """Return id, kind, name, state and children."""
        return {
            "id": self.id, "kind": self.kind, "name": self.info.get("name"), "state": self.info.get("state", "gone"),
            "createdAt": self.info.get("createdAt"), "children": [child.to_dict() for child in self.children],
        }  # fmt: skip


@dataclass
class Tree:
    """The beginnings, oldest first."""

    roots: list[Node]

    def to_dict(self) -> list[dict[str, Any]]:
        return [root.to_dict() for root in self.roots]

    def __str__(self) -> str:
        lines: list[str] = []
        for root in self.roots:
            lines.append(_line(root))
            _draw(root, "", lines)
        return "\n".join(lines)


def grow(sandboxes: Sequence[Mapping[str, Any]], snapshots: Sequence[Mapping[str, Any]]) -> Tree:
    """Put each record below the one it came from: a snapshot below the one before it, or below its sandbox."""
    nodes = {str(info["id"]): Node(str(info["id"]), str(info["kind"]), info) for info in (*sandboxes, *snapshots)}
    heirs = {old: nodes[str(info["id"])] for info in sandboxes for old in info.get("replaced", ())}
    roots: list[Node] = []
    for node in sorted(nodes.values(), key=lambda one: str(one.info["createdAt"])):
        parent = _parent(node, nodes, heirs)
        (roots if parent is None else parent.children).append(node)
    return Tree(roots)


def _parent(node: Node, nodes: dict[str, Node], heirs: Mapping[str, Node]) -> Node | None:
    if node.kind == "snapshot":
        names = [node.info.get("parentSnapshotId"), node.info.get("sourceSandboxId")]
    else:
        names = [node.info.get("source")]
    for name in names:
        found = nodes.get(str(name)) or heirs.get(str(name))
        if found is not None and not _is_below(found, node):
            return found
    return None


def _is_below(one: Node, top: Node) -> bool:
    """Whether `top` is `one` or above it already: a sandbox put to a snapshot of a copy of it could make a ring."""
    return one is top or any(_is_below(one, child) for child in top.children)


def _draw(node: Node, stem: str, lines: list[str]) -> None:
    for place, child in enumerate(node.children):
        last = place == len(node.children) - 1
        lines.append(f"{stem}{'└─ ' if last else '├─ '}{_line(child)}")
        _draw(child, stem + ("   " if last else "│  "), lines)


def _line(node: Node) -> str:
    name = f"{node.info['name']} " if node.info.get("name") else ""
    step = node.info.get("labels", {}).get("takeback.step") if node.kind == "snapshot" else None
    what = f"{node.info.get('storedBytes', 0) / 1e6:.1f} MB" if node.kind == "snapshot" else str(node.info["state"])
    text = f"{name}{node.id[:8]}  {what}"
    return f"{text}  {step}" if step else text
