"""Events written as a story: each call appends one and keeps the fold."""

from __future__ import annotations

from typing import Any

from takeback.model import Event, EventKind
from takeback.timeline import Done, Scope, Timeline, UndoChoice, choose_redo, choose_undo, fold

HERE = "here"


class Story:
    def __init__(self) -> None:
        self.events: list[Event] = []
        self.timeline: Timeline = fold(())
        self._numbers = 0
        self.tell(EventKind.ROOT)

    def tell(self, kind: EventKind, id: str = "", **fields: Any) -> str:
        seq = len(self.events) + 1
        event = Event(seq=seq, id=id, kind=kind, at_ns=seq * 10, worktree=fields.pop("worktree", HERE), **fields)
        self.events.append(event)
        self.timeline = self.timeline.append(event)
        return id

    def id(self, prefix: str) -> str:
        self._numbers += 1
        return f"{prefix}{self._numbers}"

    def state(self) -> str:
        """A checkpoint id nobody used before."""
        return self.id("c")

    def begin(self, session: str | None = None, **fields: Any) -> str:
        fields.setdefault("before", self.state())
        return self.tell(EventKind.STEP, self.id("s"), session=session, **fields)

    def end(self, step: str, **fields: Any) -> None:
        done = self.timeline.done(step)
        assert done is not None
        fields.setdefault("after", self.state())
        self.tell(EventKind.STEP_END, "", targets=(step,), worktree=done.worktree, session=done.session, **fields)

    def step(self, session: str | None = None, **fields: Any) -> str:
        id = self.begin(session, **fields)
        self.end(id)
        return id

    def restore(self, session: str | None = None, **fields: Any) -> str:
        fields = {"before": self.state(), "after": self.state(), "targets": ("c1",)} | fields
        return self.tell(EventKind.RESTORE, self.id("r"), session=session, **fields)

    def prompt(self, session: str | None = None, **fields: Any) -> None:
        self.tell(EventKind.PROMPT, "", session=session, **fields)

    def checkpoint(self, **fields: Any) -> str:
        return self.tell(EventKind.CHECKPOINT, self.state(), **fields)

    def record_undo(self, *targets: str, **fields: Any) -> str:
        return self.tell(EventKind.UNDO, self.id("u"), targets=targets, **self._states(), **fields)

    def undo(self, step: str | None = None, *, prompt: bool = False, **scope: Any) -> list[str]:
        """Choose and record; returns what was taken back, in order."""
        place = Scope(scope.pop("worktree", HERE), **scope)
        targets = names(choose_undo(self.timeline, place, step, prompt=prompt).targets)
        self.tell(EventKind.UNDO, self.id("u"), targets=tuple(targets), worktree=place.worktree, **self._states())
        return targets

    def redo(self, step: str | None = None, **scope: Any) -> list[str]:
        place = Scope(scope.pop("worktree", HERE), **scope)
        targets = names(choose_redo(self.timeline, place, step).targets)
        self.tell(EventKind.REDO, self.id("y"), targets=tuple(targets), worktree=place.worktree, **self._states())
        return targets

    def choice(self, step: str | None = None, *, prompt: bool = False, **scope: Any) -> UndoChoice:
        return choose_undo(self.timeline, Scope(scope.pop("worktree", HERE), **scope), step, prompt=prompt)

    def done(self, id: str) -> Done:
        found = self.timeline.done(id)
        assert found is not None
        return found

    def status(self, id: str) -> str:
        return self.done(id).status.value

    def _states(self) -> dict[str, str]:
        return {"before": self.state(), "after": self.state()}


def names(dones: tuple[Done, ...]) -> list[str]:
    return [done.id for done in dones]
