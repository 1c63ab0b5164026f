"""Try a step in a copy of a running sandbox and keep the copy only if it passed.

    original ──fork──> copy (network off) ── step ── verify ──┬─ passed: the copy takes the original's place
        └── goes on, and never sees the step                 └─ failed, error, Ctrl-C: the copy is deleted

Does not cover: several candidates at once (`explore`), going back several steps (`chain`).
"""

from __future__ import annotations

import re
import threading
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from takeback.errors import MachineGone, MachineSilent, SandboxNotFound, SandboxStopped, TakebackError, UsageError
from takeback.machines.client import operations, undo
from takeback.machines.client.commands import Command
from takeback.machines.client.drivers import items, run
from takeback.machines.client.results import CommandResult
from takeback.machines.client.sandbox import Sandbox

_LOG = 1024 * 1024
_SPARE_S = 60
_SOON_S, _PATIENCE_S = 0.01, 5.0

Step = Command | Callable[[Sandbox], Any]
Score = Command | Callable[[Sandbox], float]
DIED = (SandboxStopped, SandboxNotFound, MachineGone, MachineSilent)


class Trial(NamedTuple):
    """What came of a trial; unpacks in this order.

    `kept` is the sandbox that goes on, `log` what the step and the check wrote (its last MiB), `diff` what the step
    changed, `cost` the micro-dollars of the copy by what they are for.
    """

    kept: Sandbox
    passed: bool
    log: str
    diff: dict[str, Any]
    cost: dict[str, Any]


def try_in_copy(
    sandbox: Sandbox,
    step: Step,
    verify: Step | None = None,
    offline: bool = True,
    cwd: str | None = None,
    timeout: float = 600,
    *,
    user: str | None = None,
    env: Mapping[str, str] | None = None,
    undo_days: int | None = None,
    on_output: Callable[[str], Any] | None = None,
) -> Trial:
    """Run a step and its check in a copy, and keep the copy in the original's place only if both passed.

    A step or check is a shell text, a list of words (passed: exit code 0), or a function of the sandbox (passed: it
    raises nothing, and as a check returns nothing or something true). `timeout` in seconds is for each of the two.
    With `offline` the copy reaches nothing outside until it is kept. Whatever goes wrong, Ctrl-C included, the original
    is the one that stays, and no copy is left; only while a copy takes the place Ctrl-C may come too late. With
    `undo_days` what was before a copy that is kept stays as a snapshot for so many days: `kept.info["lastSnapshot"]`.
    `on_output` gets the log as it grows. Raises what fork raises.
    """
    with Candidate(
        sandbox, offline=offline, timeout=timeout, cwd=cwd, user=user, env=env, undo_days=undo_days, on_output=on_output
    ) as candidate:
        passed = candidate.passes(step, verify)
        diff, cost = candidate.measured()
        kept = candidate.keep() if passed else sandbox
    return Trial(kept, passed, candidate.log, diff, cost)


