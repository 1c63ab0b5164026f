"""`takeback explain` and its second name `check`: exit codes, the drawing, JSON, tool calls, bad input."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.cli.golden_file import Golden
from tests.cli.test_startup import modules_after
from tests.support.cli import PATIENCE, Project, Result


def explain(project: Project, *args: str, as_json: bool = False, name: str = "explain") -> Result:
    return project.tb(name, *args, as_json=as_json, check=False)


def explain_call(project: Project, text: str) -> tuple[int, dict[str, Any]]:
    """Return the exit code and the JSON for a tool call on stdin."""
    process = project.home.start(project.root, "explain", "--json", "--tool-call", "-", stdin=subprocess.PIPE)
    out, _ = process.communicate(text.encode(), timeout=PATIENCE)
    return process.returncode, json.loads(out)


@pytest.mark.parametrize(
    ("source", "code", "cls"),
    [
        ("git status", 0, "none"),
        ("rm README.md", 10, "files"),
        ("rm -rf node_modules && git config a.b c", 11, "state"),
        ("rm -rf /etc/x", 12, "machine"),
        ("cd x; git push", 13, "outside"),
    ],
)
def test_the_exit_code_is_the_class(repo: Project, source: str, code: int, cls: str) -> None:
    for name in ("explain", "check"):
        said = explain(repo, source, as_json=True, name=name)
        assert (said.code, said["class"]) == (code, cls)


def test_several_words_are_a_command_without_a_shell(repo: Project) -> None:
    assert explain(repo, "--", "echo", "$(git push)").code == 0
    assert explain(repo, "--", "git", "push", "--force").code == 13
    assert explain(repo, "echo $(git push)").code == 13


def test_the_json_has_its_fields(repo: Project) -> None:
    said = explain(repo, "curl -X POST https://api.example.com/x", as_json=True)
    assert set(said.json) == {"schema", "class", "reason", "why", "checkpoint", "brake", "effects"}
    (effect,) = said["effects"]
    assert (effect["what"], effect["method"], effect["target"]) == ("network", "POST", "api.example.com")
    assert (said["checkpoint"], said["reason"], said["brake"]) == (None, None, False)
    assert explain(repo, "pytest", as_json=True)["reason"] == "opaque"


DRAWN = {
    "several.txt": "cd src && CMD=push; sudo git $CMD > out.txt\nfind . -name '*.pyc' -exec rm {} +; takeback pause",
    "inside.txt": "bash -c 'echo x > /etc/y' | python -c \"import os; os.remove('a')\"; f() { npm ci; }; f; echo `ls`",
    "one.txt": "git status",
}


@pytest.mark.parametrize("name", DRAWN)
def test_the_drawing_shows_each_command_with_its_effects(repo: Project, pytestconfig: pytest.Config, name: str) -> None:
    drawings = Golden.of(pytestconfig, Path(__file__).parent / "drawings")
    drawings.check(name, explain(repo, DRAWN[name]).out.decode())


def test_no_byte_of_a_command_moves_the_cursor(repo: Project) -> None:
    assert b"\x1b" not in explain(repo, "echo $'\\x1b[2J' '\x1b[2J'; x\x1b[2J").out


def test_a_tool_call_comes_from_stdin_or_a_file(repo: Project) -> None:
    call = json.dumps({"tool_name": "Bash", "tool_input": {"command": "git push"}})
    assert explain_call(repo, call)[0] == 13
    (Path(repo.root) / "call.json").write_text(call)
    assert explain(repo, "--tool-call", "call.json").code == 13


@pytest.mark.parametrize("text", ["", "{", "[]", "3", '"x"', "[" * 100_000])
def test_what_is_no_tool_call_is_a_clear_error(repo: Project, text: str) -> None:
    code, said = explain_call(repo, text)
    assert (code, said["error"]["kind"]) == (2, "usage")


def test_a_command_or_a_tool_call_must_be_named_and_not_both(repo: Project) -> None:
    assert explain(repo).code == 2
    assert explain(repo, "--tool-call", "-", "ls").code == 2
    assert explain(repo, "--tool-call", "missing.json").code == 2


def test_nothing_runs_and_no_project_is_made(repo: Project) -> None:
    explain(repo, "touch made; git add -A")
    assert not (Path(repo.root) / "made").exists()
    assert not repo.home.data.exists()


def test_other_commands_start_without_the_classifier() -> None:
    assert not {name for name in modules_after("explain", "--help") if "tree_sitter" in name or "guard" in name}
    loaded = modules_after("explain", "--", "git", "status")
    assert not loaded & {"takeback.app", "sqlite3", "rich", "takeback.guard.other_code", "takeback.guard.toolcalls"}


def test_rules_of_the_user_count_more_than_those_that_come_with_takeback(repo: Project) -> None:
    rules = repo.home.settings.parent / "rules"
    rules.mkdir(parents=True)
    (rules / "mine.rules").write_text("@ our-deploy\nnone: status\noutside: .\n")
    assert explain(repo, "our-deploy status").code == 0
    assert explain(repo, "our-deploy now").code == 13
    (rules / "mine.rules").write_text("@ our-deploy\nnone: status\nharmless: .\n")
    said = explain(repo, "ls", as_json=True)
    assert (said.code, said.error) == (2, "bad-setting")
    assert "mine.rules, line 3: there is no deed 'harmless'" in said["error"]["message"]
