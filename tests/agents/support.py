"""A scripted model on loopback, and ways to run each agent program against it in a scratch home.

Does not cover: installing them (see `programs`). A script is a JSON list with one entry a model turn, in the words of
`scripted_model.py`; tool names in it are Claude Code's, and each program gets its own tool for the same step:

    scripted.play("wreck", [bash("rm victim.txt"), edit("a.txt", "one", "two"), {"text": "Done."}])
    drive("codex", project, "go on [[script:wreck]]")
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.agents import programs
from tests.support.cli import Home, Project

# A tool of whoever develops takeback, found beside the clone as the labelled commands are.
MODEL = Path(__file__).resolve().parents[3] / "shared" / "tools" / "scripted_model.py"
AGENTS = tuple(programs.TIERS)
# Only a guard against a program that hangs; no test measures time.
PATIENCE = 120.0
_MARK = "AGENT_RUN"

Entry = dict[str, Any]


def bash(command: str) -> Entry:
    """A turn that runs a command in the agent's shell tool."""
    return {"tool": "Bash", "input": {"command": command, "description": "as scripted"}}


def write(path: str, content: str) -> Entry:
    """A turn that writes a whole file."""
    return {"tool": "Write", "input": {"file_path": path, "content": content}}


def edit(path: str, old: str, new: str) -> Entry:
    """A turn that replaces text in a file; Claude Code wants to have read the file before."""
    return {"tool": "Edit", "input": {"file_path": path, "old_string": old, "new_string": new}}


def read(path: str) -> Entry:
    """A turn that reads a file."""
    return {"tool": "Read", "input": {"file_path": path}}


def mcp(server: str, tool: str, **arguments: Any) -> Entry:
    """A turn that calls a tool of an MCP server."""
    return {"tool": f"mcp__{server}__{tool}", "input": arguments}


class Scripted:
    """The running model; `stop` ends it. Scripts may be added while it runs."""

    def __init__(self, folder: Path) -> None:
        if not MODEL.is_file():
            pytest.skip(f"the scripted model is not at {MODEL}")
        self._scripts, self._log = folder / "scripts", folder / "requests.jsonl"
        self._scripts.mkdir(parents=True)
        self._process = subprocess.Popen(
            [sys.executable, MODEL, "--port", "0", "--scripts", self._scripts, "--log", self._log],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
        )
        assert self._process.stdout is not None
        self.port = int(self._process.stdout.readline())

    def play(self, name: str, entries: Sequence[Entry]) -> str:
        """Write a script, and return the mark that makes a prompt play it."""
        (self._scripts / f"{name}.json").write_text(json.dumps(list(entries)), "utf-8")
        return f"[[script:{name}]]"

    def requests(self, script: str | None = None) -> list[dict[str, Any]]:
        """Return what was asked of the model, in order: `script`, `turn`, `told` (results of tools), `tools`."""
        lines = self._log.read_text("utf-8").splitlines() if self._log.is_file() else []
        return [one for one in map(json.loads, lines) if script is None or one["script"] == script]

    def told(self, script: str) -> str:
        """Return everything that tools and hooks reported to the model while a script played."""
        return "\n".join(text for request in self.requests(script) for text in request["told"])

    def stop(self) -> None:
        self._process.terminate()
        self._process.communicate()


@dataclass(frozen=True)
class Ended:
    """How an agent program ended."""

    agent: str
    code: int
    out: str
    err: str

    @property
    def documents(self) -> list[Any]:
        """The JSON it printed: one object, or one a line."""
        try:
            return [json.loads(self.out)]
        except ValueError:
            return [json.loads(line) for line in self.out.splitlines() if line.startswith("{")]


