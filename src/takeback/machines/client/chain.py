"""A chain of saved steps of one sandbox: remember each that passed, go back to any of them in place.

The chain is kept in the labels of memory snapshots, so that another program can go on with it. Going back does not
delete: what came after stays as a branch of the tree, and can be gone back to.

Does not cover: taking and restoring snapshots (`sandbox`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from takeback.errors import NothingToDo, StepNotFound, UsageError
from takeback.machines.client.sandbox import Sandbox

_CHAIN, _STEP, _PARENT, _NUMBER = "takeback.chain", "takeback.step", "takeback.parent", "takeback.number"


@dataclass(frozen=True)
class Link:
    """One remembered step: its number in the chain from 1, its text, its snapshot, and the snapshot it came after."""

    number: int
    step: str
    snapshot: dict[str, Any]
    parent: str | None

    @property
    def id(self) -> str:
        return str(self.snapshot["id"])


class Chain:
    """The remembered steps of a sandbox; `keep` of them stay at most (the oldest go first), each for `retention_days`."""

    def __init__(self, sandbox: Sandbox, *, keep: int = 50, retention_days: int | None = None) -> None:
        """Raises UsageError for a `keep` below 1."""
        if keep < 1:
            raise UsageError(detail=f"a chain keeps at least 1 step, not {keep}")
        self.sandbox = sandbox
        self._keep = keep
        self._days = retention_days
        self._at: str | None = None
        # A label goes with the sandbox when a copy takes its place; its id does not.
        self._id = sandbox.info["labels"].get(_CHAIN) or sandbox.id
        links = self.steps
        if links:
            came_from = sandbox.info.get("lastSnapshot")
            self._at = came_from if came_from in {link.id for link in links} else links[-1].id

    @property
    def steps(self) -> list[Link]:
        """The remembered steps, oldest first."""
        found = []
        for snapshot in self.sandbox.snapshots(labels={_CHAIN: self._id}):
            labels = snapshot["labels"]
            if snapshot["state"] == "ready":
                found.append(Link(int(labels[_NUMBER]), labels[_STEP], snapshot, labels.get(_PARENT) or None))
        return sorted(found, key=lambda link: link.number)

    @property
    def at(self) -> Link | None:
        """The step the sandbox stands on, or None before the first."""
        return next((link for link in self.steps if link.id == self._at), None)

    def remember(self, step: str) -> Link:
        """Save the machine as it is now, as this step. Raises what snapshot raises."""
        before = self.steps
        if self.sandbox.info["labels"].get(_CHAIN) != self._id:
            self.sandbox.update(labels={**self.sandbox.info["labels"], _CHAIN: self._id})
        number = before[-1].number + 1 if before else 1
        labels = {_CHAIN: self._id, _STEP: step, _NUMBER: str(number), _PARENT: self._at or ""}
        snapshot = self.sandbox.snapshot(labels=labels, retention_days=self._days)
        link = Link(number, step, snapshot, self._at)
        self._at = link.id
        for old in before[: max(0, len(before) + 1 - self._keep)]:
            self.sandbox.delete_snapshot(old.id)
        return link

    def go_back_to(self, step: str | int | Link) -> Sandbox:
        """Put the sandbox in place to a remembered step (its text, number, or link); later steps stay in the tree.

        Raises StepNotFound, and what restore raises.
        """
        link = self._find(step)
        self.sandbox.restore(link.id)
        self._at = link.id
        return self.sandbox

    def drop(self, step: str | int | Link | None = None) -> None:
        """Forget one step, or all of them; the sandbox stays as it is. Raises StepNotFound, NothingToDo."""
        doomed = self.steps if step is None else [self._find(step)]
        if not doomed:
            raise NothingToDo(detail="this chain has no steps")
        for link in doomed:
            self.sandbox.delete_snapshot(link.id)
            if link.id == self._at:
                self._at = link.parent

    def show(self) -> str:
        """Draw the steps as a tree, with a mark at where the sandbox stands."""
        links = self.steps
        known = {link.id for link in links}
        children: dict[str | None, list[Link]] = {}
        for link in links:
            children.setdefault(link.parent if link.parent in known else None, []).append(link)
        lines: list[str] = []

        def draw(parent: str | None, stem: str) -> None:
            below = children.get(parent, [])
            for place, link in enumerate(below):
                last = place == len(below) - 1
                # A single child goes straight on below its parent; only a fork is indented.
                bar, inner = ("", "") if len(below) == 1 else ("└─ ", "   ") if last else ("├─ ", "│  ")
                here = "  <- here" if link.id == self._at else ""
                lines.append(f"{stem}{bar}{link.number} {link.step}{here}")
                draw(link.id, stem + inner)

        draw(None, "")
        return "\n".join(lines)

    def _find(self, step: str | int | Link) -> Link:
        links = self.steps
        for link in reversed(links):  # of two with one text, the later
            if (
                (isinstance(step, Link) and link.id == step.id)
                or (isinstance(step, int) and link.number == step)
                or (isinstance(step, str) and step in (link.step, link.id))
            ):
                return link
        names = ", ".join(f"{link.number} {link.step!r}" for link in links) or "none"
        raise StepNotFound(step=getattr(step, "step", step), known=names)
