"""aider, headless: one message from a file, its replies as plain text on stdout.

Its exit code is 0 whatever happened. A reply that came ends with `Tokens: 10 sent, 5 received. Cost: $0.01 message,
$0.02 session.`; a request that failed for good leaves `litellm.RateLimitError: ...` behind the last such line.

Does not cover: hooks (it has none). It is told not to commit, and not to touch .gitignore.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Mapping, Sequence

from takeback.host.headless import Ended, Runner
from takeback.tasks.agents import signs
from takeback.tasks.agents.base import (
    Outcome,
    Report,
    Request,
    decoded,
    environment,
    last_words,
    launched,
    located,
    one_line,
)
from takeback.tasks.agents.failing import exit_of, without_result

_QUIET = (
    "--yes-always", "--no-auto-commits", "--no-dirty-commits", "--no-gitignore", "--no-suggest-shell-commands",
    "--no-check-update", "--no-show-release-notes", "--no-show-model-warnings", "--no-analytics", "--no-detect-urls",
    "--no-pretty", "--no-stream", "--no-fancy-input",
    "--chat-history-file", os.devnull, "--input-history-file", os.devnull,
)  # fmt: skip
_NO_MODEL = "No LLM model was specified and no API keys were provided."
_CACHE = ".aider.tags.cache."
_REPLY = re.compile(r"^Tokens: .* sent, .* received\.", re.MULTILINE)
_COST = re.compile(r"message, \$([\d.,]+) session")
_ERROR = re.compile(r"^litellm\.(?:exceptions\.)?(\w+): .*", re.MULTILINE)
_KINDS = {
    "RateLimitError": Outcome.USAGE_LIMIT,
    "AuthenticationError": Outcome.LOGIN_EXPIRED,
    "PermissionDeniedError": Outcome.REFUSED,
    "NotFoundError": Outcome.REFUSED,
    "ContextWindowExceededError": Outcome.REFUSED,
    "ContentPolicyViolationError": Outcome.REFUSED,
    "BadRequestError": Outcome.REFUSED,
}


class Aider:
    """Runs `aider`; arguments after `--` are its own (`-- --model sonnet`)."""

    name = "aider"
    tells_cost = True
    keeps_budget = False

    def program(self, argv: Sequence[str], env: Mapping[str, str], cwd: str, runner: Runner) -> str:
        """Return the path of `aider`. Raises AgentMissing."""
        return located(self.name, "aider", env, cwd, runner, "python -m pip install aider-chat")

    def run(self, request: Request, runner: Runner) -> Report:
        """Run one prompt to its end; every question is answered with yes, but it runs no commands."""
        prompt = request.output + ".prompt"
        argv = (
            self.program(request.argv, request.env, request.cwd, runner),
            *_QUIET, *request.argv, "--message-file", prompt,
        )  # fmt: skip
        before = _caches(request.cwd)
        with open(prompt, "w", encoding="utf-8", errors="surrogateescape") as file:
            file.write(request.prompt)
        try:
            # Wide lines, for its errors are wrapped in the middle of what is looked for. And no browser: without any
            # model it would open one, and wait for five minutes.
            env = environment(request, ("COLUMNS", "BROWSER"), COLUMNS="1000", BROWSER="true")
            return launched(self.name, argv, request, runner, env, _report)
        finally:
            os.unlink(prompt)
            for made in _caches(request.cwd) - before:
                shutil.rmtree(os.path.join(request.cwd, made), ignore_errors=True)


def _caches(cwd: str) -> set[str]:
    """Return the folders of its index of the project; a new one is none of the task's work."""
    return {name for name in os.listdir(cwd) if name.startswith(_CACHE)}


def _report(request: Request, ended: Ended) -> Report:
    text = decoded(ended.out)
    costs = _COST.findall(text)
    cost = float(costs[-1].replace(",", "")) if costs else None
    replies = list(_REPLY.finditer(text))
    words = last_words(text[: replies[-1].start()]) if replies else ""
    after = text[replies[-1].end() :] if replies else text
    errors = list(_ERROR.finditer(after))
    if _NO_MODEL in text:
        return Report(Outcome.LOGIN_EXPIRED, exit_of(ended), cost, words, None, _NO_MODEL)
    if ended.timed_out or ended.exit != 0 or not (replies or errors):
        return without_result(request, ended, words, cost)
    if not errors:
        return Report(Outcome.DONE, 0, cost, words, None, "")
    said = errors[-1][0]
    outcome = _KINDS.get(errors[-1][1], Outcome.CRASH)
    if outcome is Outcome.REFUSED and signs.of_text(said) is Outcome.USAGE_LIMIT:
        outcome = Outcome.USAGE_LIMIT  # an account without credit is answered with 400
    resets = signs.resets_at(said, ended.ended_ns) if outcome is Outcome.USAGE_LIMIT else None
    return Report(outcome, exit_of(ended), cost, words, resets, one_line(said))