@dataclass(frozen=True)
class Driver:
    """Runs agent programs without a person, against one model, in one home."""

    scripted: Scripted
    home: Home

    def settle(self, agent: str) -> None:
        """Write the settings that lead a program to the scripted model; what is in the files already stays."""
        url = f"http://127.0.0.1:{self.scripted.port}"
        if agent == "codex":
            _add_codex(self.home.path / ".codex" / "config.toml", url)
        elif agent == "gemini":
            wanted = {"security": {"auth": {"selectedType": "gemini-api-key"}}, "general": {"maxAttempts": 1}}
            _add_json(self.home.path / ".gemini" / "settings.json", wanted)
        elif agent == "opencode":
            _add_json(self.home.path / ".config" / "opencode" / "opencode.json", _opencode(url))

    def environment(self, agent: str, more: Mapping[str, str] | None = None) -> dict[str, str]:
        """Return a program's whole environment; `takeback` of this test run is on its PATH."""
        url = f"http://127.0.0.1:{self.scripted.port}"
        env = self.home.env({"NO_PROXY": "127.0.0.1", **_ENVIRONMENT[agent]})
        env["PATH"] = os.pathsep.join([os.path.dirname(sys.executable), env["PATH"]])
        base = {"claude": "ANTHROPIC_BASE_URL", "gemini": "GOOGLE_GEMINI_BASE_URL"}.get(agent)
        return {**env, **({base: url} if base else {}), **(more or {})}

    def __call__(
        self,
        agent: str,
        project: Project | Path,
        prompt: str,
        *,
        args: Sequence[str] = (),
        env: Mapping[str, str] | None = None,
        trust_hooks: bool = True,
        timeout: float = PATIENCE,
    ) -> Ended:
        """Run one prompt to its end; whatever the program has left running is ended with it.

        `args` stand before the prompt. Without `trust_hooks`, Codex asks for the trust it would ask for.
        """
        self.settle(agent)
        flags = [*_FLAGS[agent][1], *args]
        if agent == "codex" and trust_hooks:
            flags += ["--trust", "--dangerously-bypass-hook-trust"]
        last = ["-p", prompt] if agent in ("claude", "gemini") else [prompt]
        argv = [str(programs.program(agent)), *_FLAGS[agent][0], *flags, *last]
        root = project.root if isinstance(project, Project) else project
        mark = uuid.uuid4().hex
        process = subprocess.Popen(
            argv,
            cwd=root,
            env={**self.environment(agent, env), _MARK: mark},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
            **self.home.account.process(),
        )
        try:
            out, err = process.communicate(timeout=timeout)
        finally:
            _end_marked(mark)
            process.communicate()
        return Ended(agent, process.returncode, out.decode("utf-8", "replace"), err.decode("utf-8", "replace"))


# agent: (words right behind the program, flags)
_FLAGS: dict[str, tuple[list[str], list[str]]] = {
    "claude": ([], ["--output-format", "json", "--permission-mode", "bypassPermissions"]),
    "codex": (["exec"], ["--json", "-s", "danger-full-access"]),
    "gemini": ([], ["-m", "gemini-2.5-flash", "--output-format", "json", "--yolo"]),
    "opencode": (["run"], ["--format", "json"]),
}
_ENVIRONMENT = {
    "claude": {
        "ANTHROPIC_API_KEY": "test",
        "IS_SANDBOX": "1",  # as root too
        "DISABLE_AUTOUPDATER": "1",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "CLAUDE_CODE_MAX_RETRIES": "1",
    },
    "codex": {"SCRIPTED_KEY": "test"},
    "gemini": {
        "GEMINI_API_KEY": "test",
        "GEMINI_CLI_TRUST_WORKSPACE": "true",
        "GEMINI_CLI_NO_RELAUNCH": "true",
    },
    # Offline, or a plugin makes it wait for the package registry.
    "opencode": {
        "OPENCODE_DISABLE_MODELS_FETCH": "1",
        "OPENCODE_DISABLE_AUTOUPDATE": "1",
        "npm_config_offline": "true",
    },
}
# The model's name decides Codex's tools: this one is offered exec_command and apply_patch.
_CODEX = """model = "gpt-5.5"
model_provider = "scripted"
"""
# Without analytics: five seconds are lost at the exit when there is no network.
_CODEX_TABLES = """
[model_providers.scripted]
name = "scripted"
base_url = "{url}/v1"
wire_api = "responses"
env_key = "SCRIPTED_KEY"
request_max_retries = 0
stream_max_retries = 0

[analytics]
enabled = false
"""


def _opencode(url: str) -> dict[str, Any]:
    model = {"limit": {"context": 200000, "output": 8000}}
    options = {"baseURL": f"{url}/v1", "apiKey": "test"}
    provider = {"npm": "@ai-sdk/anthropic", "options": options, "models": {"scripted": model}}
    return {
        "model": "scripted/scripted",
        "autoupdate": False,
        "share": "disabled",
        "provider": {"scripted": provider},
    }


def _add_codex(path: Path, url: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    there = path.read_text("utf-8") if path.is_file() else ""
    if "model_provider" not in there:  # keys of the top before every table
        path.write_text(_CODEX + there + _CODEX_TABLES.format(url=url), "utf-8")


def _add_json(path: Path, wanted: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    there = json.loads(path.read_text("utf-8")) if path.is_file() else {}
    merged = _merged(there, wanted)
    if merged != there:
        path.write_text(json.dumps(merged, indent=2), "utf-8")


def _merged(old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    both = {key: _merged(old[key], value) for key, value in new.items() if isinstance(old.get(key), dict)}
    return {**old, **new, **both}


def _end_marked(mark: str) -> None:
    """End every process that has the run's mark in its environment, also those in groups of their own."""
    wanted = f"{_MARK}={mark}".encode()
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if wanted in (entry / "environ").read_bytes().split(b"\0"):
                os.kill(int(entry.name), signal.SIGKILL)
        except OSError:
            continue
