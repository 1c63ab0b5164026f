"""Codex, headless: `codex exec --json` with the prompt on stdin, one JSON object a line on stdout.

The last one is `turn.completed`, or `turn.failed` with an error's message; an `error` before it may be a mere warning.

Does not cover: hooks, which Codex skips silently until the user has trusted them; how often it repeats a refused
request (25 s at most), which is a setting of the user's provider.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from takeback.host.headless import Ended, Runner
from takeback.tasks.agents import signs
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
    objects,
)
from takeback.tasks.agents.failing import exit_of, failed, without_result

# Its own sandbox: writes in the worktree and the temporary folders, reads anywhere; with the network, for packages.
_SANDBOX = ("--sandbox", "workspace-write", "-c", "sandbox_workspace_write.network_access=true")
_OWN_SANDBOX = ("-s", "--sandbox", "--approve-for-me", "--dangerously-bypass-approvals-and-sandbox")


class Codex:
    """Runs `codex exec`; arguments after `--` are its own (`-- --model gpt-5.5`)."""

    name = "codex"
    tells_cost = False
    keeps_budget = False

    def program(self, argv: Sequence[str], env: Mapping[str, str], cwd: str, runner: Runner) -> str:
        """Return the path of `codex`. Raises AgentMissing."""
        return located(self.name, "codex", env, cwd, runner, "npm install -g @openai/codex")

    def run(self, request: Request, runner: Runner) -> Report:
        """Run one prompt to its end; it never asks."""
        program = self.program(request.argv, request.env, request.cwd, runner)
        sandbox = () if given(request.argv, *_OWN_SANDBOX) else _SANDBOX
        argv = (program, "exec", "--json", *sandbox, *request.argv, "-")
        return launched(self.name, argv, request, runner, environment(request), _report, request.prompt)


def _report(request: Request, ended: Ended) -> Report:
    words, error, completed = "", None, False
    for one in objects(ended.out):
        item = inner(one, "item")
        if one.get("type") == "item.completed" and item.get("type") == "agent_message":
            words = last_words(str(item.get("text", "")))
        elif one.get("type") == "turn.completed":
            completed, error = True, None
        elif one.get("type") == "turn.failed":
            completed, error = False, str(inner(one, "error").get("message", ""))
    if error is not None:
        return failed(signs.status_in(error), error, ended, words)
    if not completed:
        return without_result(request, ended, words)
    return Report(Outcome.DONE, exit_of(ended), None, words, None, "")
