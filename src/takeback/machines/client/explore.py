"""Try several candidates, each in a copy of its own, at once, and keep one.

Does not cover: what one trial is (`trial`). Workers are threads for a Sandbox and tasks for an AsyncSandbox; what they
do is written once (`faces`).
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Coroutine, Mapping, Sequence
from contextlib import suppress
from typing import Any, Generic, NamedTuple, overload

from takeback.errors import TakebackError, UsageError
from takeback.machines.client.aio import AsyncSandbox
from takeback.machines.client.faces import Steps, later, now
from takeback.machines.client.sandbox import Sandbox
from takeback.machines.client.trial import Candidate, S, Score, Step, fork

_PATIENCE_S = 10.0


class Tried(NamedTuple):
    """How one candidate fared: its place among the steps, and why it could not be tried when `error` is given."""

    number: int
    passed: bool
    score: float | None
    log: str
    error: Exception | None = None


class Exploration(NamedTuple, Generic[S]):
    """`kept` goes on, `best` is the number of the step it ran (None: the original), `tried` holds what was tried."""

    kept: S
    best: int | None
    tried: list[Tried]

    @property
    def passed(self) -> bool:
        return self.best is not None


@overload
def explore(
    sandbox: Sandbox,
    steps: Sequence[Step],
    verify: Step | None = None,
    parallel: int = 4,
    *,
    score: Score | None = None,
    offline: bool = True,
    cwd: str | None = None,
    timeout: float = 600,
    user: str | None = None,
    env: Mapping[str, str] | None = None,
) -> Exploration[Sandbox]: ...


@overload
def explore(
    sandbox: AsyncSandbox,
    steps: Sequence[Step],
    verify: Step | None = None,
    parallel: int = 4,
    *,
    score: Score | None = None,
    offline: bool = True,
    cwd: str | None = None,
    timeout: float = 600,
    user: str | None = None,
    env: Mapping[str, str] | None = None,
) -> Coroutine[Any, Any, Exploration[AsyncSandbox]]: ...


def explore(
    sandbox: Any,
    steps: Sequence[Step],
    verify: Step | None = None,
    parallel: int = 4,
    *,
    score: Score | None = None,
    offline: bool = True,
    cwd: str | None = None,
    timeout: float = 600,
    user: str | None = None,
    env: Mapping[str, str] | None = None,
) -> Any:
    """Try each step in its own copy, `parallel` at a time, and keep the first that passes, or the best by `score`.

    All copies are of the same moment unless there are more steps than `parallel`. The highest score is the best; with
    none that passes, or on any error of ours or Ctrl-C, the original is kept. Every other copy is deleted.
    Raises UsageError, and what fork raises. Of an AsyncSandbox the Exploration is to be awaited.
    """
    if not steps or parallel < 1:
        raise UsageError(detail="explore needs at least one step, and parallel of at least 1")
    options: dict[str, object] = {"cwd": cwd, "user": user, "env": env}
    race = _Race(sandbox, steps, verify, score, offline, timeout, options)
    workers = min(parallel, len(steps))
    return race.in_tasks(workers) if isinstance(sandbox, AsyncSandbox) else race.in_threads(workers)


class _Race:
    """Workers that take the next candidate until one has won; all that is shared is changed under the lock."""

    def __init__(
        self,
        sandbox: Any,
        steps: Sequence[Step],
        verify: Step | None,
        score: Score | None,
        offline: bool,
        timeout: float,
        options: dict[str, object],
    ) -> None:
        self._sandbox, self._steps, self._verify, self._score = sandbox, steps, verify, score
        self._ready: list[Any] = []
        self._make: dict[str, Any] = {"offline": offline, "timeout": timeout, **options}
        self._over = threading.Event()
        self._waiting: queue.SimpleQueue[int] = queue.SimpleQueue()
        self._tried: list[Tried] = []
        self._running: set[Candidate] = set()
        self._best: tuple[float, Candidate, int] | None = None
        self._lock = threading.Lock()
        for number in range(len(steps)):
            self._waiting.put(number)

    def in_threads(self, parallel: int) -> Exploration[Sandbox]:
        now(self._prepare(parallel))
        try:
            workers = [threading.Thread(target=lambda: now(self._work()), daemon=True) for _ in range(parallel)]
            for worker in workers:
                worker.start()
            while any(worker.is_alive() for worker in workers) and not self._over.wait(0.05):
                pass
            now(self._end())
            until = time.monotonic() + _PATIENCE_S  # a function that hangs is left behind, without its copy
            for worker in workers:
                worker.join(max(0.0, until - time.monotonic()))
            return now(self._outcome())
        finally:
            now(self._close())

    async def in_tasks(self, parallel: int) -> Exploration[AsyncSandbox]:
        import asyncio  # half of what a blocking program would import

        await later(self._prepare(parallel))
        workers = [asyncio.create_task(later(self._work())) for _ in range(parallel)]
        try:
            left: set[asyncio.Task[None]] = set(workers)
            while left and not self._over.is_set():
                _, left = await asyncio.wait(left, return_when=asyncio.FIRST_COMPLETED)
            await later(self._end())
            if left:
                await asyncio.wait(left, timeout=_PATIENCE_S)
            return await later(self._outcome())
        finally:
            for worker in workers:
                worker.cancel()
            await asyncio.gather(*workers, return_exceptions=True)
            await later(self._close())

    def _prepare(self, parallel: int) -> Steps[None]:
        # All of one moment; copies that are needed later are made then.
        offline, timeout = self._make["offline"], self._make["timeout"]
        self._ready = yield from fork(self._sandbox, parallel, offline=offline, timeout=timeout)

    def _outcome(self) -> Steps[Exploration[Any]]:
        with self._lock:
            tried = sorted(self._tried, key=lambda one: one.number)
        if self._best is None:
            return Exploration(self._sandbox, None, tried)
        _, candidate, number = self._best
        return Exploration((yield from candidate.keep()), number, tried)

    def _close(self) -> Steps[None]:
        yield from self._end()
        if self._best is not None:
            yield from self._best[1].end()  # deletes it, unless it was kept

    def _end(self) -> Steps[None]:
        """Stop whatever still runs: a command in a copy that is deleted ends with an error."""
        with self._lock:
            self._over.set()
            running, self._running = self._running, set()
            unused, self._ready = self._ready, []
        for candidate in running:
            yield from candidate.end()
        for copy in unused:
            with suppress(TakebackError):
                yield copy.delete()

    def _work(self) -> Steps[None]:
        while not self._over.is_set():
            try:
                number = self._waiting.get_nowait()
            except queue.Empty:
                return
            try:
                yield from self._try(number)
            except Exception as error:
                self._note(Tried(number, False, None, "", error))

    def _candidate(self) -> Candidate:
        with self._lock:
            copy = self._ready.pop() if self._ready else None
        return Candidate(self._sandbox, copy=copy, **self._make)

    def _try(self, number: int) -> Steps[None]:
        candidate = self._candidate()
        yield from candidate.begin()
        with self._lock:
            late = self._over.is_set()
            if not late:
                self._running.add(candidate)
        loser: Candidate | None = candidate
        try:
            if late:
                return
            passed = yield from candidate.passes(self._steps[number], self._verify)
            value = (yield from candidate.score(self._score)) if passed and self._score is not None else None
            if passed:
                loser = self._enter(candidate, number, value)
            if loser is None or not self._over.is_set():  # else its copy was deleted under it
                self._note(Tried(number, passed, value, candidate.log))
        except Exception as error:
            if not self._over.is_set():
                self._note(Tried(number, False, None, candidate.log, error))
        finally:
            if loser is not None:
                with self._lock:
                    self._running.discard(loser)
                yield from loser.end()

    def _enter(self, candidate: Candidate, number: int, value: float | None) -> Candidate | None:
        """Take a candidate that passed for the best so far if it is; return the one that lost."""
        with self._lock:
            if candidate not in self._running:
                return candidate  # another one won, and this copy is gone
            self._running.discard(candidate)
            if self._best is not None and (value is None or value <= self._best[0]):
                return candidate
            loser = self._best[1] if self._best else None
            self._best = (0.0 if value is None else value, candidate, number)
            if self._score is None:
                self._over.set()
            return loser

    def _note(self, tried: Tried) -> None:
        with self._lock:
            self._tried.append(tried)
