"""OpenCode, headless: `opencode run --format json` with the prompt on stdin, one JSON object a line on stdout.

The last one is `step_finish` with `reason: "stop"`, or `{"type":"error","error":{"name":..,"data":{"statusCode":..}}}`.

Does not cover: how long it repeats a refused request. It has no setting for that; the timeout ends it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from takeback.host.headless import Ended, Runner
from takeback.tasks.agents.base import (
    Outcome,
    Report,
    Request,
    decoded,
    environment,
    inner,
    last_words,
    launched,
    located,
    number,
    objects,
    one_line,
)
from takeback.tasks.agents.failing import exit_of, failed, without_result

# Other folders than the worktree: denied, which the model is told; asked for, the whole run would end.
_PERMISSION = json.dumps({"external_directory": "deny"})


class OpenCode:
    """Runs `opencode run`; arguments after `--` are its own (`-- --model provider/model`)."""

    name = "opencode"
    tells_cost = True
    keeps_budget = False

    def program(self, argv: Sequence[str], env: Mapping[str, str], cwd: str, runner: Runner) -> str:
        """Return the path of `opencode`. Raises AgentMissing."""
        return located(self.name, "opencode", env, cwd, runner, "npm install -g opencode-ai")

    def run(self, request: Request, runner: Runner) -> Report:
        """Run one prompt to its end; what the user's settings do not deny is allowed."""
        program = self.program(request.argv, request.env, request.cwd, runner)
        argv = (program, "run", "--format", "json", "--auto", *request.argv)
        env = environment(request, OPENCODE_PERMISSION=_PERMISSION, OPENCODE_DISABLE_AUTOUPDATE="1")
        return launched(self.name, argv, request, runner, env, _report, request.prompt)


def _report(request: Request, ended: Ended) -> Report:
    words, last, cost = "", None, None
    for one in objects(ended.out):
        part = inner(one, "part")
        if one.get("type") == "text":
            words = last_words(str(part.get("text", "")))
        elif one.get("type") == "step_finish":
            cost = (cost or 0.0) + (number(part.get("cost")) or 0.0)
            last = one
        elif one.get("type") == "error":
            last = one
    if last is not None and last["type"] == "error":
        return _failure(inner(last, "error"), ended, words, cost)
    reason = None if last is None else inner(last, "part").get("reason")
    if reason == "content-filter":
        return Report(Outcome.REFUSED, exit_of(ended), cost, words, None, "the model's host filtered the reply")
    if reason in ("stop", "length"):
        return Report(Outcome.DONE, exit_of(ended), cost, words, None, "")
    if reason is not None and ended.exit == 0 and not ended.timed_out:
        # It ends between two steps only when a step needed somebody's leave.
        detail = one_line(decoded(ended.err)) or "it ended before it was done"
        return Report(Outcome.REFUSED, 0, cost, words, None, detail)
    return without_result(request, ended, words, cost)


def _failure(error: dict[str, Any], ended: Ended, words: str, cost: float | None) -> Report:
    data = inner(error, "data")
    message = str(data.get("message") or error.get("name") or "")
    status = data.get("statusCode")
    # The name too (ProviderAuthError, ContextOverflowError), and the headers: retry-after.
    headers = json.dumps(inner(data, "responseHeaders"))
    text = f"{error.get('name')}: {message}\n{headers}\n{data.get('responseBody')}"
    return failed(status if isinstance(status, int) else None, text, ended, words, cost, one_line(message))
