"""What an agent program is to a task: asked once, it runs to its end, and how it ended has one of seven names.

Does not cover: whether the work is any good. A report is for show and for what to do next; the tree and the exit codes
of the checks judge.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Protocol

from takeback.errors import AgentMissing
from takeback.host.headless import Ended, Runner

# Where git would look instead of the task's own worktree, when takeback itself was started by git (a hook, an alias).
_GIT = (
    "GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_COMMON_DIR", "GIT_OBJECT_DIRECTORY", "GIT_PREFIX",
    "GIT_ALTERNATE_OBJECT_DIRECTORIES", "GIT_NAMESPACE", "GIT_INTERNAL_SUPER_PREFIX", "GIT_QUARANTINE_PATH",
)  # fmt: skip
_COLOURS = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")


class Outcome(StrEnum):
    """How an attempt's agent ended."""

    DONE = "done"
    REFUSED = "refused"  # the model or its host will not do this work; the same prompt will not do better
    USAGE_LIMIT = "usage-limit"  # of the account; it resets by itself
    LOGIN_EXPIRED = "login-expired"  # a person must log in
    CRASH = "crash"  # the program or its host failed; another attempt may do better
    TIMEOUT = "timeout"
    BUDGET = "budget"  # a limit of money or turns that the user set


@dataclass(frozen=True)
class Request:
    """One attempt asked of an agent.

    `argv` stands after `--`: the program and its arguments for `command`, more arguments for the others. `timeout` is
    in seconds. `env` is the whole environment. `output` is the file that gets all it says. `session` names this
    attempt alone, on the whole machine; when it is a UUID, programs that let one choose take it as their session's id.
    """

    prompt: str
    cwd: str
    task: str
    attempt: int
    argv: tuple[str, ...]
    timeout: float | None
    budget_usd: float | None
    env: Mapping[str, str]
    output: str
    session: str


@dataclass(frozen=True)
class Report:
    """How it ended. `words` is its last message, for show; `resets_at_ns` is when a usage limit ends, if it said so.

    `exit` is None when it ran out of time. `detail` says why it did not end well, in one line, or is empty.
    """

    outcome: Outcome
    exit: int | None
    cost_usd: float | None
    words: str
    resets_at_ns: int | None
    detail: str


class Agent(Protocol):
    """An agent program; every one holds the same promises (tests/tasks/test_agents_conformance.py)."""

    name: str
    tells_cost: bool  # whether its reports have a cost
    keeps_budget: bool  # whether it ends by itself when the budget is reached

    def program(self, argv: Sequence[str], env: Mapping[str, str], cwd: str, runner: Runner) -> str:
        """Return the path of the program it would run. Raises AgentMissing: ask before any work."""

    def run(self, request: Request, runner: Runner) -> Report:
        """Run it to its end, in `request.cwd`. Raises AgentMissing when it cannot even be started."""


def located(name: str, program: str, env: Mapping[str, str], cwd: str, runner: Runner, install: str) -> str:
    """Return where a program is. Raises AgentMissing with how to get it."""
    found = runner.find(program, env, cwd)
    if found is None:
        where = "" if "/" in program else " on PATH"
        raise AgentMissing(name=name, why=f"there is no `{program}`{where}", next=install)
    return found


def launched(
    name: str,
    argv: Sequence[str],
    request: Request,
    runner: Runner,
    env: Mapping[str, str],
    read: Callable[[Request, Ended], Report],
    feed: str = "",
) -> Report:
    """Run an agent's program in its worktree and read how it ended. Raises AgentMissing."""
    try:
        ended = runner.run(
            argv, cwd=request.cwd, env=env, output=request.output, marker=request.session,
            feed=feed.encode("utf-8", "surrogateescape"), timeout=request.timeout,
        )  # fmt: skip
    except OSError as error:
        if error.filename in (request.output, request.output + ".stderr"):
            raise
        why = f"{error.filename or argv[0]}: {error.strerror}"
        raise AgentMissing(name=name, why=why, next="start it by hand to see what it lacks") from error
    report = read(request, ended)
    if ended.left:
        still = f"still running: {', '.join(ended.left)}"
        report = replace(report, detail=f"{report.detail}; {still}" if report.detail else still)
    return report


def environment(request: Request, dropped: Sequence[str] = (), **defaults: str) -> dict[str, str]:
    """Return what an agent's program sees: the request's own, pointed at the worktree, and what names the attempt.

    `defaults` are the adapter's settings; the user's own stand.
    """
    env = {name: value for name, value in request.env.items() if name not in (*_GIT, "OLDPWD", *dropped)}
    # Some programs believe PWD before they ask where they are.
    env |= {"PWD": request.cwd, "TASK_ID": request.task, "ATTEMPT": str(request.attempt)}
    return {"GIT_TERMINAL_PROMPT": "0", **defaults, **env}


def given(argv: Sequence[str], *options: str) -> bool:
    """Whether the user named one of these options among the program's own arguments."""
    return any(word == option or word.startswith(f"{option}=") for word in argv for option in options)


def objects(raw: bytes) -> Iterator[dict[str, Any]]:
    """Return the JSON objects among the lines of a program's output, one a line."""
    for line in raw.splitlines():
        if line.startswith(b"{"):
            try:
                found = json.loads(line)
            except ValueError:
                continue
            if isinstance(found, dict):
                yield found


def inner(one: Mapping[str, Any], key: str) -> dict[str, Any]:
    """Return the object under a key; an empty one when something else is there."""
    found = one.get(key)
    return found if isinstance(found, dict) else {}


def number(found: object) -> float | None:
    """Return a number that a program told, None when it told something else."""
    return float(found) if isinstance(found, int | float) and not isinstance(found, bool) else None


def last_words(text: str, most: int = 2000) -> str:
    """Return the end of what was said, at whole lines where it can be."""
    text = text.strip()
    if len(text) <= most:
        return text
    return text[-most:].partition("\n")[2].strip() or text[-most:]


def one_line(text: str, most: int = 300) -> str:
    """Return the last line of a text that says something."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:most] if lines else ""


def decoded(raw: bytes) -> str:
    """Return output as text, without the colours of a terminal; what is no UTF-8 stays visible."""
    return _COLOURS.sub("", raw.decode("utf-8", "backslashreplace"))
