"""Agent programs a task can be given to, by name.

Does not cover: any one of them (a file each).
"""

from __future__ import annotations

import difflib

from takeback.errors import UnknownAgent
from takeback.tasks.agents.aider import Aider
from takeback.tasks.agents.base import Agent, Outcome, Report, Request
from takeback.tasks.agents.claude import Claude
from takeback.tasks.agents.codex import Codex
from takeback.tasks.agents.command import Command
from takeback.tasks.agents.gemini import Gemini
from takeback.tasks.agents.opencode import OpenCode

_ALL: tuple[Agent, ...] = (Claude(), Codex(), Gemini(), OpenCode(), Aider(), Command())
_AGENTS = {agent.name: agent for agent in _ALL}
NAMES = tuple(_AGENTS)

__all__ = ["NAMES", "Agent", "Outcome", "Report", "Request", "named"]


def named(name: str) -> Agent:
    """Return an agent by its name. Raises UnknownAgent, which names the nearest."""
    if name not in _AGENTS:
        near = difflib.get_close_matches(name, NAMES, 1, 0.5)
        did = f"did you mean {near[0]!r}? " if near else ""
        raise UnknownAgent(name=name, nearest=f"{did}there are {', '.join(NAMES)}")
    return _AGENTS[name]
