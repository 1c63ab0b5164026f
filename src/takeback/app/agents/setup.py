"""What `takeback init`, `uninstall` and `doctor` do about agents, with this process's settings.

Does not cover: the edits themselves (`installing`), or the first checkpoint.
"""

from __future__ import annotations

import os
from pathlib import Path

from takeback import config as configs
from takeback.app.agents import checking, installing, trouble
from takeback.app.agents.installing import AGENTS, Done
from takeback.app.agents.places import Where
from takeback.app.person import require_no_agent
from takeback.errors import UsageError
from takeback.model import Finding

NAMES = tuple(AGENTS)


def place(root: bytes | None) -> Where:
    """Return whose settings are meant: a project's, or this person's (None)."""
    home = Path(os.environ.get("HOME") or os.path.expanduser("~"))
    return installing.where(home, dict(os.environ), Path(os.fsdecode(root)) if root is not None else None)


def init(agent: str | None, root: bytes | None) -> list[Done]:
    """Put hooks in place for one agent, for `all`, or for those that are found (None).

    Raises UsageError when none is found, CannotWrite.
    """
    where = place(root)
    names = _names(agent) if agent is not None else [one for one in NAMES if AGENTS[one].used(where)]
    if not names:
        raise UsageError(
            detail=f"no agent was found on this machine; name one with --agent: {', '.join(NAMES)}\n"
            "Any other agent: takeback watch -- AGENT; without one, takeback run -- CMD needs no set-up"
        )
    return [done for name in names for done in installing.install(_data(), name, where)]


def uninstall(agent: str | None, roots: list[bytes | None]) -> list[Done]:
    """Take hooks out again, of one agent or of all (None), from these places (None: this person's settings).

    Raises NotAPerson for an agent: the brake is not its to lift.
    """
    require_no_agent()
    names = _names(agent)
    result = []
    for root in roots:
        where = place(root)
        result += installing.remove(_data(), names, where.root)
        result += installing.remove_unlisted(names, where)
    return result


def doctor(root: bytes | None, *, fix: bool = False) -> list[Finding]:
    """Return a line for each agent that was set up, and one for what went wrong in hooks since; `fix` forgets that."""
    where = place(root)
    found = checking.findings(_data(), where.home, dict(where.environ), where.root)
    lines = trouble.read(_data())
    if lines and fix:
        trouble.clear(_data())
    elif lines:
        last = lines[-1].partition(" ")[2]
        found.append(
            Finding("hooks", False, f"{len(lines)} did not end well; the last: {last}",
                    "takeback doctor --fix forgets it; a step that was not recorded: takeback log, takeback restore")
        )  # fmt: skip
    return found


def _names(agent: str | None) -> list[str]:
    return list(NAMES) if agent in (None, "all") else [one for one in NAMES if one == agent]


def _data() -> Path:
    home = os.environ.get("HOME") or os.path.expanduser("~")
    return configs.data_dir(os.environ, home)
