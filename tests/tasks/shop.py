"""A small project to do tasks in, and programs that play an agent: shell source, run for real.

Does not cover: agents with a model of their own (`test_agents_*`).
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.support.cli import Home, Project, Result

CHECK = "sh check.sh"


def make(home: Home, root: Path) -> Project:
    """Make a repository of one commit: a program, its test, a check that passes, `.env` and a database git ignores."""
    project = home.project(root)
    project.write("app.py", "def price(amount):\n    return amount * 2\n")
    project.write("tests/test_app.py", "from app import price\n\n\ndef test_price():\n    assert price(2) == 4\n")
    project.write("check.sh", "test -f app.py && ! test -f broken\n")
    project.write("CLAUDE.md", "Be kind.\n")
    project.write(".gitignore", ".env\n*.db\ncache/\n")
    project.git("init", "-q", "-b", "main")
    project.git("add", "-A")
    project.git("commit", "-q", "-m", "first")
    project.write(".env", "TOKEN=1\n", mode=0o600)
    project.write("data/local.db", b"not really a database\0\1\2")
    return project


def task(project: Project, id: str, script: str, *more: str, check: bool = True, **options: Any) -> Result:
    """Run a task whose agent is shell source."""
    words = ["task", "run", "--id", id, "--prompt", f"Do {id}"]
    if "--verify" not in more:
        words += ["--verify", CHECK]
    return project.tb(*words, *more, "--", "sh", "-c", script, check=check, **options)


def show(project: Project, rev: str, path: str) -> bytes:
    """Return a file of a commit."""
    return project.git("show", f"{rev}:{path}")


def tip(project: Project, branch: str) -> str:
    return project.git("rev-parse", "-q", "--verify", f"refs/heads/{branch}", check=False).decode().strip()


def log(project: Project, branch: str) -> list[str]:
    """Return the subjects of a branch's commits, newest first."""
    return project.git("log", "--format=%s", branch).decode().splitlines()


def trailers(project: Project, commit: str) -> dict[str, str]:
    lines = project.git("log", "-1", "--format=%(trailers:only=true)", commit).decode().splitlines()
    return dict(line.split(": ", 1) for line in lines if line)


def folder(project: Project, id: str) -> Path:
    """Return where a task's record is."""
    (found,) = project.home.data.glob(f"projects/*/tasks/{id}")
    return found


def events(project: Project, id: str) -> list[dict[str, Any]]:
    """Return the lines of a task's record."""
    return [json.loads(line[9:]) for line in (folder(project, id) / "record.jsonl").read_text().splitlines()]


def nothing_left(project: Project) -> None:
    """Fail when a task has left a worktree, its data, or a lock."""
    listed = project.git("worktree", "list", "--porcelain").decode()
    assert listed.count("worktree ") == 1, listed
    assert list(project.home.data.glob("projects/*/tasks/*/tree")) == []
    assert len(list(project.home.data.glob("projects/*/worktrees/*"))) <= 1
    assert list(Path(project.root, ".git").rglob("*.lock")) == []
    assert [one for one in project.home.temp.iterdir() if one.name.startswith("takeback")] == []
