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
_AT = "takeback.at"
_LONGEST = 256  # of a label's value


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
    """The remembered steps of a sandbox: `keep` of them at most (the oldest go first), each for `retention_days`."""

    def __init__(self, sandbox: Sandbox, *, keep: int = 50, retention_days: int | None = None) -> None:
        """Raises UsageError for a `keep` below 1."""
        if keep < 1:
            raise UsageError(detail=f"a chain keeps at least 1 step, not {keep}")
        self._sandbox = sandbox
        self.undo: str | None = None  # the snapshot of what was before `go_back_to`
        self._keep = keep
        self._days = retention_days
        # A label goes with the sandbox when a copy takes its place; its id does not.
        self._id = sandbox.refresh().info["labels"].get(_CHAIN) or sandbox.id

    @property
    def sandbox(self) -> Sandbox:
        """The sandbox, or the copy that was kept in its place."""
        while self._sandbox.heir is not None:
            self._sandbox = self._sandbox.heir
        return self._sandbox

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
        return self._standing(self.steps)

    def remember(self, step: str) -> Link:
        """Save the machine as it is now, as this step. Raises what snapshot raises."""
        before = self.steps
        here = self._standing(before)
        number = before[-1].number + 1 if before else 1
        parent = here.id if here is not None else None
        text = step if len(step) <= _LONGEST else step[: _LONGEST - 3] + "..."
        labels = {_CHAIN: self._id, _STEP: text, _NUMBER: str(number), _PARENT: parent or ""}
        snapshot = self.sandbox.snapshot(labels=labels, retention_days=self._days)
        link = Link(number, text, snapshot, parent)
        self._stand(link)
        for old in before[: max(0, len(before) + 1 - self._keep)]:
            self.sandbox.delete_snapshot(old.id)
        return link

    def go_back_to(self, step: str | int | Link, *, undo: bool = True) -> Sandbox:
        """Put the sandbox in place to a remembered step (its text, number, or link), an earlier or a later one.

        The other steps stay in the tree. Raises StepNotFound, and what restore raises.
        """
        link = self._find(step)
        self.sandbox.restore(link.id, undo=undo)
        self.undo = self.sandbox.info["undoSnapshotId"]
        self._stand(link)
        return self.sandbox

    def drop(self, step: str | int | Link | None = None) -> None:
        """Forget one step, or all of them; the sandbox stays as it is. Raises StepNotFound, NothingToDo."""
        steps = self.steps
        here = self._standing(steps)
        doomed = steps if step is None else [self._find(step)]
        if not doomed:
            raise NothingToDo(sentence="this chain has no steps", next="`remember` one first")
        if here is not None and here in doomed and step is not None:
            self._stand(next((link for link in steps if link.id == here.parent), None))
        for link in doomed:
            self.sandbox.delete_snapshot(link.id)

    def show(self) -> str:
        """Draw the steps as a tree, with a mark at where the sandbox stands."""
        links = self.steps
        here = self._standing(links)
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
                mark = "  <- here" if link == here else ""
                lines.append(f"{stem}{bar}{link.number} {link.step}{mark}")
                draw(link.id, stem + inner)

        draw(None, "")
        return "\n".join(lines)

    def _standing(self, links: list[Link]) -> Link | None:
        """Return the link that it was saved as or put to last, or that came before that; else what its label says."""
        info = self.sandbox.refresh().info
        by_id = {link.id: link for link in links}
        parents = {one["id"]: one["parentSnapshotId"] for one in self.sandbox.snapshots()}
        at, seen = info.get("lastSnapshot"), set[str]()
        while at is not None and at not in seen:
            if at in by_id:
                return by_id[at]
            seen.add(at)
            at = parents.get(at)
        return by_id.get(info["labels"].get(_AT, ""))

    def _stand(self, link: Link | None) -> None:
        labels = {**self.sandbox.info["labels"], _CHAIN: self._id, _AT: link.id if link is not None else ""}
        self.sandbox.update(labels=labels)

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
