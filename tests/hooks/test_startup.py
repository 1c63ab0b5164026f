"""What a hook imports before it saves anything. No time is measured here."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from tests.support.cli import Project

HEAVY = {"click", "rich", "tomlkit", "platformdirs", "sqlite3", "asyncio", "argparse", "importlib.metadata"}


def loaded(project: Project, call: dict[str, object]) -> set[str]:
    """Return the modules that were imported to decide about a call, by the parent and its child."""
    source = (
        "import sys, json; before = set(sys.modules)\n"
        "import takeback.hooks.__main__ as hook\n"
        "from takeback.hooks import work, claude\n"
        "call = json.loads(sys.argv[1])\n"
        "from takeback.app import hooked\n"
        "hooked._open = lambda call: sys.exit(print(json.dumps(sorted(set(sys.modules) - before))))\n"
        "work.reply(claude.HOST, 'PreToolUse', call)\n"
        "print(json.dumps(sorted(set(sys.modules) - before)))\n"
    )
    path = os.pathsep.join(one for one in sys.path if one)
    done = subprocess.run(
        [sys.executable, "-S", "-c", source, json.dumps({**call, "cwd": project.root})],
        env={**project.home.env(), "PYTHONPATH": path},
        capture_output=True,
        check=True,
    )
    return set(json.loads(done.stdout))


@pytest.mark.parametrize(
    ("call", "parses"),
    [
        ({"tool_name": "Write", "tool_input": {"file_path": "a.txt", "content": "x"}}, False),
        ({"tool_name": "Bash", "tool_input": {"command": "rm a.txt && ls"}}, True),
    ],
)
def test_deciding_about_a_step_imports_little_and_the_grammar_for_shell_source_only(
    repo: Project, call: dict[str, object], parses: bool
) -> None:
    found = loaded(repo, call)
    assert not found & HEAVY
    assert not {name for name in found if name.startswith(("takeback.cli", "takeback.files.scan", "takeback.store"))}
    assert ("tree_sitter" in found) == parses
    assert len(found) < 160, sorted(found)
