"""Steps under the guard: sorted, saved as far as they reach, run, checked, and taken back when they failed.

    judge    what a step is and what is done about it, before anything happens
    guarded  run a command under that decision

Does not cover: what a class means (`guard`), who approves what is held (`holding`), or hooks of agents (`hooked`).
"""

from __future__ import annotations

import os
import shlex
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from takeback import guard, judge
from takeback.app import holding, raised
from takeback.app.finding import here
from takeback.app.stepping import Stepping, in_words, to_run
from takeback.errors import StepDenied, StepHeld, StepUnderWay, TakebackError
from takeback.files import history, names, steps
from takeback.files import undo as undos
from takeback.guard import Verdict, What
from takeback.guard.policy import Act, Decision
from takeback.holds.agents import MARK
from takeback.holds.model import Request, Told
from takeback.host import command
from takeback.model import Check, CheckpointResult, Kind, RestoreResult, StepResult
from takeback.redact import redacted
from takeback.timeline.fold import Scope

_SHOWN = 5  # paths in one sentence


@dataclass(frozen=True)
class Judged:
    """What is known of a step before it happens."""

    verdict: Verdict
    decision: Decision
    names: tuple[str, ...]  # under which it would be remembered, should it do more

    @property
    def reaches_history(self) -> bool:
        """Whether the step may drop what only the repository itself holds: reflogs, unnamed commits."""
        return any(one.what is What.METADATA and one.cls >= guard.Class.MACHINE for one in self.verdict.effects)

    @property
    def typed_into(self) -> bool:
        """Whether the step opens a shell or an interpreter for somebody to type into."""
        return any(one.what is What.SHELL for one in self.verdict.effects)

    def about(self) -> dict[str, object]:
        """Return what goes into the step's data."""
        told: dict[str, object] = {"cls": str(self.verdict.cls), "act": self.decision.act.value}
        if self.verdict.reason is not None:
            told["reason"] = self.verdict.reason.value
        if self.verdict.cls <= guard.Class.FILES:
            told["raises"] = list(self.names)
        return told


