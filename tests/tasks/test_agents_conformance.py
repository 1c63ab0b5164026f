"""What holds for every agent, shown with the real programs: they work unattended, and how they ended has its name."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from takeback.errors import AgentMissing, UnknownAgent
from takeback.host.headless import Runner
from takeback.tasks.agents import NAMES, Outcome, named
from tests.agents.support import bash
from tests.support.cli import Home
from tests.tasks.agent_desk import Desk, Entry, every_agent, git, hang, make, refusal

# How aider is told to make a file: as text, for it has no tools.
WHOLE = {"text": "I make it.\n\nmade.txt\n```\nhi\n```\n"}


@pytest.fixture
def desk(tmp_path: Path, home: Home) -> Iterator[Desk]:
    with Desk.opened(tmp_path, home) as made:
        yield made


def work(agent: str) -> list[Entry]:
    return [WHOLE] if agent == "aider" else [make("made.txt", "hi"), {"text": "All done."}]


@every_agent("claude", "command")
def test_an_agent_works_in_its_worktree_and_leaves_nothing_else(agent: str, desk: Desk) -> None:
    # Longer than one argument of a program may be.
    report = desk.ask(agent, work(agent), prompt="do it " + "and well " * 20_000)
    assert (report.outcome, report.exit, report.resets_at_ns, report.detail) == (Outcome.DONE, 0, None, "")
    assert (desk.worktree / "made.txt").read_text() == "hi\n"
    assert desk.changed() == {"made.txt"}
    assert ("I make it." if agent == "aider" else "All done.") in report.words
    assert (report.cost_usd is not None) == named(agent).tells_cost
    assert os.listdir(desk.said) == ["0"]
    assert report.words.splitlines()[0] in (desk.said / "0").read_text()


@every_agent("command", without=["aider"])
def test_what_an_agent_runs_knows_its_task_and_nothing_of_an_outer_git(agent: str, desk: Desk) -> None:
    # No $( ): Gemini CLI does not run such a command.
    told = bash("printenv TASK_ID ATTEMPT PWD > told; git rev-parse --show-toplevel >> told")
    report = desk.ask(agent, [told, {"text": "end"}], env={"GIT_DIR": "/nowhere", "PWD": "/", "OLDPWD": "/"})
    assert report.outcome is Outcome.DONE, report
    assert (desk.worktree / "told").read_text().split() == ["t-1", "2", str(desk.worktree), str(desk.worktree)]


@every_agent("command")
def test_an_agent_that_does_nothing_is_done_all_the_same(agent: str, desk: Desk) -> None:
    report = desk.ask(agent, [{"text": "There was nothing to do."}])
    assert (report.outcome, report.exit) == (Outcome.DONE, 0)
    assert "nothing to do" in report.words
    assert desk.changed() == set()


@every_agent("command", without=["aider"])
def test_an_agent_may_commit(agent: str, desk: Desk) -> None:
    commit = bash("echo x > own && git add own && git -c user.name=A -c user.email=a@b commit -qm own")
    # In its own sandbox Codex cannot write to the repository, which lies outside the worktree.
    free = ["--sandbox", "danger-full-access"] if agent == "codex" else []
    report = desk.ask(agent, [commit, {"text": "end"}], argv=[*free])
    assert report.outcome is Outcome.DONE, report
    assert git(desk.worktree, "log", "-1", "--format=%s") == "own\n"


@every_agent("command", without=["aider"])
def test_what_an_agent_leaves_running_is_ended(agent: str, desk: Desk) -> None:
    lingering = bash("(setsid sleep 1000 </dev/null >/dev/null 2>&1 &); echo made > made.txt")
    report = desk.ask(agent, [lingering, {"text": "end"}])
    assert report.outcome is Outcome.DONE, report
    assert desk.changed() == {"made.txt"}  # and the desk looks for what still runs


@every_agent("claude", "command")
def test_an_agent_that_hangs_is_stopped(agent: str, desk: Desk) -> None:
    report = desk.ask(agent, [hang()], timeout=1.0 if agent == "command" else 8.0 if agent != "claude" else 3.0)
    assert (report.outcome, report.exit) == (Outcome.TIMEOUT, None)
    assert "did not end within" in report.detail


REFUSALS = {
    "limit": (refusal(429, "rate_limit_error", "usage limit reached, it resets in 2h 5m"), Outcome.USAGE_LIMIT),
    "login": (refusal(401, "authentication_error", "invalid x-api-key"), Outcome.LOGIN_EXPIRED),
    "refused": (refusal(400, "invalid_request_error", "we do not do that"), Outcome.REFUSED),
    "overloaded": (refusal(529, "overloaded_error", "overloaded"), Outcome.CRASH),
}


@every_agent("command")
@pytest.mark.parametrize("why", REFUSALS)
def test_a_refusal_of_the_models_host_has_its_name(agent: str, why: str, desk: Desk) -> None:
    entry, expected = REFUSALS[why]
    timeout = 180.0
    if (agent, why) == ("opencode", "overloaded"):
        timeout = 45.0  # it repeats the request for long, and cannot be told not to
    report = desk.ask(agent, [entry], timeout=timeout)
    if (agent, why) == ("opencode", "overloaded") and report.outcome is Outcome.TIMEOUT:
        expected = Outcome.TIMEOUT
    assert report.outcome is expected, report
    assert report.detail
    assert (report.exit is None) == (expected is Outcome.TIMEOUT)
    if why != "limit":
        assert report.resets_at_ns is None


@every_agent("command")
def test_a_program_that_is_not_there_is_said_before_any_work(agent: str, desk: Desk) -> None:
    env = {"PATH": "/nowhere"}
    words = ["no-such-agent"] if agent == "command" else []
    with pytest.raises(AgentMissing) as told:
        named(agent).program(words, env, str(desk.worktree), Runner())
    assert f"`{words[0] if words else agent}`" in str(told.value)
    assert told.value.hint


def test_an_unknown_name_tells_the_nearest() -> None:
    with pytest.raises(UnknownAgent) as told:
        named("cluade")
    assert "'claude'" in told.value.hint_text
    assert all(name in told.value.hint_text for name in NAMES)
