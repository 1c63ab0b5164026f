"""Try a step in a copy of a running sandbox and keep the copy only if it passed.

    original ──fork──> copy (network off) ── step ── verify ──┬─ passed: the copy takes the original's place
        └── goes on, and never sees the step                 └─ failed, error, Ctrl-C: the copy is deleted

Does not cover: several candidates at once (`explore`), going back several steps (`chain`). Written once for both faces
(`faces`).
"""

from __future__ import annotations

import re
import time
import traceback
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from typing import Any, Generic, NamedTuple, TypeVar, overload

from takeback.errors import MachineGone, MachineSilent, SandboxNotFound, SandboxStopped, TakebackError, UsageError
from takeback.machines.client import operations, undo
from takeback.machines.client.aio import AsyncSandbox
from takeback.machines.client.commands import Command
from takeback.machines.client.faces import Steps
from takeback.machines.client.results import CommandResult
from takeback.machines.client.sandbox import Sandbox, SandboxRecord

_LOG = 1024 * 1024
_SPARE_S = 60
_SOON_S, _PATIENCE_S = 0.01, 5.0

S = TypeVar("S", bound=SandboxRecord)
Step = Command | Callable[[Any], Any]
Score = Command | Callable[[Any], Any]
DIED = (SandboxStopped, SandboxNotFound, MachineGone, MachineSilent)


class Trial(NamedTuple, Generic[S]):
    """What came of a trial; unpacks in this order.

    `kept` is the sandbox that goes on, `log` what the step and the check wrote (its last MiB), `diff` what the step
    changed, `cost` the micro-dollars of the copy by what they are for.
    """

    kept: S
    passed: bool
    log: str
    diff: dict[str, Any]
    cost: dict[str, Any]


@overload
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
) -> Trial[Sandbox]: ...


@overload
def try_in_copy(
    sandbox: AsyncSandbox,
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
) -> Coroutine[Any, Any, Trial[AsyncSandbox]]: ...


def try_in_copy(
    sandbox: Any,
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
) -> Any:
    """Run a step and its check in a copy, and keep the copy in the original's place only if both passed.

    A step or check is a shell text, a list of words (passed: exit code 0), or a function of the sandbox (passed: it
    raises nothing, and as a check returns nothing or something true). `timeout` in seconds is for each of the two.
    With `offline` the copy reaches nothing outside until it is kept. Whatever goes wrong, Ctrl-C included, the original
    is the one that stays, and no copy is left; only while a copy takes the place Ctrl-C may come too late. With
    `undo_days` what was before a copy that is kept stays as a snapshot for so many days: `kept.info["lastSnapshot"]`.
    `on_output` gets the log as it grows. Raises what fork raises.

    Of an AsyncSandbox the Trial is to be awaited, and functions may be coroutine functions.
    """
    candidate = Candidate(
        sandbox, offline=offline, timeout=timeout, cwd=cwd, user=user, env=env, undo_days=undo_days, on_output=on_output
    )
    return sandbox._face.do(_trial(sandbox, candidate, step, verify))


def _trial(sandbox: Any, candidate: Candidate, step: Step, verify: Step | None) -> Steps[Trial[Any]]:
    yield from candidate.begin()
    try:
        passed = yield from candidate.passes(step, verify)
        diff, cost = yield from candidate.measured()
        kept = (yield from candidate.keep()) if passed else sandbox
    finally:
        yield from candidate.end()
    return Trial(kept, passed, candidate.log, diff, cost)