class Guarding(Stepping):
    """What records steps by their class."""

    def judge(
        self, argv: Sequence[str], *, shell_source: str | None = None, attended: bool = False, cwd: str | None = None
    ) -> Judged:
        """Return the class of a command and what is done about it; nothing happens."""
        context, library = judge.context(cwd), judge.library()
        if shell_source is not None:
            verdict = guard.classify(shell_source, context, library)
        else:
            verdict = guard.classify_argv(argv, context, library)
        return self._decided(verdict, in_words(argv, shell_source), attended)

    def _decided(self, verdict: Verdict, text: str, attended: bool) -> Judged:
        names = raised.names(verdict, text)
        decision = judge.decide(verdict, self.root, attended=attended, raised=raised.of(self._store, names))
        return Judged(verdict, decision, tuple(names))

    def guarded(
        self,
        argv: Sequence[str],
        *,
        shell_source: str | None = None,
        session: str | None = None,
        task: str | None = None,
        message: str = "",
        verify: Sequence[str] = (),
        timeout: float | None = None,
        state: bool | None = None,
        rollback: bool = True,
        ask: Callable[[Judged], bool] | None = None,
        stdout_fd: int = 1,
    ) -> StepResult:
        """Run a command as one step with the checkpoint its class needs, then its checks (shell source each).

        A step that fails, times out or fails a check is taken back when `rollback`. `ask` puts the question to a
        person who is there; None when there is none. `state`: save ignored files, or not, whatever the class says.
        `timeout` in seconds, for the command and for each check. Raises StepHeld, StepDenied and StepUnderWay before
        anything ran.
        """
        attended = ask is not None
        judged = self.judge(argv, shell_source=shell_source, attended=attended)
        checks = [self.judge((), shell_source=check, attended=attended) for check in verify]
        heaviest = max([judged, *checks], key=lambda one: one.decision.act.strictness)
        cwd = here()
        source, words = _held_as(argv, shell_source, verify)
        request = Request(os.fsdecode(cwd), source=source, argv=words, session=session, task=task)
        told = self._let(heaviest, ask, request, stdout_fd)
        if told is not None:
            return told
        text = message or in_words(argv, shell_source)
        if self._paused_until():
            return self._unrecorded(argv, shell_source, timeout, stdout_fd)
        kind = max((one.decision.kind for one in [judged, *checks]), key=_weight)
        if state is not None and (kind is not None or state):
            kind = Kind.STATE if state else Kind.FILES
        started = time.monotonic()
        named = steps.named_paths(argv, shell_source, os.path.realpath(cwd), self.root)
        keep_history = any(one.reaches_history for one in [judged, *checks])
        step, escapes = self._begin_of(kind, text, session, task, named, judged.about(), keep_history=keep_history)
        done: list[Check] = []
        ran = command.Ran(130, b"", False)
        try:
            ran = command.run_or_say(
                to_run(argv, shell_source), cwd=cwd, env=_marked(step.id), timeout=timeout, stdout_fd=stdout_fd,
                keep=self._tail(),
            )  # fmt: skip
            for check in verify if ran.exit == 0 else ():
                done.append(self._check(check, cwd, timeout))
                if done[-1].exit != 0:
                    break
        finally:
            data: dict[str, object] = {
                "exit": ran.exit, "tail": ran.tail.decode("utf-8", "replace"), "timed_out": ran.timed_out,
            }  # fmt: skip
            if verify:
                data["checks"] = [{"cmd": one.cmd, "exit": one.exit, "seconds": one.seconds} for one in done]
            after, changed = self._finish_of(kind, step, data)
        failed = ran.exit != 0 or any(one.exit != 0 for one in done)
        undo = f"takeback undo {step.id}" if step.before != after or "history" in step.data else ""
        result = StepResult(
            id=step.id, before=step.before, after=after, exit=ran.exit or int(failed), timed_out=ran.timed_out,
            changed=changed, ms=0, undo_with=undo, cls=str(judged.verdict.cls),
            reason=judged.verdict.reason.value if judged.verdict.reason else "", checkpoint=kind, checks=tuple(done),
            covers="project" if judged.verdict.cls >= guard.Class.MACHINE else "all", escapes=escapes,
        )  # fmt: skip
        # A shell ends with the code of the last command typed: to its person, who is there, nothing has failed. And who
        # pressed Ctrl-C is there, and may want to see how far it came.
        own = attended and judged.typed_into and not verify and not ran.timed_out
        if failed and rollback and not own and not ran.interrupted and result.before != result.after:
            result = self._roll_back(result, session, task)
        return replace(result, ms=(time.monotonic() - started) * 1000)

    def _let(
        self, judged: Judged, ask: Callable[[Judged], bool] | None, request: Request, stdout_fd: int
    ) -> StepResult | None:
        """Let a step pass (None), raise, or return the result of the run a person has approved: nothing runs again."""
        decision = judged.decision
        if decision.act is Act.ASK and ask is not None and ask(judged):
            return None
        if decision.act is Act.ASK:
            raise StepDenied(why=decision.why, next="it was not agreed to")
        if decision.act is Act.DENY:
            raise StepDenied(why=decision.why, next=f"the policy says so: {decision.rule}")
        if decision.act in (Act.HOLD, Act.COPY):
            return self._held(judged, request, stdout_fd)
        return None

    def _held(self, judged: Judged, request: Request, stdout_fd: int) -> StepResult:
        told = holding.answer(self, request)
        if told is None:
            whole = judged if request.source is None else self.judge((), shell_source=request.source)
            made = holding.hold(self, request, whole.verdict, judged.decision)
            raise StepHeld(why=judged.decision.why, id=made.id)
        one = told.hold
        if told.told is Told.DENIED:
            raise StepDenied(why=judged.decision.why, next=told.text)
        if told.told is Told.WAITING:
            raise StepHeld(why=judged.decision.why, id=one.id)
        if told.told is not Told.DONE:
            raise StepUnderWay(id=one.id, state=holding.in_words(one))
        os.write(stdout_fd, redacted(one.tail).encode("utf-8", "surrogateescape"))
        return StepResult(
            id=one.step, before="", after="", exit=one.exit or 0, timed_out=False, changed=0, ms=0,
            undo_with=f"takeback undo {one.step}", cls=one.cls, reason=one.reason or "", hold=one.id,
        )  # fmt: skip

    def _begin_of(
        self,
        kind: Kind | None,
        text: str,
        session: str | None,
        task: str | None,
        named: Sequence[bytes],
        about: dict[str, object],
        *,
        owned: bool = True,
        keep_history: bool = False,
    ) -> tuple[steps.Open, tuple[str, ...]]:
        """Take the checkpoint of a kind (None: none) and record the beginning of a step.

        `keep_history`: also save what the repository holds beside its refs. Gives the step, and the ids of the escapes
        of earlier steps that its checkpoint showed.
        """
        escapes: list[str] = []
        owner = steps.me() if owned else None
        with self._working("step"):
            timeline = self._timeline()

            def taken(checkpoint: CheckpointResult) -> dict[str, object]:
                if checkpoint.new:
                    escapes.extend(event.id for event in self._found_escapes(timeline, checkpoint.id))
                saved = history.save(self._w) if keep_history else None
                return {} if saved is None else {"history": saved}

            if kind is None:
                step = steps.read_only(
                    self._w, self._recorder, text=text, session=session, task=task, owner=owner, about=about
                )
                return step, ()
            # Ignored files are looked at once, so that a light step that changes them can be found out.
            state = kind is Kind.STATE or not self._has_state()
            step = steps.begin(
                self._w, self._recorder, text=text, session=session, task=task, named=named, state=state,
                owner=owner, about=about, taken=taken,
            )  # fmt: skip
            return step, tuple(escapes)

    def _finish_of(self, kind: Kind | None, step: steps.Open, data: dict[str, object]) -> tuple[str, int]:
        if kind is not None:
            return self._finish(step, kind is Kind.STATE, data)
        with self._working("step", remake=True):
            steps.has_read(self._w, self._recorder, step, data)
        return step.before, 0

    def _has_state(self) -> bool:
        return any(one.kind is Kind.STATE for one in self._store.checkpoints(self._w.dir.key))

    def _tail(self) -> int:
        return self._w.settings.output_tail

    def _check(self, source: str, cwd: bytes, timeout: float | None) -> Check:
        """Run a check; what it writes goes to stderr, since stdout is the step's."""
        began = time.monotonic()
        ran = command.run_or_say(
            to_run((), source), cwd=cwd, env=_marked("check"), timeout=timeout, stdout_fd=2, keep=self._tail()
        )
        return Check(source, ran.exit, round(time.monotonic() - began, 3))

    def _unrecorded(
        self, argv: Sequence[str], shell_source: str | None, timeout: float | None, stdout_fd: int
    ) -> StepResult:
        words = to_run(argv, shell_source)
        ran = command.run_or_say(words, cwd=here(), timeout=timeout, stdout_fd=stdout_fd, keep=0)
        return StepResult("", "", "", ran.exit, ran.timed_out, 0, 0, "")

    def _roll_back(self, result: StepResult, session: str | None, task: str | None) -> StepResult:
        """Take a failed step back; what stands in the way of that is said, and the step stays as it is."""
        try:
            with self._working("undo", remake=True):
                scope = Scope(self._w.dir.key, session, task)
                options = undos.Options(yes=True, auto=True)
                undone = undos.undo(
                    self._w, self._recorder, self._timeline(), scope, result.id, prompt=False, options=options
                )
        except TakebackError as error:
            return replace(result, not_rolled_back=str(error))
        return replace(
            result, rolled_back=undone.id, undo_with=undone.undo_with, not_rolled_back=_what_stays(result.id, undone)
        )


