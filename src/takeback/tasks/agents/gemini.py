"""Gemini CLI, headless: the prompt on stdin, one JSON object a line on stdout.

The last one is `{"type":"result","status":"success"|"error","error":{"type":..,"message":..}}`. The HTTP status of a
refusal is in the message, else on stderr, where the error is printed with `status: 429`.

Does not cover: choosing a model; its own settings decide.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from takeback.host.headless import Ended, Runner
from takeback.tasks.agents import signs
from takeback.tasks.agents.base import (
    Outcome,
    Report,
    Request,
    decoded,
    environment,
    given,
    inner,
    last_words,
    launched,
    located,
    objects,
    one_line,
)
from takeback.tasks.agents.failing import exit_of, failed, without_result

_DEFAULTS = "GEMINI_CLI_SYSTEM_DEFAULTS_PATH"
# Where it looks itself: a file there is the administrator's, and stands.
_OF_THE_SYSTEM = (
    "/etc/gemini-cli/system-defaults.json",
    "/Library/Application Support/GeminiCli/system-defaults.json",
)
_BAD_LOGIN = 41  # FatalAuthenticationError, before there is a result
_LIMIT = "FatalTurnLimitedError"


class Gemini:
    """Runs `gemini`; arguments after `--` are its own (`-- -m gemini-2.5-flash`)."""

    name = "gemini"
    tells_cost = False
    keeps_budget = False

    def program(self, argv: Sequence[str], env: Mapping[str, str], cwd: str, runner: Runner) -> str:
        """Return the path of `gemini`. Raises AgentMissing."""
        return located(self.name, "gemini", env, cwd, runner, "npm install -g @google/gemini-cli")

    def run(self, request: Request, runner: Runner) -> Report:
        """Run one prompt to its end, every tool allowed: without that it is offered no shell at all."""
        argv = [self.program(request.argv, request.env, request.cwd, runner), *request.argv]
        argv += ["--output-format", "stream-json"]
        if not given(request.argv, "-y", "--yolo", "--approval-mode"):
            argv += ["--approval-mode", "yolo"]
        # The worktree is new, so nobody can have trusted it; without its own child it can be waited for.
        settings = {"GEMINI_CLI_TRUST_WORKSPACE": "true", "GEMINI_CLI_NO_RELAUNCH": "true"}
        with _few_retries(request) as defaults:
            env = environment(request, **settings, **defaults)
            return launched(self.name, argv, request, runner, env, _report, request.prompt)


@contextmanager
def _few_retries(request: Request) -> Iterator[dict[str, str]]:
    """Ten attempts at a refused request take minutes; below the user's own settings lie those of this file."""
    if _DEFAULTS in request.env or any(map(os.path.exists, _OF_THE_SYSTEM)):
        yield {}
        return
    path = request.output + ".gemini.json"
    with open(path, "w", encoding="utf-8") as file:
        json.dump({"general": {"maxAttempts": 3}}, file)
    try:
        yield {_DEFAULTS: path}
    finally:
        os.unlink(path)


def _report(request: Request, ended: Ended) -> Report:
    said: list[str] = []
    result: dict[str, Any] | None = None
    for one in objects(ended.out):
        if one.get("type") == "message" and one.get("role") == "assistant":
            said.append(str(one.get("content", "")))
        elif one.get("type") == "tool_use":
            said = []
        elif one.get("type") == "result":
            result = one
    words = last_words("".join(said))
    if result is None:
        if ended.exit == _BAD_LOGIN and not ended.timed_out:
            return Report(Outcome.LOGIN_EXPIRED, ended.exit, None, words, None, _why(ended))
        return without_result(request, ended, words)
    if result.get("status") == "success":
        return Report(Outcome.DONE, exit_of(ended), None, words, None, "")
    error = inner(result, "error")
    message = str(error.get("message", ""))
    if error.get("type") == _LIMIT:
        return Report(Outcome.BUDGET, exit_of(ended), None, words, None, one_line(message))
    status = signs.status_in(message) or signs.status_in(decoded(ended.err))
    return failed(status, message, ended, words)


def _why(ended: Ended) -> str:
    """Return the line of stderr that names what is missing; the last one only tells to try again."""
    lines = [line.strip() for line in decoded(ended.err).splitlines() if line.strip()]
    told = [line for line in lines if "must specify" in line or "auth" in line.lower()]
    return told[0] if told else one_line("\n".join(lines))
