"""A chain of saved steps of one sandbox: remember each that passed, go back to any of them in place.

The chain is kept in the labels of memory snapshots, so that another program can go on with it. Going back does not
delete: what came after stays as a branch of the tree, and can be gone back to.

Does not cover: taking and restoring snapshots (`sandbox`). Written once for both faces (`faces`).
"""

from __future__ import annotations

from collections.abc import Awaitable
from dataclasses import dataclass
from typing import Any

from takeback.errors import NothingToDo, StepNotFound, UsageError
from takeback.machines.client.aio import AsyncSandbox
from takeback.machines.client.faces import Steps, later, now
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
    """The remembered steps of a sandbox: `keep` of them at most (the oldest go first), each for `retention_days`.

    Of an AsyncSandbox it is an AsyncChain.
    """

    # As one call for both, like the other helpers; a type checker wants AsyncChain by its name.
    def __new__(cls, sandbox: Sandbox, *, keep: int = 50, retention_days: int | None = None) -> Chain:
        if isinstance(sandbox, AsyncSandbox):
            return AsyncChain(sandbox, keep=keep, retention_days=retention_days)
        return super().__new__(cls)

    def __init__(self, sandbox: Sandbox, *, keep: int = 50, retention_days: int | None = None) -> None:
        """Raises UsageError for a `keep` below 1."""
        self._links = _Links(sandbox, keep, retention_days)

    @property
    def sandbox(self) -> Sandbox:
        """The sandbox, or the copy that was kept in its place."""
        kept: Sandbox = self._links.sandbox
        return kept

    @property
    def undo(self) -> str | None:
        """The snapshot of what was before the last `go_back_to`, if there is one."""
        return self._links.undo

    @property
    def steps(self) -> list[Link]:
        """The remembered steps, oldest first."""
        return now(self._links.steps())

    @property
    def at(self) -> Link | None:
        """The step the sandbox stands on, or None before the first."""
        return now(self._links.at())

    def remember(self, step: str) -> Link:
        """Save the machine as it is now, as this step. Raises what snapshot raises."""
        return now(self._links.remember(step))

    def go_back_to(self, step: str | int | Link, *, undo: bool = True) -> Sandbox:
        """Put the sandbox in place to a remembered step (its text, number, or link), an earlier or a later one.

        The other steps stay in the tree. Raises StepNotFound, and what restore raises.
        """
        now(self._links.go_back_to(step, undo))
        return self.sandbox

    def drop(self, step: str | int | Link | None = None) -> None:
        """Forget one step, or all of them; the sandbox stays as it is. Raises StepNotFound, NothingToDo."""
        now(self._links.drop(step))

    def show(self) -> str:
        """Draw the steps as a tree, with a mark at where the sandbox stands."""
        return now(self._links.show())


class AsyncChain:
    """The same for an AsyncSandbox: `await chain.remember("migrate")`, `await chain.steps`."""

    def __init__(self, sandbox: AsyncSandbox, *, keep: int = 50, retention_days: int | None = None) -> None:
        """Raises UsageError for a `keep` below 1."""
        self._links = _Links(sandbox, keep, retention_days)

    @property
    def sandbox(self) -> AsyncSandbox:
        """The sandbox, or the copy that was kept in its place."""
        kept: AsyncSandbox = self._links.sandbox
        return kept

    @property
    def undo(self) -> str | None:
        """The snapshot of what was before the last `go_back_to`, if there is one."""
        return self._links.undo

    @property
    def steps(self) -> Awaitable[list[Link]]:
        """The remembered steps, oldest first."""
        return later(self._links.steps())

    @property
    def at(self) -> Awaitable[Link | None]:
        """The step the sandbox stands on, or None before the first."""
        return later(self._links.at())

    async def remember(self, step: str) -> Link:
        """Save the machine as it is now, as this step."""
        return await later(self._links.remember(step))

    async def go_back_to(self, step: str | int | Link, *, undo: bool = True) -> AsyncSandbox:
        """Put the sandbox in place to a remembered step."""
        await later(self._links.go_back_to(step, undo))
        return self.sandbox

    async def drop(self, step: str | int | Link | None = None) -> None:
        """Forget one step, or all of them; the sandbox stays as it is."""
        await later(self._links.drop(step))

    async def show(self) -> str:
        """Draw the steps as a tree."""
        return await later(self._links.show())


