"""Any sequence of step, restore, prompt, undo and redo agrees with stacks kept as plain lists."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from takeback.errors import NothingToDo
from takeback.timeline import Scope, Timeline, fold, redo_line
from tests.timeline.story import Story, names

WORKTREES = ("here", "there")
SESSIONS = ("A", "B", None)
MARK = ""


@dataclass
class Stacks:
    """One worktree: what was done (marks between), what each undo took back, and what fell off the line."""

    owner: dict[str, str | None] = field(default_factory=dict)
    doings: list[tuple[str, str | None]] = field(default_factory=list)
    live: set[str] = field(default_factory=set)
    taken: list[list[str]] = field(default_factory=list)
    off: set[str] = field(default_factory=set)

    def do(self, id: str, session: str | None, *, ends_line: bool) -> None:
        self.owner[id] = session
        self.doings.append((id, session))
        self.live.add(id)
        if ends_line:
            gone = {one for group in self.taken for one in group if self.owner[one] == session}
            self.taken = [[one for one in group if one not in gone] for group in self.taken]
            self.off |= gone

    def _mine(self, id: str, session: str | None) -> bool:
        return session is None or self.owner[id] == session

    def undo(self, session: str | None) -> list[str]:
        for id, _ in reversed(self.doings):
            if id in self.live and self._mine(id, session):
                return self._take([id])
        return []

    def undo_prompt(self, session: str | None) -> list[str]:
        found: list[str] = []
        for id, owner in reversed(self.doings):
            if id == MARK:
                if found and session in (None, owner):
                    return self._take(found)
            elif id in self.live and self._mine(id, session):
                found.append(id)
        return []

    def undo_named(self, id: str) -> list[str]:
        return self._take([id]) if id in self.live else []

    def _take(self, ids: list[str]) -> list[str]:
        self.live -= set(ids)
        self.taken.append(list(ids))
        return ids

    def redo(self, session: str | None) -> list[str]:
        for group in reversed(self.taken):
            ids = [one for one in group if self._mine(one, session)]
            if ids:
                for one in ids:
                    group.remove(one)
                self.live |= set(ids)
                return ids[::-1]
        return []

    def redo_named(self, id: str) -> list[str]:
        if id in self.live:
            return []
        for group in self.taken:
            if id in group:
                group.remove(id)
        self.off.discard(id)
        self.live.add(id)
        return [id]


worktrees = st.sampled_from(WORKTREES)
sessions = st.sampled_from(SESSIONS)
kinds = st.sampled_from(
    ["step", "step", "restore", "prompt", "undo", "undo", "redo", "undo-prompt", "undo-named", "redo-named"]
)
moves = st.lists(st.tuples(kinds, worktrees, sessions, st.integers(0, 30)), max_size=40)


def play(story: Story, stacks: dict[str, Stacks], move: tuple[str, str, str | None, int]) -> None:
    kind, worktree, session, number = move
    model = stacks[worktree]
    if kind in ("step", "restore"):
        id = story.step(session, worktree=worktree) if kind == "step" else story.restore(session, worktree=worktree)
        model.do(id, session, ends_line=kind == "step")
        return
    if kind == "prompt":
        story.prompt(session, worktree=worktree)
        model.doings.append((MARK, session))
        return
    ids = sorted(model.owner)
    id = ids[number % len(ids)] if ids else ""
    if kind.endswith("named") and not ids:
        return
    expect, ask = _turns(story, model, worktree, session, id)[kind]
    expected = expect()
    if expected:
        assert ask() == expected
    else:
        with pytest.raises(NothingToDo):
            ask()


def _turns(
    story: Story, model: Stacks, worktree: str, session: str | None, id: str
) -> dict[str, tuple[Callable[[], list[str]], Callable[[], list[str]]]]:
    """Each kind of undo and redo: what the model does, and what is asked of the algebra."""
    here: dict[str, Any] = {"worktree": worktree, "session": session}
    return {
        "undo": (lambda: model.undo(session), lambda: story.undo(**here)),
        "undo-prompt": (lambda: model.undo_prompt(session), lambda: story.undo(prompt=True, **here)),
        "undo-named": (lambda: model.undo_named(id), lambda: story.undo(id, worktree=worktree)),
        "redo": (lambda: model.redo(session), lambda: story.redo(**here)),
        "redo-named": (lambda: model.redo_named(id), lambda: story.redo(id, worktree=worktree)),
    }


def told(plan: list[tuple[str, str, str | None, int]]) -> tuple[Story, dict[str, Stacks]]:
    story = Story()
    stacks = {worktree: Stacks() for worktree in WORKTREES}
    for move in plan:
        play(story, stacks, move)
    return story, stacks


def statuses(timeline: Timeline) -> dict[str, str]:
    return {done.id: done.status.value for worktree in WORKTREES for done in timeline.newest(Scope(worktree))}


@given(moves)
@settings(max_examples=400, deadline=None)
def test_any_sequence_agrees_with_stacks_kept_as_lists(plan: list[tuple[str, str, str | None, int]]) -> None:
    story, stacks = told(plan)
    for worktree, model in stacks.items():
        for id in model.owner:
            assert (story.status(id) == "live") == (id in model.live)
        line = names(redo_line(story.timeline, Scope(worktree)))
        assert line == [one for group in reversed(model.taken) for one in reversed(group)]
    assert statuses(fold(story.events)) == statuses(story.timeline)


@given(moves, worktrees, sessions, st.booleans())
@settings(deadline=None)
def test_undo_then_redo_changes_no_status(
    plan: list[tuple[str, str, str | None, int]], worktree: str, session: str | None, prompt: bool
) -> None:
    story, _ = told(plan)
    before = statuses(story.timeline)
    try:
        taken = story.undo(worktree=worktree, session=session, prompt=prompt)
    except NothingToDo:
        return
    assert statuses(story.timeline) != before
    assert story.redo(worktree=worktree, session=session) == taken[::-1]
    assert statuses(story.timeline) == before


@given(moves)
@settings(deadline=None)
def test_nothing_is_ever_lost(plan: list[tuple[str, str, str | None, int]]) -> None:
    story, stacks = told(plan)
    for worktree, model in stacks.items():
        for id in model.owner:
            back, forth = (story.undo, story.redo) if story.status(id) == "live" else (story.redo, story.undo)
            assert back(id, worktree=worktree) == [id]
            assert forth(id, worktree=worktree) == [id]


@given(moves, worktrees, sessions)
@settings(deadline=None)
def test_undo_repeated_ends_with_nothing_live_and_redo_repeated_with_an_empty_line(
    plan: list[tuple[str, str, str | None, int]], worktree: str, session: str | None
) -> None:
    story, _ = told(plan)
    scope = Scope(worktree, session)
    for turn in (story.undo, story.redo):
        with pytest.raises(NothingToDo):
            for _ in range(100):
                turn(worktree=worktree, session=session)
        line = redo_line(story.timeline, scope)
        live = [done for done in story.timeline.newest(scope) if done.status == "live"]
        assert not (live if turn == story.undo else line)
