"""The pages hold together: links lead somewhere, commands exist, settings are the real ones, the Python runs."""

from __future__ import annotations

import re
import shlex
from dataclasses import fields
from pathlib import Path

import click
import pytest

import takeback.sandboxes  # noqa: F401 (sets the default client)
from takeback import config
from takeback.cli.main import COMMANDS, commands
from takeback.files.settings import FilesSettings
from takeback.machines.client.sandbox import SandboxRecord
from takeback.machines.client.snapshots import Snapshots
from tests.machines.client.conftest import World
from tests.support.cli import Project

TOP = Path(__file__).resolve().parents[2]
PAGES = sorted([TOP / "README.md", TOP / "integrations" / "README.md", *(TOP / "docs").rglob("*.md")])


def anchors(page: Path) -> set[str]:
    """Return the anchors that headings make, as web views of Markdown name them."""
    headings = re.findall(r"^#+ (.*)$", page.read_text("utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(TOP)))
def test_every_link_of_the_page_leads_somewhere(page: Path) -> None:
    wrong = []
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text("utf-8")):
        path, _, anchor = target.partition("#")
        if re.match(r"\w+:", target):
            continue
        to = (page.parent / path).resolve() if path else page
        if not to.is_file() or (anchor and anchor not in anchors(to)):
            wrong.append(target)
    assert wrong == []


def said(page: Path) -> list[str]:
    """Return the takeback commands in a page's shell blocks and inline code."""
    text = page.read_text("utf-8")
    lines = [
        line for block in re.findall(r"^```(?:sh|console)\n(.*?)^```", text, re.M | re.S) for line in block.splitlines()
    ]
    lines += re.findall(r"`([^`\n]+)`", text)
    return [line.removeprefix("$ ") for line in lines if re.match(r"(\$ )?takeback( |$)", line)]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(TOP)))
def test_every_command_of_the_page_exists_with_its_options(page: Path) -> None:
    context = click.Context(commands)
    general = {opt for param in commands.params for opt in (*param.opts, *param.secondary_opts)}
    for line in said(page):
        words = [word.rstrip(",;.") for word in shlex.split(line, comments=True)[1:]]
        words = words[: words.index("--")] if "--" in words else words
        name = next((word for word in words if word in COMMANDS), None)
        command = commands.get_command(context, name) if name else commands
        if isinstance(command, click.Group) and command is not commands:
            below = words[words.index(name) + 1 :] if name else []
            command = command.get_command(context, below[0]) if below else command
        assert command is not None, line
        known = general | {opt for param in command.params for opt in (*param.opts, *param.secondary_opts)}
        used = {word.partition("=")[0] for word in words if word.startswith("-") and len(word) > 1}
        assert used <= known | {"--help", "-h"}, line


def test_the_page_of_settings_names_every_key_with_its_default() -> None:
    page = (TOP / "docs" / "how-to" / "settings.md").read_text("utf-8")
    rows = dict(re.findall(r"^\| `(\w+)` \| (.*?) \|", page, re.MULTILINE))
    assert set(rows) == {field.name for field in fields(FilesSettings)}
    units = {"MiB": 1 << 20, "GiB": 1 << 30}
    for name, text in rows.items():
        number, _, unit = text.partition(" ")
        value = text.strip('`"') if name == "store" else float(number) * units.get(unit, 1)
        assert value == getattr(FilesSettings(), name), name


def test_the_example_of_settings_is_valid(tmp_path: Path) -> None:
    page = (TOP / "docs" / "how-to" / "settings.md").read_text("utf-8")
    (example,) = re.findall(r"^```toml\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    (tmp_path / ".takeback.toml").write_text(example, encoding="utf-8")
    loaded = config.load({"HOME": str(tmp_path)}, bytes(tmp_path))
    assert (loaded.files.tree_bytes, loaded.files.keep) == (1 << 30, 200)


def test_the_example_of_the_python_page_runs(repo: Project) -> None:
    page = (TOP / "docs" / "how-to" / "use-from-python.md").read_text("utf-8")
    (example,) = re.findall(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    before = repo.moment()
    out = repo.home.call(repo.root, *repo.home.python, "-c", example)
    lines = out.decode().splitlines()
    assert lines[0].startswith("c1 ")
    assert lines[1:] == ["[b'greeting.txt']", "takeback redo s1"]
    assert before.changes() == []


def test_the_readme_has_the_two_commands_and_where_the_benchmark_goes() -> None:
    page = (TOP / "README.md").read_text("utf-8")
    block = page.partition("## Try it")[2].partition("## Install")[0]
    assert re.findall(r"^scripts/\w+", block, re.MULTILINE) == ["scripts/demo", "scripts/test"]
    assert "`bench/files`" in page
    assert re.search(r"<!-- bench:start -->\n(.*\n)*<!-- bench:end -->", page)


@pytest.mark.parametrize(
    "name",
    ["README.md", "docs/how-to/sandboxes.md", "docs/how-to/try-a-step-in-a-copy.md", "docs/reference/sandboxes.md"],
)
def test_the_python_about_sandboxes_runs_and_prints_what_the_page_says(
    world: World, name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    blocks = re.findall(r"^```(\w*)\n(.*?)^```$", (TOP / name).read_text("utf-8"), re.MULTILINE | re.DOTALL)
    program = "\n".join(text for language, text in blocks if language == "python")
    shown = re.findall(r"^ *print\(.*\)  # (.*)$", program, re.MULTILINE)
    shown += [line for language, text in blocks if not language for line in text.splitlines()]
    monkeypatch.setattr(SandboxRecord, "default_client", staticmethod(lambda: world.client))
    exec(program, {})
    for info in Snapshots(world.client).list():
        Snapshots(world.client).delete(info["id"])
    assert shown
    assert sorted(capsys.readouterr().out.splitlines()) == sorted(shown)
