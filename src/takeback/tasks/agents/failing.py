"""What an agent's run is when there is no result of its own to read: out of time, or ended with words and no JSON.

Does not cover: results, which each program writes in its own way (a file each).
"""

from __future__ import annotations

from takeback.host.headless import Ended
from takeback.tasks.agents import signs
from takeback.tasks.agents.base import Outcome, Report, Request, decoded, one_line

# Characters at the end of an output in which signs are looked for.
_ERRORS = 4000
_SAID = 1500


def without_result(request: Request, ended: Ended, words: str, cost: float | None = None) -> Report:
    """Return the report of a run that left no result."""
    if ended.timed_out:
        return Report(Outcome.TIMEOUT, None, cost, words, None, signs.out_of_time(request.timeout))
    # Not in objects: there the work itself is told, which may be about limits and logins.
    plain = b"\n".join(line for line in ended.out.splitlines() if not line.startswith(b"{"))
    said, errors = decoded(plain)[-_SAID:], decoded(ended.err)[-_ERRORS:]
    detail = one_line(errors) or one_line(said) or "it said nothing"
    return failed(None, f"{said}\n{errors}", ended, words, cost, f"it ended with exit code {ended.exit}: {detail}")


def failed(
    status: int | None, text: str, ended: Ended, words: str, cost: float | None = None, detail: str = ""
) -> Report:
    """Return the report of a run whose request to the model failed, with the HTTP status where it is known."""
    outcome = signs.of_error(status, text)
    resets = signs.resets_at(text, ended.ended_ns) if outcome is Outcome.USAGE_LIMIT else None
    return Report(outcome, exit_of(ended), cost, words, resets, detail or one_line(text))


def exit_of(ended: Ended) -> int | None:
    """Return the exit code, None for one that is of our own making."""
    return None if ended.timed_out else ended.exit
