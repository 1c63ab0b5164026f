"""The manifests of `integrations/` say the same as `takeback init` does, and each host takes them."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from takeback._version import VERSION
from tests.agents import programs
from tests.agents.support import Driver, Scripted, mcp
from tests.support.cli import Project

TOP = Path(__file__).resolve().parents[2]
INTEGRATIONS = TOP / "integrations"
HOOKS = {
    "claude": "claude/takeback/hooks/hooks.json",
    "codex": "codex/plugins/takeback/hooks/hooks.json",
    "gemini": "gemini/hooks/hooks.json",
}
TEXTS = {
    "claude": ["claude/takeback/commands/undo.md"],
    "gemini": ["gemini/commands/undo.toml"],
    "opencode": ["opencode/plugins/takeback.js", "opencode/commands/takeback-undo.md"],
}
STARTED = ["takeback", "mcp"]


def read(name: str) -> Any:
    return json.loads((INTEGRATIONS / name).read_text("utf-8"))


def test_every_manifest_has_the_version_of_the_package() -> None:
    manifests = [path for path in INTEGRATIONS.rglob("*.json") if path.name in ("plugin.json", "gemini-extension.json")]
    assert [json.loads(path.read_text("utf-8"))["version"] for path in manifests] == [VERSION] * 3


def test_every_manifest_starts_the_same_server() -> None:
    entries = [
        read("claude/takeback/.mcp.json")["mcpServers"]["takeback"],
        read("codex/plugins/takeback/.mcp.json")["mcpServers"]["takeback"],
        read("gemini/gemini-extension.json")["mcpServers"]["takeback"],
    ]
    assert [[entry["command"], *entry["args"]] for entry in entries] == [STARTED] * 3
    assert read("opencode/opencode.json")["mcp"]["takeback"]["command"] == STARTED


@pytest.mark.parametrize("agent", sorted({*HOOKS, *TEXTS}))
def test_a_plugin_holds_what_init_installs(agent: str, request: pytest.FixtureRequest) -> None:
    """`pytest tests/cli tests/agents/test_integrations.py --update-golden` writes the files anew."""
    places = pytest.importorskip("takeback.app.agents.places")
    installing = pytest.importorskip("takeback.app.agents.installing")
    pieces = installing.AGENTS[agent].pieces(places.Where(Path("/home"), {}, None, "takeback-hook"))
    wanted = dict(zip(TEXTS.get(agent, []), [piece.text for piece in pieces if piece.text], strict=True))
    for groups in (piece.hooks for piece in pieces if piece.hooks):
        hooks = {event: [group] for event, group in groups.items()}
        wanted[HOOKS[agent]] = json.dumps({"hooks": hooks}, indent=2) + "\n"
    if request.config.getoption("--update-golden", default=False):
        for name, text in wanted.items():
            (INTEGRATIONS / name).write_text(text, "utf-8")
    assert {name: (INTEGRATIONS / name).read_text("utf-8") for name in wanted} == wanted


def test_the_registry_is_told_what_the_package_is() -> None:
    # The rules of the schema the file names, and of the registry on top, as far as they concern this file.
    server = json.loads((TOP / "server.json").read_text("utf-8"))
    assert re.fullmatch(r"[a-zA-Z0-9.-]+/[a-zA-Z0-9._-]+", server["name"]) and len(server["name"]) <= 200
    assert 1 <= len(server["description"]) <= 100
    assert set(server) <= {"$schema", "name", "title", "description", "version", "packages"}
    (package,) = server["packages"]
    assert server["version"] == package["version"] == VERSION
    assert (package["registryType"], package["identifier"]) == ("pypi", "takeback")
    assert package["transport"] == {"type": "stdio"}
    assert [argument["value"] for argument in package["packageArguments"]] == STARTED[1:]
    assert f"mcp-name: {server['name']}" in (TOP / "README.md").read_text("utf-8")


def ask(drive: Driver, agent: str, *words: str) -> str:
    """Run a command of an agent program that speaks to no model, and return what it says."""
    done = subprocess.run(
        [str(programs.program(agent)), *words],
        env=drive.environment(agent),
        cwd=drive.home.path,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done
    return done.stdout + done.stderr


@pytest.mark.long
def test_claude_code_finds_its_manifests_valid(drive: Driver) -> None:
    for folder in ("claude", "claude/takeback"):
        assert "Validation passed" in ask(drive, "claude", "plugin", "validate", str(INTEGRATIONS / folder))


@pytest.mark.long
def test_gemini_cli_finds_its_extension_valid(drive: Driver) -> None:
    said = ask(drive, "gemini", "extensions", "validate", str(INTEGRATIONS / "gemini"))
    assert "successfully validated" in said


def claude(drive: Driver) -> str:
    ask(drive, "claude", "plugin", "marketplace", "add", str(INTEGRATIONS / "claude"))
    ask(drive, "claude", "plugin", "install", "takeback@takeback")
    return "plugin_takeback_takeback"


def codex(drive: Driver) -> str:
    drive.settle("codex")
    ask(drive, "codex", "plugin", "marketplace", "add", str(INTEGRATIONS / "codex"))
    ask(drive, "codex", "plugin", "add", "takeback@takeback")
    return "takeback"


def gemini(drive: Driver) -> str:
    if not (Path(sys.executable).parent / "takeback-hook").exists():
        pytest.skip("a hook whose program is missing blocks the prompt in Gemini CLI")
    drive.settle("gemini")
    ask(drive, "gemini", "extensions", "link", str(INTEGRATIONS / "gemini"), "--consent")
    return "takeback"


def opencode(drive: Driver) -> str:
    drive.add("opencode", read("opencode/opencode.json"))
    return "takeback"


@pytest.mark.long
@pytest.mark.parametrize("install", [claude, codex, gemini, opencode])
def test_an_installed_plugin_brings_its_tools(
    install: Callable[[Driver], str], drive: Driver, scripted: Scripted, repo: Project
) -> None:
    # Where every host finds takeback's data without being told.
    drive.home.extra["TAKEBACK_HOME"] = str(drive.home.path / ".local" / "share" / "takeback")
    server = install(drive)
    mark = scripted.play("look", [mcp(server, "checkpoint", message="from a plugin"), {"text": "end"}])
    ended = drive(install.__name__, repo, f"go on {mark}", env={"MCP_CONNECTION_NONBLOCKING": "0"})
    assert ended.code == 0, ended
    assert "from a plugin" in [event["text"] for event in repo.tb("log")["events"]], (ended, scripted.told("look"))
