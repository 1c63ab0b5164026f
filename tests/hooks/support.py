"""Real inputs of each host, as recorded from the programs, sent to the real `takeback-hook`."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tests.support.cli import PATIENCE, Project


@dataclass(frozen=True)
class Answered:
    """What a hook answered."""

    code: int
    out: str
    err: str

    @property
    def context(self) -> str:
        """What the model is told."""
        return str(json.loads(self.out)["hookSpecificOutput"]["additionalContext"]) if self.out else ""


def raw(project: Project, host: str, event: str, feed: bytes, *, cwd: str | None = None, **env: str) -> Answered:
    """Send bytes to the hook of a host."""
    done = subprocess.run(
        [sys.executable, "-m", "takeback.hooks", host, event],
        input=feed,
        cwd=cwd or "/",
        env=project.home.env(env),
        capture_output=True,
        timeout=PATIENCE,
        **project.home.account.process(),
    )
    return Answered(done.returncode, done.stdout.decode(), done.stderr.decode())


def send(project: Project, host: str, event: str, data: Mapping[str, Any], **env: str) -> Answered:
    """Send an event in the project; `data` wins over what every event has."""
    common = {"session_id": "0199-session-one", "cwd": project.root, "hook_event_name": event}
    return raw(project, host, event, json.dumps({**common, **data}).encode(), **env)


def bash(command: str, call: str = "T", **more: Any) -> dict[str, Any]:
    """Return the fields of a shell call of Claude Code or Codex."""
    return {"tool_name": "Bash", "tool_input": {"command": command}, "tool_use_id": call, **more}


class Agent:
    """An agent that does steps through its hooks: before, the deed, after."""

    def __init__(self, project: Project, host: str = "claude", session: str = "0199-session-one") -> None:
        self.project = project
        self.host = host
        self.session = session
        self._calls = 0

    def send(self, event: str, **data: Any) -> Answered:
        return send(self.project, self.host, event, {"session_id": self.session, **data})

    def before(self, command: str, call: str) -> Answered:
        return self.send("PreToolUse", **bash(command, call))

    def after(self, command: str, call: str) -> Answered:
        return self.send("PostToolUse", **bash(command, call), tool_response={"stdout": "", "stderr": ""})

    def run(self, command: str) -> Answered:
        """Do one shell step; returns what was answered before it, and runs it only when that was no "no"."""
        self._calls += 1
        call = f"T{self._calls}"
        answered = self.before(command, call)
        if answered.code == 0:
            self.project.sh(command)
            self.after(command, call)
        return answered

    def write(self, path: str, content: str) -> Answered:
        """Do one step with the tool that writes files."""
        self._calls += 1
        call = f"T{self._calls}"
        given = {"file_path": f"{self.project.root}/{path}", "content": content}
        data = {"tool_name": "Write", "tool_input": given, "tool_use_id": call}
        answered = self.send("PreToolUse", **data)
        if answered.code == 0:
            self.project.write(path, content)
            self.send("PostToolUse", **data, tool_response={"filePath": path})
        return answered