class Candidate:
    """One copy that a step is tried in; deleted at the end of the block unless it was kept."""

    def __init__(
        self,
        source: Sandbox,
        *,
        offline: bool,
        timeout: float,
        cwd: str | None = None,
        user: str | None = None,
        env: Mapping[str, str] | None = None,
        copy: Sandbox | None = None,
        undo_days: int | None = None,
        on_output: Callable[[str], Any] | None = None,
    ) -> None:
        if timeout <= 0:
            raise UsageError(detail=f"timeout is in seconds and above 0, not {timeout}")
        self._source = source
        self._timeout = timeout
        self._options: dict[str, Any] = {"cwd": cwd, "user": user, "env": env, "timeout_ms": int(timeout * 1000)}
        self._log = ""
        self._keeping = self._kept = False
        self._late = False
        self._on_output = on_output
        self.copy = copy or fork(source, 1, offline=offline, timeout=timeout, undo_days=undo_days)[0]
        self._undo = self.copy.info.get("forkSnapshot") or {}
        # This program may be killed: the keeper deletes the copy as soon as this connection ends.
        self._hold = items(source._client, undo.hold(self.copy.id))
        try:
            next(self._hold)
        except BaseException:
            self.__exit__()
            raise

    def __enter__(self) -> Candidate:
        return self

    def __exit__(self, *_: object) -> None:
        try:
            if not self._keeping:
                self.copy.delete()
                if self._undo:
                    self.copy.delete_snapshot(self._undo["id"])
        except TakebackError:
            pass  # what happened in the block is what matters; the keeper deletes it later
        finally:
            self._hold.close()
            if self._keeping and not self._kept:
                self._find_out()

    @property
    def log(self) -> str:
        return self._log

    def passes(self, step: Step, verify: Step | None) -> bool:
        """Run the step, and the check if it passed; return whether both did."""
        return self._run(step, True) and (verify is None or self._run(verify, False))

    def score(self, score: Score) -> float:
        """Return a candidate's score: what the function returns, or the last number a command writes.

        Raises UsageError when there is none.
        """
        if callable(score):
            return float(score(self.copy))
        numbers = re.findall(r"[-+]?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?", self._command(score).stdout)
        if not numbers:
            raise UsageError(detail=f"the score command {score!r} wrote no number")
        return float(numbers[-1])

    def measured(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return what the step changed and what the copy cost; of one that died only the cost."""
        try:
            diff = self.copy.diff()
        except DIED:
            diff = {}
        return diff, self.copy.cost()

    def keep(self) -> Sandbox:
        """Let the copy take the original's place (name, labels, network rules, previews) and delete the original."""
        self._keeping = True
        kept = self._source.replace_with(self.copy)
        self._kept = True
        return kept

    def _find_out(self) -> None:
        """See which of the two goes on after `keep` ended without a good answer: an error, or Ctrl-C before it came.

        The copy may have the place already, and deleting it would leave none. With the hold the keeper ends it only if
        it has not.
        """
        until = time.monotonic() + _PATIENCE_S
        with suppress(TakebackError):
            while self.copy.refresh().info["trialEndsAt"] is not None:
                if time.monotonic() > until:  # its keeper was killed, and the next one knows of no hold
                    self.copy.delete()
                    return
                time.sleep(_SOON_S)
            self._source._succeeded_by(self.copy.info)

    def _run(self, step: Step, is_step: bool) -> bool:
        try:
            if callable(step):
                return self._call(step, is_step)
            result = self._command(step)
        except DIED as error:
            self._note(f"({error})\n")
            return False
        if result.timed_out:
            self._note("(out of time)\n")
        return result.exit_code == 0 and not result.timed_out

    def _call(self, step: Callable[[Sandbox], Any], is_step: bool) -> bool:
        # A function cannot be ended, but what it works on can: its next call fails.
        timer = threading.Timer(self._timeout, self._end)
        timer.daemon = True
        timer.start()
        try:
            answer = step(self.copy)
        except Exception:
            self._note(traceback.format_exc())
            return False
        finally:
            timer.cancel()
        if self._late:
            return False
        if isinstance(answer, CommandResult):
            self._note(answer.stdout + answer.stderr)
            return answer.exit_code == 0
        return is_step or answer is None or bool(answer)

    def _end(self) -> None:
        self._late = True
        self._note("(out of time)\n")
        with suppress(TakebackError):
            self.copy.delete()

    def _command(self, command: str | Sequence[str]) -> CommandResult:
        self._note(f"$ {command if isinstance(command, str) else ' '.join(command)}\n")
        return self.copy.exec(command, on_stdout=self._note, on_stderr=self._note, **self._options)

    def _note(self, text: str) -> None:
        self._log = (self._log + text)[-_LOG:]
        if self._on_output is not None:
            self._on_output(text)


def fork(source: Sandbox, count: int, *, offline: bool, timeout: float, undo_days: int | None = None) -> list[Sandbox]:
    """Make copies for trials; should this program and the keeper be killed, their lease ends them."""
    wanted = {
        "count": count,
        "lease": int(2 * timeout + _SPARE_S),
        "network": {"internet": False} if offline else None,
        "keep_snapshot": undo_days is not None,
        "retention_days": undo_days,
    }
    infos = run(source._client, operations.fork(source._client, source.id, wanted))
    return [Sandbox(source._client, info, ours=True) for info in infos]
