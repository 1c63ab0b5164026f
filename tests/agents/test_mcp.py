"""Real agent programs start `takeback mcp`, are offered its tools, and take back with them what they did."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable

import pytest

from tests.agents.support import Driver, Scripted, mcp
from tests.support.cli import Project

# Else Claude Code begins before its servers answer; the model is then told to wait for them.
_WAIT = {"MCP_CONNECTION_NONBLOCKING": "0"}
COMMAND, ARGS = sys.executable, ["-m", "takeback", "mcp"]


def claude(drive: Driver) -> list[str]:
    servers = {"mcpServers": {"tb": {"command": COMMAND, "args": ARGS}}}
    return ["--strict-mcp-config", "--mcp-config", json.dumps(servers)]


def codex(drive: Driver) -> list[str]:
    # It passes on few variables of its environment, and begins without a server that is not `required`.
    entry = {
        "command": COMMAND,
        "args": ARGS,
        "env_vars": ["TAKEBACK_HOME"],
        "startup_timeout_sec": 60,
        "required": True,
    }
    return [word for key, value in entry.items() for word in ("-c", f"mcp_servers.tb.{key}={json.dumps(value)}")]


def gemini(drive: Driver) -> list[str]:
    drive.add("gemini", {"mcpServers": {"tb": {"command": COMMAND, "args": ARGS, "timeout": 60000}}})
    return []


def opencode(drive: Driver) -> list[str]:
    drive.add("opencode", {"mcp": {"tb": {"type": "local", "command": [COMMAND, *ARGS], "enabled": True}}})
    return []


@pytest.mark.parametrize(
    "connect",
    [claude, *(pytest.param(one, marks=pytest.mark.long) for one in (codex, gemini, opencode))],
)
def test_an_agent_takes_back_its_own_step(
    connect: Callable[[Driver], list[str]], drive: Driver, scripted: Scripted, repo: Project
) -> None:
    before = repo.tree()
    calls = [mcp("tb", "run", command="rm -rf src; echo it is gone"), mcp("tb", "undo"), mcp("tb", "log", limit=5)]
    mark = scripted.play("regret", [*calls, {"text": "end"}])
    ended = drive(connect.__name__, repo, f"go on {mark}", args=connect(drive), env=_WAIT)
    assert ended.code == 0, ended
    told = scripted.told("regret")
    assert "it is gone" in told and "takeback redo s1" in told, (ended, told)
    assert repo.tree() == before
    assert [event["kind"] for event in repo.tb("log")["events"] if event["kind"] in ("step", "undo")] == [
        "undo",
        "step",
    ]
