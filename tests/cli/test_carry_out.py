"""undo, redo and restore preview, ask and end alike."""

from __future__ import annotations

import json
from collections.abc import Callable

import click
import pytest

from takeback import model
from takeback.cli.carry_out import carry_out
from takeback.cli.output import Face
from takeback.errors import TakebackError, TooManyDeletes
from tests.cli.test_documents import restore_result

Calls = list[dict[str, bool]]
CONFLICT = (model.NotCovered(b"a.txt", "changed since"),)


def recorded(calls: Calls, *, refuse: bool = False, **more: object) -> Callable[..., model.RestoreResult]:
    def call(*, dry_run: bool, yes: bool) -> model.RestoreResult:
        calls.append({"dry_run": dry_run, "yes": yes})
        if refuse and not yes:
            raise TooManyDeletes(deletes=9, total=10, share=0.5)
        return restore_result(dry_run=dry_run, undo_with="takeback undo u9", **more)

    return call


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Face, "at_terminal", property(lambda self: not self.json))


def test_away_from_a_terminal_one_call_does_all(capsys: pytest.CaptureFixture[str]) -> None:
    calls: Calls = []
    assert carry_out(Face(), recorded(calls), doing="Undo", dry_run=False, yes=False) == 0
    assert calls == [{"dry_run": False, "yes": False}]
    said = capsys.readouterr().out
    assert said.startswith("Undo s7 (3.0 s ago): rm")
    assert said.endswith("Take this back with: takeback undo u9\n")


def test_at_a_terminal_the_preview_comes_before_the_first_write(
    terminal: None, capsys: pytest.CaptureFixture[str]
) -> None:
    calls: Calls = []
    carry_out(Face(), recorded(calls), doing="Undo", dry_run=False, yes=False)
    assert calls == [{"dry_run": True, "yes": True}, {"dry_run": False, "yes": False}]
    assert capsys.readouterr().out.count("Undo s7") == 1


def test_a_dry_run_never_calls_for_a_write(terminal: None) -> None:
    calls: Calls = []
    carry_out(Face(), recorded(calls), doing="Undo", dry_run=True, yes=False)
    assert calls == [{"dry_run": True, "yes": False}]


def test_at_a_terminal_a_refusal_to_delete_much_is_a_question(terminal: None, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: Calls = []
    asked: list[str] = []
    monkeypatch.setattr(click, "confirm", lambda text, **_: asked.append(text) or True)
    assert carry_out(Face(), recorded(calls, refuse=True), doing="Undo", dry_run=False, yes=False) == 0
    assert asked == ["This would delete 9 of 10 files (over 50% of the project). Go on?"]
    assert calls[-1] == {"dry_run": False, "yes": True}


def test_a_no_to_that_question_is_the_refusal(terminal: None, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: Calls = []
    monkeypatch.setattr(click, "confirm", lambda text, **_: False)
    with pytest.raises(TooManyDeletes):
        carry_out(Face(), recorded(calls, refuse=True), doing="Undo", dry_run=False, yes=False)
    assert {"dry_run": False, "yes": True} not in calls


@pytest.mark.parametrize("face", [Face(), Face(json=True)])
def test_away_from_a_terminal_nobody_is_asked(face: Face) -> None:
    with pytest.raises(TakebackError):
        carry_out(face, recorded([], refuse=True), doing="Undo", dry_run=False, yes=False)


def test_conflicts_end_with_1_and_the_result_all_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    face = Face(json=True)
    assert carry_out(face, recorded([], conflicts=CONFLICT), doing="Undo", dry_run=False, yes=False) == 1
    assert json.loads(capsys.readouterr().out)["conflicts"][0]["path"] == "a.txt"
