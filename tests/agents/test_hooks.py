"""takeback in the real agent programs: what they wreck comes back, what must wait waits, and nothing passes unseen."""

from __future__ import annotations

from typing import Any

import pytest

from tests.agents import programs
from tests.agents.support import AGENTS, Driver, Scripted, bash, write
from tests.support.cli import Project

tiers = pytest.mark.parametrize(
    "agent",
    [pytest.param(one, marks=[pytest.mark.long] if programs.TIERS[one] == "long" else []) for one in AGENTS],
)


def initialised(drive: Driver, project: Project, agent: str) -> None:
    """Set takeback up for one agent in a project, with the agents of these tests on PATH."""
    drive.settle(agent)
    project.tb("init", "--agent", agent, env=drive.environment(agent))


def steps(project: Project) -> list[dict[str, Any]]:
    """Return the steps of a project, oldest first."""
    events = project.tb("log", "--limit", "100")["events"]
    return [event for event in reversed(events) if event["kind"] == "step"]


@tiers
def test_what_an_agent_wrecked_comes_back_byte_for_byte(
    agent: str, drive: Driver, scripted: Scripted, repo: Project
) -> None:
    initialised(drive, repo, agent)
    moment = repo.moment()
    wreck = "rm -r src && sed -i 's/Some/No/' README.md && echo gone > .env"
    ended = drive(agent, repo, scripted.play("wreck", [bash(wreck), write("new.txt", "new\n"), {"text": "end"}]))
    assert ended.code == 0, ended
    assert not repo.exists("src"), (ended, scripted.told("wreck"))
    assert repo.read("new.txt") == b"new\n"
    first, second = steps(repo)
    assert first["text"] == wreck
    repo.tb("undo", second["id"])
    assert not repo.exists("new.txt")
    assert not repo.exists("src")
    repo.tb("undo")
    # OpenCode keeps files of its own beside its plugins.
    assert [one for one in moment.changes() if ".opencode" not in one] == []
