"""A project whose steps are held as a guarded run would hold them, in this process, on the real commands' data."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path

import pytest

from takeback import guard, judge
from takeback.app import holding
from takeback.app.project import Project as Opened
from takeback.guard.policy import Policy, decide
from takeback.holds.model import Answer, Hold, Request
from tests.support.cli import Home, Project


@dataclass
class Asker:
    """What an agent's hook does: ask, be held, ask again."""

    project: Project

    @property
    def root(self) -> str:
        return self.project.root

    def request(self, source: str, cwd: str = "", **more: str) -> Request:
        return Request(os.path.join(self.root, cwd) if cwd else self.root, source=source, **more)

    def hold(self, source: str | Request, cwd: str = "") -> Hold:
        """Hold shell source, or a request."""
        request = source if isinstance(source, Request) else self.request(source, cwd)
        with Opened.open(self.root) as opened:
            context = judge.context(request.cwd)
            if request.call is not None:
                call = json.loads(request.call)
                verdict = guard.classify_tool({"tool_name": call["tool"], "tool_input": call["input"]}, context)
            elif request.argv is not None:
                verdict = guard.classify_argv(request.argv, context)
            else:
                verdict = guard.classify(request.source or "", context)
            return holding.hold(opened, request, verdict, decide(verdict, Policy(), attended=False))

    def answer(self, source: str | Request, cwd: str = "") -> Answer | None:
        request = source if isinstance(source, Request) else self.request(source, cwd)
        with Opened.open(self.root) as opened:
            return holding.answer(opened, request)


@pytest.fixture
def asker(home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Asker:
    for name, value in home.env().items():
        monkeypatch.setenv(name, value)
    project = home.project(tmp_path / "project")
    project.write("README", "a project\n")
    project.sh("git init -q -b main && git add README && git commit -qm first")
    return Asker(project)


@pytest.fixture
def remote(asker: Asker, tmp_path: Path) -> Path:
    """A bare repository that `origin` names."""
    place = tmp_path / "remote.git"
    asker.project.home.git(tmp_path, "init", "-q", "--bare", str(place))
    asker.project.git("remote", "add", "origin", str(place))
    return place
