"""The reference pages name every command, every option, and every field of the JSON."""

from __future__ import annotations

import re
from pathlib import Path

import click
import pytest

from takeback import model
from takeback.cli import chain, jsonable, sandbox
from takeback.cli.main import COMMANDS, commands
from tests.cli.test_jsonable import restore_result

WITHOUT_JSON = {"chain", "sandbox", "sandbox shell"}
PAGES = Path(__file__).resolve().parents[2] / "docs" / "reference"


ALL = (
    *COMMANDS,
    *(f"sandbox {name}" for name in sandbox.COMMANDS),
    *(f"chain {name}" for name in chain.COMMANDS),
)


def command(name: str) -> click.Command:
    found: click.Command | None = commands
    for word in name.split():
        assert isinstance(found, click.Group)
        found = found.get_command(click.Context(found), word)
    assert found is not None
    return found


@pytest.mark.parametrize("name", ALL)
def test_the_page_of_commands_names_the_command_and_its_options(name: str) -> None:
    page = (PAGES / "commands.md").read_text(encoding="utf-8")
    assert re.search(rf"^### .*`takeback {name}[ `]", page, re.MULTILINE)
    options = {opt for param in command(name).params if isinstance(param, click.Option) for opt in param.opts}
    assert {option for option in options if not re.search(rf"`{option}[ `]", page)} == set()


@pytest.mark.parametrize("name", sorted({*ALL} - WITHOUT_JSON))
def test_the_page_of_shapes_names_the_command(name: str) -> None:
    assert re.search(rf"^\| .*`{name}`.* \|", (PAGES / "json.md").read_text(encoding="utf-8"), re.MULTILINE)


def test_the_page_of_shapes_names_every_field() -> None:
    checkpoint = model.CheckpointResult("c1", model.Kind.STATE, "", "", True, 0, (), 0)
    fields = {*jsonable.checkpoint(checkpoint), *jsonable.restore(restore_result())}
    for cls in (model.Event, model.Change, model.Action, model.NotCovered, model.Finding, model.GcResult, model.Usage):
        fields |= set(cls.__dataclass_fields__)
    for cls in (model.Status, model.StepResult):
        fields |= set(cls.__dataclass_fields__)
    page = (PAGES / "json.md").read_text(encoding="utf-8")
    assert {field for field in fields if f"`{field}`" not in page} == set()
