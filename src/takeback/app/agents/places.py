"""What installing needs to know: the folders of a person and a project, the hook's command, and pieces of settings.

Does not cover: any single agent, or writing.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from takeback.model import Finding

MARK = "takeback-hook"  # what tells our hooks from those of others
SECONDS = 60  # what hosts give a hook; ours answers within half of it


@dataclass(frozen=True)
class Where:
    """Whose settings are meant: a person's (`root` None), or those of one project."""

    home: Path
    environ: Mapping[str, str]
    root: Path | None
    hook: str  # the hook's program, absolute

    def folder(self, variable: str, *default: str) -> Path:
        """Return a folder that an environment variable may move."""
        named = self.environ.get(variable)
        return Path(named) if named else self.home.joinpath(*default)


@dataclass(frozen=True)
class Piece:
    """One file that is changed: hooks to add to a JSON file, or a whole file of ours."""

    path: Path
    hooks: Mapping[str, Mapping[str, Any]] | None = None  # event: one matcher group
    text: str = ""


class Agent:
    """One agent program and its settings."""

    name = ""
    title = ""
    timeout: int = SECONDS
    softly: bool = False  # whether the host takes any exit code but 0 and 1 for a "no", at every event

    def pieces(self, where: Where) -> list[Piece]:
        """Return what is installed, in this order."""
        raise NotImplementedError

    def used(self, where: Where) -> bool:
        """Whether this person has the program or its settings."""
        raise NotImplementedError

    def switches(self, where: Where) -> list[Finding]:
        """Return what is found switched off, so that installed hooks would not run."""
        return []

    def beside(self, where: Where) -> list[Path]:
        """Return the files that `after_install` may change."""
        return []

    def stripped(self, text: str) -> str:
        """Return such a file without what was added for takeback's hooks. Raises ValueError."""
        return text

    def after_install(self, where: Where) -> list[str]:
        """Do what else lets the hooks run; returns what a person should know."""
        return []

    def program(self, where: Where) -> str | None:
        """Return the agent's program, if it is there."""
        return shutil.which(self.name, path=where.environ.get("PATH", os.defpath))


def hook_program() -> str:
    """Return the absolute path of `takeback-hook`: beside the interpreter that runs this."""
    beside = Path(sys.executable).parent / MARK
    found = str(beside) if beside.exists() else shutil.which(MARK)
    return os.path.abspath(found or beside)


def guarded(where: Where, agent: str, event: str, *, missing: int = 1) -> str:
    """Return the shell command of a hook before a step: when it dies, the step does not run.

    A program that is not there any more (127, 126) stops nothing: who removed takeback goes on without it, and the
    host says that its hook fails.
    """
    return (
        f"{command(where, agent, event)} || {{ c=$?; case $c in 2) ;; 126|127) exit {missing};; *) echo "
        f"\"takeback-hook ended with $c, so this step does not run: a person can ask 'takeback doctor'\" >&2;; esac;"
        " exit 2; }"
    )


def command(where: Where, agent: str, event: str) -> str:
    """Return the shell command of a hook."""
    quoted = "'" + where.hook.replace("'", "'\\''") + "'"
    return f"{quoted} {agent} {event}"


def groups(
    agent: Agent, where: Where, before: str, others: Sequence[str], tools: Mapping[str, str]
) -> dict[str, dict[str, Any]]:
    """Return one matcher group for each event; `tools` are the matchers of those events that have one."""
    result = {}
    for event in (before, *others):
        line = guarded(where, agent.name, event) if event == before else command(where, agent.name, event)
        line += " || exit 1" if agent.softly and event != before else ""
        hook = {"type": "command", "command": line, "timeout": agent.timeout}
        matcher = {"matcher": tools[event]} if event in tools else {}
        result[event] = {**matcher, "hooks": [hook]}
    return result


def not_of(names: str) -> str:
    """Return a regular expression for every tool but these."""
    return f"^(?!(?:{'|'.join(names.split())})$)"


def is_ours(group: object) -> bool:
    """Whether a matcher group of a settings file is one of takeback's."""
    if not isinstance(group, dict) or not isinstance(group.get("hooks"), list):
        return False
    return any(isinstance(one, dict) and MARK in str(one.get("command", "")) for one in group["hooks"])
