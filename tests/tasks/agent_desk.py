"""A worktree, a scripted model, and every agent program ready to be asked as a task asks it.

desk.ask("codex", [bash("rm victim.txt"), {"text": "Done."}])
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest

from takeback.host import headless
from takeback.host.headless import Runner
from takeback.tasks.agents import NAMES, Report, Request, named
from tests.agents import programs
from tests.agents.support import Driver, Scripted
from tests.support.cli import Home
from tests.tasks import aider_program

# Only a guard against a program that hangs; no test measures time.
PATIENCE = 180.0
PLAIN = Path(__file__).with_name("plain_agent.py")

Entry = dict[str, Any]


def every_agent(*ordinary: str, without: Sequence[str] = ()) -> pytest.MarkDecorator:
    """Parametrize over all agents; those not named here run with the long tests only."""
    return pytest.mark.parametrize(
        "agent",
        [pytest.param(one, marks=[] if one in ordinary else [pytest.mark.long]) for one in NAMES if one not in without],
    )


def refusal(status: int, kind: str, message: str) -> Entry:
    """A turn that the model's host refuses; with a text too, or it would be left out for who offers no tools."""
    return {"status": status, "error": kind, "message": message, "text": "", "headers": {"retry-after": "1"}}


def hang() -> Entry:
    """A turn that takes longer than any test."""
    return {"sleep": 1000, "then": {"text": "late"}, "text": ""}


def make(path: str, line: str) -> Entry:
    """A turn that makes a file with one line, for programs with tools."""
    return {"tool": "Bash", "input": {"command": f"echo {line} > {path}", "description": "as scripted"}}


@dataclass
class Desk:
    """One worktree of a repository; what each run said is below `said`."""

    top: Path
    home: Home
    asked: list[Request] = field(default_factory=list)

    @classmethod
    @contextmanager
    def opened(cls, top: Path, home: Home) -> Iterator[Desk]:
        """Make the repository and its worktree; all runs must have left nothing behind."""
        desk = cls(top, home)
        project = top / "repository"
        git(top, "init", "-q", str(project))
        (project / "README.md").write_text("# Project\n")
        git(project, "add", ".")
        git(project, "commit", "-qm", "begin")
        git(project, "worktree", "add", "-q", "--detach", str(desk.worktree))
        desk.said.mkdir()
        desk.plain.mkdir()
        try:
            yield desk
            left = [one for request in desk.asked for one in headless._living(request.session, None)]
            assert left == [], "an agent left processes behind"
        finally:
            if "scripted" in vars(desk):
                desk.scripted.stop()

    @property
    def worktree(self) -> Path:
        return self.top / "worktree"

    @property
    def said(self) -> Path:
        return self.top / "said"

    @property
    def plain(self) -> Path:
        """The scripts of the program that needs no model."""
        return self.top / "plain"

    @cached_property
    def scripted(self) -> Scripted:
        """The scripted model, started when it is first needed; without it the test is skipped."""
        return Scripted(self.top / "model")

    @cached_property
    def driver(self) -> Driver:
        return Driver(self.scripted, self.home)

    def ask(
        self,
        agent: str,
        entries: Sequence[Entry],
        *,
        prompt: str = "do it",
        argv: Sequence[str] = (),
        env: Mapping[str, str] | None = None,
        timeout: float = PATIENCE,
        budget: float | None = None,
        runner: Runner | None = None,
    ) -> Report:
        """Run an agent on a script, as one attempt of a task. `argv` are more arguments of its program."""
        mark = self._play(agent, f"s{len(self.asked)}", entries)
        self.asked.append(self.request(agent, f"{prompt} {mark}", argv, env, timeout, budget))
        return named(agent).run(self.asked[-1], runner or Runner(grace=2.0))

    def _play(self, agent: str, name: str, entries: Sequence[Entry]) -> str:
        if agent != "command":
            return self.scripted.play(name, entries)
        (self.plain / f"{name}.json").write_text(json.dumps(list(entries)), "utf-8")
        return f"[[script:{name}]]"

    def request(
        self,
        agent: str,
        prompt: str = "do it",
        argv: Sequence[str] = (),
        env: Mapping[str, str] | None = None,
        timeout: float | None = PATIENCE,
        budget: float | None = None,
    ) -> Request:
        """Return what a task would ask of an agent, whose settings lead to the scripted model."""
        words, environment = self._settled(agent)
        return Request(
            prompt=prompt, cwd=str(self.worktree), task="t-1", attempt=2, argv=(*words, *argv), timeout=timeout,
            budget_usd=budget, env={**environment, **(env or {})}, output=str(self.said / str(len(self.asked))),
            session=str(uuid.uuid4()),
        )  # fmt: skip

    def _settled(self, agent: str) -> tuple[tuple[str, ...], dict[str, str]]:
        if agent == "command":
            return (sys.executable, str(PLAIN), str(self.plain)), self.home.env()
        if agent == "aider":
            env = self.driver.environment("claude") | {
                "ANTHROPIC_API_BASE": f"http://127.0.0.1:{self.scripted.port}",
                "LITELLM_LOCAL_MODEL_COST_MAP": "True",
            }
            words = ("--model", "anthropic/claude-3-5-sonnet-20241022", "--edit-format", "whole")
            return words, _first_on_path(env, aider_program.program())
        self.driver.settle(agent)
        words = ("-m", "gemini-2.5-flash") if agent == "gemini" else ()
        return words, _first_on_path(self.driver.environment(agent), programs.program(agent))

    def changed(self) -> set[str]:
        """Return the paths that differ from what the worktree began with, ignored ones too."""
        lines = git(self.worktree, "status", "--porcelain", "--ignored", "-uall").splitlines()
        return {line[3:] for line in lines}


def git(cwd: Path, *words: str) -> str:
    """Run git as nobody in particular, and return what it prints."""
    env = {
        "PATH": os.environ["PATH"], "HOME": str(cwd), "GIT_CONFIG_NOSYSTEM": "1", "GIT_AUTHOR_NAME": "A",
        "GIT_AUTHOR_EMAIL": "a@example.org", "GIT_COMMITTER_NAME": "A", "GIT_COMMITTER_EMAIL": "a@example.org",
    }  # fmt: skip
    return subprocess.run(["git", *words], cwd=cwd, env=env, check=True, capture_output=True, text=True).stdout


def _first_on_path(env: dict[str, str], program: Path) -> dict[str, str]:
    return {**env, "PATH": os.pathsep.join([str(program.parent), env["PATH"]])}
