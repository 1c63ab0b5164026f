"""Every `--help`, as a person at an 80-column terminal sees it."""

from __future__ import annotations

import re

import pytest

from takeback.cli import chain, sandbox
from takeback.cli import task as tasks
from takeback.cli.main import COMMANDS
from tests.cli.golden_file import Golden
from tests.support.cli import Home

ALL = (
    "",
    *COMMANDS,
    *(f"sandbox {name}" for name in sandbox.COMMANDS),
    *(f"chain {name}" for name in chain.COMMANDS),
    *(f"task {name}" for name in tasks.COMMANDS),
)


def file_name(command: str) -> str:
    return command.replace(" ", "-") or "takeback"


def help_of(home: Home, command: str) -> str:
    args = [*command.split(), "--help"]
    return home.tb(home.path, *args, env={"COLUMNS": "80"}, as_json=False).out.decode()


@pytest.mark.parametrize("command", ALL)
def test_the_help_is_as_in_its_golden_file(home: Home, golden: Golden, command: str) -> None:
    golden.check(f"{file_name(command)}.txt", help_of(home, command))


@pytest.mark.parametrize("command", ALL)
def test_the_help_has_two_or_three_examples_of_its_own_command(home: Home, command: str) -> None:
    examples = help_of(home, command).split("\nExamples:\n")[1].split("\n\n")[0]
    lines = [line for line in examples.splitlines() if not line.startswith("  #")]
    assert 2 <= len(lines) <= 3
    assert all(re.match(r"  takeback( |$)", line) for line in lines)
    assert any(f"takeback {command}".strip() in line for line in lines)


@pytest.mark.parametrize("command", ALL)
def test_the_help_tells_undo_restore_and_revert_apart(home: Home, command: str) -> None:
    assert help_of(home, command).endswith(
        "Which one:\n"
        "  undo     takes back what one step changed\n"
        "  restore  puts the whole tree to a checkpoint\n"
        "  revert   takes back one landed task\n"
    )


@pytest.mark.parametrize("command", ALL)
def test_the_help_names_the_options_that_every_command_has(home: Home, command: str) -> None:
    text = help_of(home, command)
    for option in ("--json", "--project DIR", "-q, --quiet", "-v, --verbose", "-h, --help"):
        assert option in text


@pytest.mark.parametrize("command", ["undo", "redo", "restore", "gc"])
def test_what_changes_a_project_can_be_looked_at_first_and_agreed_to_beforehand(home: Home, command: str) -> None:
    assert "--dry-run" in help_of(home, command)
    assert "--yes" in help_of(home, command)


def test_no_golden_file_is_left_of_a_command_that_is_gone(golden: Golden) -> None:
    assert {path.stem for path in golden.directory.iterdir()} == {file_name(command) for command in ALL}
