"""Any program as an agent: the prompt on its stdin, `TASK_ID` and `ATTEMPT` in its environment.

Does not cover: what it prints, beyond the signs of a limit or an expired login when it ends with an error.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from takeback.errors import AgentMissing
from takeback.host.headless import Runner
from takeback.tasks.agents import signs
from takeback.tasks.agents.base import Outcome, Report, Request, decoded, last_words, launched, located, one_line

_SAID = 4000  # characters at the end of its output in which signs are looked for


class Command:
    """Runs what stands after `--`; exit code 0 means done."""

    name = "command"
    keeps_budget = False

    def program(self, argv: Sequence[str], env: Mapping[str, str], cwd: str, runner: Runner) -> str:
        """Return the path of the program after `--`. Raises AgentMissing."""
        if not argv:
            raise AgentMissing(name=self.name, why="no program was given", next="give one after `--`: -- PROGRAM ARGS")
        return located(self.name, argv[0], env, cwd, runner, "name a program that is there, or its full path")

    def run(self, request: Request, runner: Runner) -> Report:
        """Run the program with its arguments as they are."""
        program = self.program(request.argv, request.env, request.cwd, runner)
        ended = launched(self.name, (program, *request.argv[1:]), request, runner, feed=request.prompt)
        said, errors = decoded(ended.out), decoded(ended.err)
        words = last_words(said)
        if ended.timed_out:
            return Report(Outcome.TIMEOUT, None, None, words, None, signs.out_of_time(request.timeout))
        if ended.exit == 0:
            return Report(Outcome.DONE, 0, None, words, None, "")
        text = said[-_SAID:] + "\n" + errors[-_SAID:]
        outcome = signs.of_text(text) or Outcome.CRASH
        resets = signs.resets_at(text, ended.ended_ns) if outcome is Outcome.USAGE_LIMIT else None
        detail = one_line(errors) or one_line(said) or f"it ended with exit code {ended.exit} and said nothing"
        return Report(outcome, ended.exit, None, words, resets, detail)
