"""The reference pages name every command, every option, and every field of the JSON."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import click
import pytest
from click.core import ParameterSource

from takeback import documents, model
from takeback.cli import chain, sandbox
from takeback.cli import task as tasks
from takeback.cli.main import COMMANDS, commands
from tests.cli.test_documents import restore_result

_SAID = ParameterSource.COMMANDLINE
WITHOUT_JSON = {"chain", "mcp", "task", "sandbox", "sandbox shell"}
PAGES = Path(__file__).resolve().parents[2] / "docs" / "reference"


ALL = (
    *COMMANDS,
    *(f"sandbox {name}" for name in sandbox.COMMANDS),
    *(f"chain {name}" for name in chain.COMMANDS),
    *(f"task {name}" for name in tasks.COMMANDS),
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


def examples() -> dict[str, str]:
    """Return the command lines of the pages and of `--help`, each with the name of its command."""
    lines = {line for name in ALL for line, _ in getattr(command(name), "examples", ())}
    for page in (PAGES.parents[1] / "README.md", *PAGES.parent.rglob("*.md")):
        for block in re.findall(r"^```(?:sh|console)\n(.*?)^```", page.read_text("utf-8"), re.M | re.S):
            lines |= {line.removeprefix("$ ") for line in block.splitlines()}
    found = {}
    for line in lines:
        name = next((name for name in sorted(ALL, key=len, reverse=True) if line.startswith(f"takeback {name} ")), None)
        if name is not None:
            found[line] = name
    return found


@pytest.mark.parametrize(("line", "name"), sorted(examples().items()))
def test_an_example_means_what_it_seems_to_also_where_options_come_after_the_name(line: str, name: str) -> None:
    words = shlex.split(line, comments=True)[1 + len(name.split()) :]
    it = command(name)
    options = {param: {*param.opts, *param.secondary_opts} for param in it.params if isinstance(param, click.Option)}
    before = words[: words.index("--")] if "--" in words else words
    meant = {word.partition("=")[0] for word in before} & set().union(*options.values())
    with it.make_context(name, list(words)) as context:
        said = {param for param in options if context.get_parameter_source(str(param.name)) is _SAID}
    assert meant <= set().union(*(options[param] for param in said))


@pytest.mark.parametrize("line", ["exec db --user root -- id", "exec --user root db id", "try db --verify x -- y"])
def test_options_after_the_name_are_ours_when_two_dashes_end_them(line: str) -> None:
    name, *words = line.split()
    with command(f"sandbox {name}").make_context(name, words) as context:
        assert context.params["id"] == "db"
        assert context.params.get("user") == "root" or context.params.get("verify") == "x"


def test_options_after_the_name_belong_to_the_command_line_without_two_dashes() -> None:
    with command("sandbox exec").make_context("exec", ["db", "ls", "--user", "root"]) as context:
        assert context.params["words"] == ("ls", "--user", "root") and context.params["user"] is None


@pytest.mark.parametrize("name", sorted({*ALL} - WITHOUT_JSON))
def test_the_page_of_shapes_names_the_command(name: str) -> None:
    assert re.search(rf"^\| .*`{name}`.* \|", (PAGES / "json.md").read_text(encoding="utf-8"), re.MULTILINE)


def test_the_page_of_shapes_names_every_field() -> None:
    checkpoint = model.CheckpointResult("c1", model.Kind.STATE, "", "", True, 0, (), 0)
    fields = {*documents.checkpoint(checkpoint), *documents.restore(restore_result())}
    for cls in (model.Event, model.Change, model.Action, model.NotCovered, model.Finding, model.GcResult, model.Usage):
        fields |= set(cls.__dataclass_fields__)
    for cls in (model.Status, model.StepResult):
        fields |= set(cls.__dataclass_fields__)
    fields.discard("cls")  # `class` in JSON, which is no name in Python
    page = (PAGES / "json.md").read_text(encoding="utf-8")
    assert {field for field in fields if f"`{field}`" not in page} == set()
