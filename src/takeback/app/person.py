"""Whether a person asks: what holds agents back is not for agents.

    approve, deny, trust     a terminal, and no agent among the ancestors; or the token the notification was given
    gc, pause, uninstall     no agent among the ancestors: a person's script without a terminal (cron) goes on working

An agent is known by its program's name among the ancestors, or by the mark that guarded steps and agents leave in the
environment, our own or an ancestor's. Does not cover: a program of the agent's that cuts itself off from it and makes
itself a terminal; the classifier holds the ways to do that which can be seen (docs/design/0005-threat-model.md).
"""

from __future__ import annotations

import hashlib
import hmac
import os
import re
from collections.abc import Iterable
from dataclasses import dataclass

from takeback.errors import NotAPerson, WrongToken
from takeback.holds.agents import MARKS, NAMES
from takeback.holds.model import Hold, State
from takeback.host.ancestors import Ancestor, ancestors

_INTERPRETERS = re.compile(
    r"(node|nodejs|bun|deno|npx|npm|python[\d.]*|pypy[\d.]*|ruby|uv|uvx|pipx|tsx|ts-node|(ba|da|z|k)?sh)$"
)
# Programs that make a terminal for others.
_TERMINAL_MAKERS = frozenset("script expect unbuffer faketty empty socat ptyget pexpect".split())


@dataclass(frozen=True)
class Person:
    """The proof that a person asks, and how that is known: `terminal` or `token`."""

    how: str


def require_person(token: str | None = None, *, hold: Hold | None = None) -> Person:
    """Return the proof that a person asks; with a token it must be the one of this hold.

    Raises NotAPerson with what speaks against it, WrongToken.
    """
    if token is not None:
        if hold is None or hold.state is not State.WAITING or not hold.token:
            raise WrongToken(why="it belongs to no hold that waits")
        if not hmac.compare_digest(hashed(token), hold.token):
            raise WrongToken(why=f"it is not the one of {hold.id}")
        return Person("token")
    require_no_agent()
    if not _has_terminal():
        raise NotAPerson(why="there is no terminal")
    maker = next((one for one in ancestors() if _name(one.argv[0]) in _TERMINAL_MAKERS), None)
    if maker is not None:
        raise NotAPerson(why=f"the terminal was made by `{_name(maker.argv[0])}`")
    return Person("terminal")


def require_no_agent() -> None:
    """Raise NotAPerson when this process was started by an agent, or in a guarded step."""
    mark = agent_mark(os.environ)
    if mark:
        raise NotAPerson(why=f"this is a step of an agent ({mark} is set)")
    found = agent_among(ancestors())
    if found:
        raise NotAPerson(why=found)


def agent_mark(environ: Iterable[str]) -> str:
    """Return the mark of an agent among names of variables, or ""."""
    return next((name for name in sorted(MARKS) if name in environ), "")


def agent_among(processes: Iterable[Ancestor]) -> str:
    """Return which of the ancestors is an agent, in words, or ""."""
    for one in processes:
        name = agent_name(one.argv, one.program)
        if name:
            return f"it was started by {name} (process {one.pid})"
        mark = agent_mark(one.environ)
        if mark:
            return f"it was started in a step of an agent (process {one.pid} has {mark})"
    return ""


def agent_name(argv: tuple[str, ...], program: str = "") -> str:
    """Return the name of the agent that a process is, by its words and its program's path, or ""."""
    for word in (argv[0] if argv else "", program):
        if _name(word) in NAMES:
            return _name(word)
        if re.search(r"/claude/versions/[^/]+$", word):
            return "claude"
    if not argv or not _INTERPRETERS.match(_name(argv[0])):
        return ""
    # What an interpreter runs is its first word that is no option, or the module behind -m; options that take a value
    # push it back, and then its path tells.
    words = [word for word in argv[1:] if not word.startswith("-")][:3]
    for number, word in enumerate(words):
        parts = [_name(part) for part in word.split("/")]
        if parts[-1] in NAMES and (number == 0 or len(parts) > 1):
            return parts[-1]
        if "node_modules" in parts or "site-packages" in parts or word.startswith("@"):
            found = next((part for part in parts if part in NAMES), "")
            if found:
                return found
    return ""


def hashed(token: str) -> str:
    """Return what is stored of a token."""
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).hexdigest()


def _name(word: str) -> str:
    base = os.path.basename(word.lstrip("-")).partition("@")[0]
    return re.sub(r"\.(js|mjs|cjs|ts|py|exe|sh)$", "", base).lower()


def _has_terminal() -> bool:
    try:
        os.close(os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY))
    except OSError:
        return False
    return True
