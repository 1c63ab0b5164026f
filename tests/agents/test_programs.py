"""Each agent program runs its own tools with the scripted model's replies; the versions are the pinned ones."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests.agents import programs
from tests.agents.support import AGENTS, Driver, Scripted, bash, edit, read
from tests.support.cli import Project, wait_for

tiers = pytest.mark.parametrize(
    "agent",
    [pytest.param(one, marks=[pytest.mark.long] if programs.TIERS[one] == "long" else []) for one in AGENTS],
)


@tiers
def test_an_agent_deletes_and_edits_with_its_own_tools(
    agent: str, drive: Driver, scripted: Scripted, repo: Project
) -> None:
    repo.write("victim.txt", "precious\n")
    mark = scripted.play(
        "wreck",
        [bash("rm victim.txt"), read("README.md"), edit("README.md", "Some words.", "Others."), {"text": "end"}],
    )
    ended = drive(agent, repo, f"do it {mark}")
    assert ended.code == 0, ended
    assert not repo.exists("victim.txt")
    assert repo.read("README.md") == b"# Project\n\nOthers.\n"
    assert ended.documents, ended
    assert max(request["turn"] for request in scripted.requests("wreck")) == 3


@tiers
def test_an_agent_has_the_version_that_is_pinned(agent: str, drive: Driver) -> None:
    argv = [str(programs.program(agent)), "--version"]
    said = subprocess.run(argv, check=True, capture_output=True, text=True, env=drive.environment(agent), timeout=60)
    assert programs.version(agent) in said.stdout


@pytest.mark.parametrize("tier", sorted(set(programs.TIERS.values())))
def test_the_lock_files_name_no_registry(tier: str) -> None:
    lock = json.loads((programs.HERE / tier / "package-lock.json").read_text("utf-8"))
    assert [name for name, package in lock["packages"].items() if "resolved" in package] == []


def test_a_process_that_left_the_group_of_its_agent_is_ended_with_it(
    drive: Driver, scripted: Scripted, repo: Project
) -> None:
    lingering = (
        "setsid -f sh -c 'echo $$ > pid; exec sleep 300' </dev/null >/dev/null 2>&1; until [ -s pid ]; do :; done"
    )
    drive("codex", repo, scripted.play("linger", [bash(lingering)]))
    status = Path(f"/proc/{int(repo.read('pid'))}/status")

    def gone() -> bool:
        try:
            return "State:\tZ" in status.read_text("utf-8")
        except (FileNotFoundError, ProcessLookupError):
            return True

    wait_for(gone)
