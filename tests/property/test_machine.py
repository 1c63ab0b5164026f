"""Any sequence of edits, git commands, checkpoints, steps, undos, redos and restores equals the model.

Does not cover: processes that write while takeback reads, other worktrees, submodules, databases, or an ordinary user.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, ClassVar
from unittest import mock

import pytest
from hypothesis import HealthCheck, Phase, note, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule, run_state_machine_as_test

from tests.property.hands import files, folders, git_changes, plain_changes
from tests.property.world import Pool, World, told

sessions = st.sampled_from(("A", "B"))
anyone = st.sampled_from((None, None, "A", "B"))
numbers = st.integers(0, 40)
maybe_number = st.one_of(st.none(), st.none(), numbers)
rarely = st.sampled_from((False, False, False, True))
mostly = st.sampled_from((True, True, True, False))
choices = st.one_of(st.just(()), st.just(()), st.lists(st.one_of(files, folders), min_size=1, max_size=2).map(tuple))


class Machine(RuleBasedStateMachine):
    """Plays moves; which changes hands make is the subclass's."""

    pool: ClassVar[Pool]
    changes: ClassVar[st.SearchStrategy[Any]] = plain_changes

    def __init__(self) -> None:
        super().__init__()
        self.root = self.pool.take()
        self.patch = mock.patch.dict(os.environ, self.pool.env, clear=True)
        self.patch.start()
        self.world = World(self.root, self.pool.env, self.pool.blank)

    def teardown(self) -> None:
        self.world.close()
        self.patch.stop()
        self.pool.remove(self.root)

    def play(self, *move: Any) -> None:
        try:
            self.world.play(move)
        except Exception:
            note(f"the story: {told(self.world.story)}")
            raise

    @rule(data=st.data(), session=sessions, state=mostly, named=choices)
    def step(self, data: st.DataObject, session: str, state: bool, named: tuple[bytes, ...]) -> None:
        changes = data.draw(st.lists(self.changes, max_size=3))
        self.play("step", session, state, named, tuple(changes))

    @rule(data=st.data())
    def change(self, data: st.DataObject) -> None:
        self.play("change", data.draw(self.changes))

    @rule(session=sessions, state=mostly, named=choices)
    def begin(self, session: str, state: bool, named: tuple[bytes, ...]) -> None:
        self.play("begin", session, state, named)

    @precondition(lambda self: self.world.running)
    @rule(session=sessions)
    def end(self, session: str) -> None:
        self.play("end", session)

    @rule(session=sessions, state=mostly)
    def checkpoint(self, session: str, state: bool) -> None:
        self.play("checkpoint", session, state)

    @rule(session=sessions, chosen=st.lists(files, min_size=1, max_size=2).map(tuple))
    def checkpoint_of_paths(self, session: str, chosen: tuple[bytes, ...]) -> None:
        self.play("checkpoint", session, True, chosen)

    @rule(session=anyone)
    def undo_newest(self, session: str | None) -> None:
        self.play("undo", session, None, False, False)

    @rule(session=anyone)
    def redo_newest(self, session: str | None) -> None:
        self.play("redo", session, None, False, False)

    @rule(session=anyone, number=maybe_number, partial=rarely, shared=rarely)
    def undo(self, session: str | None, number: int | None, partial: bool, shared: bool) -> None:
        self.play("undo", session, number, partial, shared)

    @rule(session=anyone, number=maybe_number, partial=rarely, shared=rarely)
    def redo(self, session: str | None, number: int | None, partial: bool, shared: bool) -> None:
        self.play("redo", session, number, partial, shared)

    @precondition(lambda self: self.world.order)
    @rule(number=numbers, refs=rarely, chosen=choices)
    def restore(self, number: int, refs: bool, chosen: tuple[bytes, ...]) -> None:
        self.play("restore", number, refs, chosen)

    @precondition(lambda self: self.world.order)
    @rule(number=numbers)
    def restore_to(self, number: int) -> None:
        self.play("restore_to", number)

    @rule(what=st.sampled_from(("log", "status", "diff", "undo", "redo", "restore")), number=numbers)
    def look(self, what: str, number: int) -> None:
        self.play("look", what, number)

    @rule(forget=st.booleans())
    def reopen(self, forget: bool) -> None:
        self.play("reopen", forget)

    @rule(keep=st.integers(1, 5))
    def gc(self, keep: int) -> None:
        self.play("gc", keep)


class Repository(Machine):
    changes = st.one_of(plain_changes, git_changes)


class Folder(Machine):
    pass


def play_many(machine: type[Machine], top: Path, examples: int, steps: int, *, derandomize: bool) -> None:
    machine.pool = Pool(top, machine is Repository, min(examples, 40))
    chosen = settings(
        max_examples=examples, stateful_step_count=steps, deadline=None, derandomize=derandomize, database=None,
        suppress_health_check=list(HealthCheck), print_blob=False,
        phases=(Phase.generate, Phase.shrink),
    )  # fmt: skip
    run_state_machine_as_test(machine, settings=chosen)


@pytest.mark.parametrize("machine", [Repository, Folder])
def test_any_short_sequence_in_a_project_equals_the_model(machine: type[Machine], top: Path) -> None:
    play_many(machine, top, 12, 14, derandomize=True)


@pytest.mark.long
@pytest.mark.parametrize("machine", [Repository, Folder])
def test_any_long_sequence_in_a_project_equals_the_model(machine: type[Machine], top: Path) -> None:
    play_many(machine, top, 150, 40, derandomize=False)