class Candidate:
    """One copy that a step is tried in: between `begin` and `end`, which deletes it unless it was kept."""

    def __init__(
        self,
        source: Any,
        *,
        offline: bool,
        timeout: float,
        cwd: str | None = None,
        user: str | None = None,
        env: Mapping[str, str] | None = None,
        copy: Any = None,
        undo_days: int | None = None,
        on_output: Callable[[str], Any] | None = None,
    ) -> None:
        if timeout <= 0:
            raise UsageError(detail=f"timeout is in seconds and above 0, not {timeout}")
        self.copy = copy
        self._source = source
        self._offline = offline
        self._timeout = timeout
        self._undo_days = undo_days
        self._options: dict[str, Any] = {"cwd": cwd, "user": user, "env": env, "timeout_ms": int(timeout * 1000)}
        self._log = ""
        self._keeping = self._kept = False
        self._late = False
        self._on_output = on_output
        self._undo: dict[str, Any] = {}
        self._held: Any = None

    def begin(self) -> Steps[None]:
        """Make the copy, unless one was given."""
        if self.copy is None:
            made = fork(self._source, 1, offline=self._offline, timeout=self._timeout, undo_days=self._undo_days)
            self.copy = (yield from made)[0]
        self._undo = self.copy.info.get("forkSnapshot") or {}
        try:
            # This program may be killed: the keeper deletes the copy as soon as this connection ends.
            self._held = yield self._source._face.hold(self._source._client, undo.hold(self.copy.id))
        except BaseException:
            yield from self.end()
            raise

    def end(self) -> Steps[None]:
        """Delete the copy, unless it was kept."""
        try:
            if not self._keeping:
                yield self.copy.delete()
                yield from self._forget_undo()
        except TakebackError:
            pass  # what happened before is what matters; the keeper deletes it later
        finally:
            if self._held is not None:
                held, self._held = self._held, None
                yield self._source._face.release(held)
            if self._keeping and not self._kept:
                yield from self._find_out()

    @property
    def log(self) -> str:
        return self._log

    def passes(self, step: Step, verify: Step | None) -> Steps[bool]:
        """Run the step, and the check if it passed; return whether both did."""
        if not (yield from self._run(step, True)):
            return False
        return verify is None or (yield from self._run(verify, False))

    def score(self, score: Score) -> Steps[float]:
        """Return a candidate's score: what the function returns, or the last number a command writes.

        Raises UsageError when there is none.
        """
        if callable(score):
            return float((yield score(self.copy)))
        result = yield from self._command(score)
        numbers = re.findall(r"[-+]?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?", result.stdout)
        if not numbers:
            raise UsageError(detail=f"the score command {score!r} wrote no number")
        return float(numbers[-1])

    def measured(self) -> Steps[tuple[dict[str, Any], dict[str, Any]]]:
        """Return what the step changed and what the copy cost; of one that died only the cost."""
        try:
            diff = yield self.copy.diff()
        except DIED:
            diff = {}
        return diff, (yield self.copy.cost())

    def keep(self) -> Steps[Any]:
        """Let the copy take the original's place (name, labels, network rules, previews) and delete the original."""
        self._keeping = True
        kept = yield self._source.replace_with(self.copy)
        self._kept = True
        return kept

    def _find_out(self) -> Steps[None]:
        """See which of the two goes on after `keep` ended without a good answer: an error, or Ctrl-C before it came.

        The copy may have the place already, and deleting it would leave none. With the hold the keeper ends it only if
        it has not.
        """
        until = time.monotonic() + _PATIENCE_S
        try:
            while (yield self.copy.refresh()).info["trialEndsAt"] is not None:
                if time.monotonic() > until:  # its keeper was killed, and the next one knows of no hold
                    yield self.copy.delete()
                    yield from self._forget_undo()
                    return
                yield self._source._face.sleep(_SOON_S)
            self._source._succeeded_by(self.copy.info)
        except SandboxNotFound:  # the original goes on
            with suppress(TakebackError):
                yield from self._forget_undo()
        except TakebackError:
            pass  # nobody can tell: what was before may be needed

    def _forget_undo(self) -> Steps[None]:
        if self._undo:
            yield self.copy.delete_snapshot(self._undo["id"])

    def _run(self, step: Step, is_step: bool) -> Steps[bool]:
        try:
            if callable(step):
                return (yield from self._call(step, is_step))
            result = yield from self._command(step)
        except DIED as error:
            yield self._note(f"({error})\n")
            return False
        if result.timed_out:
            yield self._note("(out of time)\n")
        return result.exit_code == 0 and not result.timed_out

    def _call(self, step: Callable[[Any], Any], is_step: bool) -> Steps[bool]:
        try:
            answer = yield self._source._face.bounded(step, self.copy, self._timeout, self._out_of_time)
        except Exception:
            if self._late:
                yield self._note("(out of time)\n")
            yield self._note(traceback.format_exc())
            return False
        if self._late:
            yield self._note("(out of time)\n")
            return False
        if isinstance(answer, CommandResult):
            yield self._note(answer.stdout + answer.stderr)
            return answer.exit_code == 0
        return is_step or answer is None or bool(answer)

    def _out_of_time(self) -> None:
        self._late = True

    def _command(self, command: Command) -> Steps[CommandResult]:
        yield self._note(f"$ {command if isinstance(command, str) else ' '.join(command)}\n")
        result: CommandResult = yield self.copy.exec(
            command, on_stdout=self._note, on_stderr=self._note, **self._options
        )
        return result

    def _note(self, text: str) -> Any:
        self._log = (self._log + text)[-_LOG:]
        return None if self._on_output is None else self._on_output(text)


def fork(source: Any, count: int, *, offline: bool, timeout: float, undo_days: int | None = None) -> Steps[list[Any]]:
    """Make copies for trials; should this program and the keeper be killed, their lease ends them."""
    wanted = {
        "count": count,
        "lease": int(2 * timeout + _SPARE_S),
        "network": {"internet": False} if offline else None,
        "keep_snapshot": undo_days is not None,
        "retention_days": undo_days,
    }
    infos = yield source._face.run(source._client, operations.fork(source._client, source.id, wanted))
    return [type(source)(source._client, info, ours=True) for info in infos]
