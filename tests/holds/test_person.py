"""The brake is not the agent's: who may approve, and who may not, whatever the way."""

from __future__ import annotations

from pathlib import Path

import pytest

from takeback.app.person import agent_name
from tests.cli.terminal import on_terminal
from tests.holds.conftest import Asker
from tests.support.person import at_own_terminal, by_program

SEND = "./deploy.sh"


@pytest.fixture
def held(asker: Asker) -> Asker:
    asker.project.write("deploy.sh", "#!/bin/sh\necho ran >> .git/count; echo it ran; exit 3\n", mode=0o755)
    asker.hold(SEND)
    return asker


def ran(asker: Asker) -> bool:
    return asker.project.exists(".git/count")


def test_a_person_at_a_terminal_approves(held: Asker) -> None:
    home = held.project.home
    done = at_own_terminal(home, held.root, "approve", "h1")
    assert done.code == 3, done.text
    assert "it ran\n" in done.text and "recorded as s" in done.text
    again = at_own_terminal(home, held.root, "approve", "h1")
    assert again.code == 1 and "does not wait: done, exit code 3" in again.text
    assert held.project.read(".git/count") == b"ran\n"


def test_a_person_at_a_terminal_denies(held: Asker) -> None:
    assert at_own_terminal(held.project.home, held.root, "deny", "h1", "--because", "no").code == 0
    assert held.answer(SEND).text == "a person denied this (h1): no"  # type: ignore[union-attr]


@pytest.mark.parametrize("words", [("approve", "h1"), pytest.param(("deny", "h1"), marks=pytest.mark.long)])
def test_without_a_terminal_nobody_answers(held: Asker, words: tuple[str, ...]) -> None:
    # A session of its own has no controlling terminal.
    process = held.project.start(*words, "--json", start_new_session=True)
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 1 and b'"not-a-person"' in out and b"no terminal" in out
    assert not ran(held) and held.answer(SEND).told == "waiting"  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("words", "mark"),
    [
        (("approve", "h1"), "TAKEBACK_STEP"),
        pytest.param(("deny", "h1"), "CLAUDECODE", marks=pytest.mark.long),
        pytest.param(("gc",), "TAKEBACK_STEP", marks=pytest.mark.long),
        (("pause", "1m"), "GEMINI_CLI"),
    ],
)
def test_a_step_of_an_agent_is_refused_by_its_mark(held: Asker, words: tuple[str, ...], mark: str) -> None:
    done = at_own_terminal(held.project.home, held.root, *words, env={mark: "1"})
    assert done.code == 1 and "only a person may do this" in done.text and mark in done.text
    assert not ran(held)


@pytest.mark.parametrize(
    "words",
    [
        ("approve", "h1"),
        pytest.param(("gc",), marks=pytest.mark.long),
        pytest.param(("pause",), marks=pytest.mark.long),
    ],
)
def test_an_agent_among_the_ancestors_is_refused(held: Asker, tmp_path: Path, words: tuple[str, ...]) -> None:
    done = by_program(held.project.home, held.root, tmp_path / "bin" / "claude", *words)
    assert done.code == 1 and "started by claude" in done.text
    assert not ran(held)


def test_an_agent_that_an_interpreter_runs_is_known_too(held: Asker, tmp_path: Path) -> None:
    script = tmp_path / "node_modules" / "@openai" / "codex" / "bin" / "run.js"
    done = by_program(held.project.home, held.root, tmp_path / "bin" / "node", "approve", "h1", script=script)
    assert done.code == 1 and "started by codex" in done.text


def test_a_terminal_that_a_program_made_is_refused(held: Asker, tmp_path: Path) -> None:
    done = by_program(held.project.home, held.root, tmp_path / "bin" / "script", "gc")
    assert done.code == 0, done.text  # gc needs no terminal
    home = held.project.home
    command = f"{home.python[0]} -m takeback approve h1"
    made = home.call(held.root, "script", "-qec", command, "/dev/null", check=False)
    assert b"the terminal was made by `script`" in made or b"started by" in made, made
    assert not ran(held)


def test_a_script_of_a_person_goes_on_without_a_terminal(held: Asker) -> None:
    held.project.checkpoint()
    for words in (("gc",), ("pause", "1m")):
        process = held.project.start(*words, start_new_session=True)
        _, error = process.communicate(timeout=60)
        assert process.returncode == 0, error
    assert on_terminal(held.project.home, held.root, "gc", "--yes")[0] == 0


@pytest.mark.parametrize(
    ("argv", "name"),
    [
        ("claude", "claude"),
        ("/home/me/.local/bin/claude --resume", "claude"),
        ("/home/me/.local/share/claude/versions/2.1.197 -p x", "claude"),
        ("node /usr/lib/node_modules/@anthropic-ai/claude-code/cli.js", "claude-code"),
        ("node --max-old-space-size=4096 /usr/local/bin/gemini", "gemini"),
        ("node --require x /opt/node_modules/opencode-ai/bin/opencode", "opencode"),
        ("npm exec @google/gemini-cli", "gemini-cli"),
        ("python3 -m aider", "aider"),
        ("/usr/bin/python3.12 /home/me/.local/bin/aider --yes", "aider"),
        ("bun run /home/me/bin/cursor-agent", "cursor-agent"),
        ("-bash", ""),
        ("vim claude", ""),
        ("git commit -m claude", ""),
        ("python3 train.py gemini", ""),
        ("node server.js", ""),
        ("sh install.sh codex", ""),
        ("tail -f /var/log/claude", ""),
        ("", ""),
    ],
)
def test_an_agent_is_known_by_its_words(argv: str, name: str) -> None:
    assert agent_name(tuple(argv.split())) == name