class _Links:
    """What both chains do, as steps."""

    def __init__(self, sandbox: Any, keep: int, retention_days: int | None) -> None:
        if keep < 1:
            raise UsageError(detail=f"a chain keeps at least 1 step, not {keep}")
        self._sandbox = sandbox
        self._keep = keep
        self._days = retention_days
        self._known_id: str | None = None
        self.undo: str | None = None

    @property
    def sandbox(self) -> Any:
        while self._sandbox.heir is not None:
            self._sandbox = self._sandbox.heir
        return self._sandbox

    def _id(self) -> Steps[str]:
        if self._known_id is None:
            # A label goes with the sandbox when a copy takes its place; its id does not.
            found = yield self.sandbox.refresh()
            self._known_id = found.info["labels"].get(_CHAIN) or found.id
        return self._known_id

    def steps(self) -> Steps[list[Link]]:
        found = []
        for snapshot in (yield self.sandbox.snapshots(labels={_CHAIN: (yield from self._id())})):
            labels = snapshot["labels"]
            if snapshot["state"] == "ready":
                found.append(Link(int(labels[_NUMBER]), labels[_STEP], snapshot, labels.get(_PARENT) or None))
        return sorted(found, key=lambda link: link.number)

    def at(self) -> Steps[Link | None]:
        return (yield from self._standing((yield from self.steps())))

    def remember(self, step: str) -> Steps[Link]:
        before = yield from self.steps()
        here = yield from self._standing(before)
        number = before[-1].number + 1 if before else 1
        parent = here.id if here is not None else None
        text = step if len(step) <= _LONGEST else step[: _LONGEST - 3] + "..."
        chain = yield from self._id()
        labels = {_CHAIN: chain, _STEP: text, _NUMBER: str(number), _PARENT: parent or ""}
        snapshot = yield self.sandbox.snapshot(labels=labels, retention_days=self._days)
        link = Link(number, text, snapshot, parent)
        yield from self._stand(link)
        for old in before[: max(0, len(before) + 1 - self._keep)]:
            yield self.sandbox.delete_snapshot(old.id)
        return link

    def go_back_to(self, step: str | int | Link, undo: bool) -> Steps[None]:
        link = yield from self._find(step)
        yield self.sandbox.restore(link.id, undo=undo)
        self.undo = self.sandbox.info["undoSnapshotId"]
        yield from self._stand(link)

    def drop(self, step: str | int | Link | None) -> Steps[None]:
        steps = yield from self.steps()
        here = yield from self._standing(steps)
        doomed = steps if step is None else [(yield from self._find(step))]
        if not doomed:
            raise NothingToDo(sentence="this chain has no steps", next="`remember` one first")
        if here is not None and here in doomed and step is not None:
            yield from self._stand(next((link for link in steps if link.id == here.parent), None))
        for link in doomed:
            yield self.sandbox.delete_snapshot(link.id)

    def show(self) -> Steps[str]:
        links = yield from self.steps()
        here = yield from self._standing(links)
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

    def _standing(self, links: list[Link]) -> Steps[Link | None]:
        """Return the link that it was saved as or put to last, or that came before that; else what its label says."""
        info = (yield self.sandbox.refresh()).info
        by_id = {link.id: link for link in links}
        parents = {one["id"]: one["parentSnapshotId"] for one in (yield self.sandbox.snapshots())}
        at, seen = info.get("lastSnapshot"), set[str]()
        while at is not None and at not in seen:
            if at in by_id:
                return by_id[at]
            seen.add(at)
            at = parents.get(at)
        return by_id.get(info["labels"].get(_AT, ""))

    def _stand(self, link: Link | None) -> Steps[None]:
        chain = yield from self._id()
        labels = {**self.sandbox.info["labels"], _CHAIN: chain, _AT: link.id if link is not None else ""}
        yield self.sandbox.update(labels=labels)

    def _find(self, step: str | int | Link) -> Steps[Link]:
        links = yield from self.steps()
        for link in reversed(links):  # of two with one text, the later
            if (
                (isinstance(step, Link) and link.id == step.id)
                or (isinstance(step, int) and link.number == step)
                or (isinstance(step, str) and step in (link.step, link.id))
            ):
                return link
        names = ", ".join(f"{link.number} {link.step!r}" for link in links) or "none"
        raise StepNotFound(step=getattr(step, "step", step), known=names)
