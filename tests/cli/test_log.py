"""The log shows each step once, with how it ended."""

from __future__ import annotations

from takeback import model
from takeback.cli.log import rows

SECOND = 1_000_000_000


def test_a_step_and_its_end_are_one_row() -> None:
    events = [
        model.Event(3, "e3", model.EventKind.STEP_END, 61 * SECOND, targets=("s2",), data={"exit": 7}),
        model.Event(2, "s2", model.EventKind.STEP, 60 * SECOND, session="agent", text="make"),
        model.Event(1, "c1", model.EventKind.CHECKPOINT, 0),
        model.Event(0, "root", model.EventKind.ROOT, 0),
    ]
    assert rows(events, 120 * SECOND) == [
        ("s2", "1 min ago", "agent", "7", "make"),
        ("c1", "2 min ago", "", "", "checkpoint"),
    ]


def test_a_step_that_runs_still_has_no_exit_code() -> None:
    events = [model.Event(2, "s2", model.EventKind.STEP, 0, text="sleep")]
    assert rows(events, SECOND)[0][3] == ""


def test_a_new_line_in_a_command_does_not_make_a_new_row() -> None:
    events = [model.Event(2, "s2", model.EventKind.STEP, 0, text="a\nb\tc")]
    assert rows(events, SECOND)[0][4] == "a\\nb\\tc"
