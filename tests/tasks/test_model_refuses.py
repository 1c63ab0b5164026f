"""Tasks given to Claude Code whose model refuses: what passes by itself is waited for, and nothing is lost meanwhile.

Does not cover: how each agent program tells of it (`test_agents_conformance`, `test_agents_own_ways`).
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.agents import programs
from tests.agents.support import Driver, Scripted, bash
from tests.support.cli import Home, Project, Result
from tests.tasks.agent_desk import refusal
from tests.tasks.shop import CHECK, log, nothing_left, show

pytestmark = pytest.mark.long
_PATIENT = {"CLAUDE_CODE_MAX_RETRIES": "3"}
_WORK = bash("echo 'x = 1' > new.py")


class Claude:
    """Gives tasks to Claude Code, whose model plays entries."""

    def __init__(self, home: Home, top: Path) -> None:
        self.scripted = Scripted(top / "model")
        self._driver = Driver(self.scripted, home)

    def env(self, more: dict[str, str]) -> dict[str, str]:
        env = self._driver.environment("claude") | more
        return env | {"PATH": os.pathsep.join([str(programs.program("claude").parent), env["PATH"]])}

    def do(self, project: Project, entries: list[dict[str, Any]], *more: str, **env: str) -> Result:
        mark = self.scripted.play("work", entries)
        words = ("--id", "x", "--prompt", f"Do it {mark}", "--verify", CHECK, "--agent", "claude", *more)
        return project.tb("task", "run", *words, check=False, env=self.env(env))


@pytest.fixture
def claude(home: Home, tmp_path: Path) -> Iterator[Claude]:
    made = Claude(home, tmp_path)
    yield made
    made.scripted.stop()


def _refused(status: int, kind: str, then: dict[str, Any], times: int, **headers: str) -> dict[str, Any]:
    entry = refusal(status, kind, kind)
    entry["headers"] = {"retry-after": "1", **{name.replace("_", "-"): value for name, value in headers.items()}}
    return {**entry, "times": times, "then": then}


def test_an_overload_that_passes_costs_no_attempt(shop: Project, claude: Claude) -> None:
    done = claude.do(shop, [_refused(529, "overloaded_error", _WORK, 2)], "--attempts", "1", **_PATIENT)
    assert (done.code, done["outcome"]) == (0, "landed"), done.text
    assert [one["outcome"] for one in done["attempts"]] == ["passed"]
    assert show(shop, "takeback/x", "new.py") == b"x = 1\n"
    nothing_left(shop)


def test_an_overload_that_stays_fails_the_task_and_leaves_nothing(shop: Project, claude: Claude) -> None:
    before = shop.moment()
    done = claude.do(shop, [_WORK, refusal(529, "overloaded_error", "overloaded")], "--attempts", "2")
    assert (done.code != 0, done["outcome"]) == (True, "failed"), done.text
    assert [one["outcome"] for one in done["attempts"]] == ["crash", "crash"]
    assert all("overloaded" in one["reason"] for one in done["attempts"])
    # What it had done is kept: each attempt is a checkpoint and a patch.
    assert all(b"new.py" in Path(one["diff"]).read_bytes() for one in done["attempts"])
    assert shop.moment() == before
    nothing_left(shop)


def test_a_usage_limit_is_waited_for_and_gives_the_attempt_back(shop: Project, claude: Claude) -> None:
    until = int(time.time()) + 25
    limit = _refused(
        429, "rate_limit_error", _WORK, 1, x_should_retry="false",
        anthropic_ratelimit_unified_status="rejected", anthropic_ratelimit_unified_reset=str(until),
        anthropic_ratelimit_unified_representative_claim="five_hour",
    )  # fmt: skip
    login = {"ANTHROPIC_API_KEY": "", "CLAUDE_CODE_OAUTH_TOKEN": "sk-ant-oat01-test"}
    done = claude.do(shop, [limit], "--attempts", "1", **login)
    assert (done.code, done["outcome"]) == (0, "landed"), done.text
    assert [one["outcome"] for one in done["attempts"]] == ["usage-limit", "passed"]
    assert time.time() >= until
    nothing_left(shop)


def test_an_expired_login_stops_the_task_and_it_goes_on_after_the_next(shop: Project, claude: Claude) -> None:
    before = shop.moment()
    done = claude.do(shop, [refusal(401, "authentication_error", "invalid x-api-key")], "--attempts", "1")
    assert (done.code != 0, done["outcome"]) == (True, "login-expired"), done.text
    assert shop.moment() == before
    again = shop.tb("task", "resume", "x", check=False, env=claude.env({}))
    assert (again.code != 0, again["outcome"]) == (True, "login-expired"), again.text
    claude.scripted.play("work", [_WORK])
    landed = shop.tb("task", "resume", "x", check=False, env=claude.env({}))
    assert (landed.code, landed["outcome"]) == (0, "landed"), landed.text
    assert log(shop, "takeback/x")[1:] == ["first"]
    nothing_left(shop)