def _held_as(
    argv: Sequence[str], shell_source: str | None, verify: Sequence[str]
) -> tuple[str | None, tuple[str, ...] | None]:
    """Return source or words of what is held of a step: its checks behind it, so that an approval runs all of it."""
    if not verify:
        return shell_source, None if shell_source is not None else tuple(argv)
    step = f"({shell_source}\n)" if shell_source is not None else shlex.join(argv)
    return " && ".join((step, *(f"({check}\n)" for check in verify))), None


def _what_stays(step: str, undone: RestoreResult) -> str:
    """Say what of a step that went back did not: what it shares with others, what no undo takes back."""
    said = list(undone.not_undone)
    if undone.shared:
        shown = ", ".join(names.show(path) for path in undone.shared[:_SHOWN])
        more = f" and {len(undone.shared) - _SHOWN} more" if len(undone.shared) > _SHOWN else ""
        said.append(
            f"other steps ran meanwhile, so {shown}{more} may be theirs; `takeback undo {step} --shared` takes that too"
        )
    return "; ".join(said)


def _marked(step: str) -> dict[str, str]:
    """The environment of a step: what is only for people is refused to whatever runs in it."""
    return {**os.environ, MARK: step}


def _weight(kind: Kind | None) -> int:
    return (None, Kind.FILES, Kind.STATE).index(kind)
