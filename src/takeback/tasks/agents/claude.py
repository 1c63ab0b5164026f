"""Claude Code, headless: `claude -p` with the prompt on stdin, one JSON object a line on stdout.

The last line is `{"type":"result","subtype":..,"is_error":..,"api_error_status":..,"result":..,"total_cost_usd":..}`.
`subtype` says `success` also when the model could not be reached: `is_error` decides.

Does not cover: hooks and settings of the user; they stay as they are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any
from uuid import UUID

from takeback.host.headless import Ended, Runner
from takeback.tasks.agents.base import (
    Outcome,
    Report,
    Request,
    environment,
    given,
    inner,
    last_words,
    launched,
    located,
    number,
    objects,
    one_line,
)
from takeback.tasks.agents.failing import exit_of, failed, without_result

# Ended by a limit the user set: --max-budget-usd, --max-turns.
_LIMITS = {"error_max_budget_usd": "the budget was reached", "error_max_turns": "the limit of turns was reached"}
# What an outer Claude Code tells its children; a task is not its child.
_OUTER = ("CLAUDECODE", "CLAUDE_CODE_ENTRYPOINT", "CLAUDE_CODE_SSE_PORT", "CLAUDE_CODE_SESSION_ID")


class Claude:
    """Runs `claude`; arguments after `--` are its own (`-- --model opus`)."""

    name = "claude"
    tells_cost = True
    keeps_budget = True

    def program(self, argv: Sequence[str], env: Mapping[str, str], cwd: str, runner: Runner) -> str:
        """Return the path of `claude`. Raises AgentMissing."""
        return located(self.name, "claude", env, cwd, runner, "npm install -g @anthropic-ai/claude-code")

    def run(self, request: Request, runner: Runner) -> Report:
        """Run one prompt to its end, every tool allowed."""
        if request.budget_usd is not None and request.budget_usd <= 0:
            return Report(Outcome.BUDGET, None, None, "", None, "there is nothing left of the budget")
        argv = [self.program(request.argv, request.env, request.cwd, runner), "-p", *request.argv]
        argv += ["--output-format", "stream-json", "--verbose"]
        if not given(request.argv, "--permission-mode", "--dangerously-skip-permissions"):
            argv += ["--permission-mode", "bypassPermissions"]
        if request.budget_usd is not None:
            argv += ["--max-budget-usd", f"{request.budget_usd:.6f}"]
        if _is_uuid(request.session) and not given(request.argv, "--session-id", "-r", "--resume", "-c", "--continue"):
            argv += ["--session-id", request.session]
        # By default it repeats a refusal ten times in three minutes, an expired login too; 3 are done in 5 s.
        env = environment(request, _OUTER, CLAUDE_CODE_MAX_RETRIES="3", DISABLE_AUTOUPDATER="1")
        return launched(self.name, argv, request, runner, env, _report, request.prompt)


def _report(request: Request, ended: Ended) -> Report:
    result: dict[str, Any] | None = None
    said, resets = "", None
    for one in objects(ended.out):
        if one.get("type") == "assistant":
            said = _text_of(one) or said
        elif one.get("type") == "rate_limit_event":
            resets = _resets_of(one)
        elif one.get("type") == "result":
            result = one
    if result is None:
        return without_result(request, ended, last_words(said))
    cost = number(result.get("total_cost_usd"))
    words = last_words(str(result.get("result") or said))
    if limit := _LIMITS.get(str(result.get("subtype"))):
        return Report(Outcome.BUDGET, exit_of(ended), cost, words, None, limit)
    if result.get("is_error"):
        text = str(result.get("result") or _lines(result.get("errors")) or result.get("subtype"))
        status = number(result.get("api_error_status"))
        report = failed(None if status is None else int(status), text, ended, words, cost)
        if report.outcome is Outcome.USAGE_LIMIT and resets is not None:
            report = replace(report, resets_at_ns=resets)  # to the second; the text is cut to the minute
        return report
    if result.get("stop_reason") == "refusal":
        return Report(Outcome.REFUSED, exit_of(ended), cost, words, None, one_line(words) or "the model refused")
    return Report(Outcome.DONE, exit_of(ended), cost, words, None, "")


def _text_of(message: dict[str, Any]) -> str:
    content = inner(message, "message").get("content")
    parts = content if isinstance(content, list) else []
    return "\n".join(str(part.get("text")) for part in parts if isinstance(part, dict) and part.get("type") == "text")


def _resets_of(event: dict[str, Any]) -> int | None:
    """Return when the limit resets that has just been reached; in seconds since 1970 there."""
    info = inner(event, "rate_limit_info")
    at = number(info.get("resetsAt"))
    return int(at) * 10**9 if info.get("status") == "rejected" and at is not None else None


def _lines(errors: object) -> str:
    return "\n".join(map(str, errors)) if isinstance(errors, list) else ""


def _is_uuid(text: str) -> bool:
    try:
        return str(UUID(text)) == text.lower()
    except ValueError:
        return False
