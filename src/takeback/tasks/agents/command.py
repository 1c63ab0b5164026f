"""Any program as an agent: the prompt on its stdin, `TASK_ID` and `ATTEMPT` in its environment.

Does not cover: what it prints, beyond the signs of a limit or an expired login when it ends with an error.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from takeback.errors import AgentMissing
from takeback.host.headless import Ended, Runner
from takeback.tasks.agents.base import Outcome, Report, Request, decoded, environment, last_words, launched, located
from takeback.tasks.agents.failing import without_result


class Command:
    """Runs what stands after `--`; exit code 0 means done."""

    name = "command"
    tells_cost = False
    keeps_budget = False

    def program(self, argv: Sequence[str], env: Mapping[str, str], cwd: str, runner: Runner) -> str:
        """Return the path of the program after `--`; one with a slash is looked up from `cwd`. Raises AgentMissing."""
        if not argv:
            raise AgentMissing(name=self.name, why="no program was given", next="give one after `--`: -- PROGRAM ARGS")
        return located(self.name, argv[0], env, cwd, runner, "name a program that is there, or its full path")

    def run(self, request: Request, runner: Runner) -> Report:
        """Run the program with its arguments as they are."""
        argv = (self.program(request.argv, request.env, request.cwd, runner), *request.argv[1:])
        return launched(self.name, argv, request, runner, environment(request), _report, request.prompt)


def _report(request: Request, ended: Ended) -> Report:
    words = last_words(decoded(ended.out))
    if ended.timed_out or ended.exit != 0:
        return without_result(request, ended, words)
    return Report(Outcome.DONE, 0, None, words, None, "")
