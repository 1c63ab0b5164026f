"""Steps: a block or a command recorded with a checkpoint before and after it."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from takeback.app.finding import here
from takeback.app.opened import Opened
from takeback.files import steps, views
from takeback.host import command
from takeback.model import Event, EventKind, StepResult


def in_words(argv: Sequence[str], shell_source: str | None) -> str:
    """Return a command as the log and the guard name it."""
    return shell_source if shell_source is not None else " ".join(argv)


def to_run(argv: Sequence[str], shell_source: str | None) -> list[str]:
    """Return the words that run a command: those of a shell for shell source."""
    return ["/bin/sh", "-c", shell_source] if shell_source is not None else list(argv)


class Stepping(Opened):
    """What records steps."""

    @contextmanager
    def step(
        self,
        text: str,
        *,
        session: str | None = None,
        task: str | None = None,
        paths: Sequence[str | bytes] = (),
        state: bool = True,
    ) -> Iterator[str]:
        """Record the block as one step and give its id; `paths` name what it owns when others work at the same time."""
        named = self._inside(paths)
        if self._paused_until():
            yield ""
            return
        step = self._begin(text, session, task, named, state)
        data: dict[str, object] = {"exit": 0}
        try:
            yield step.id
        except BaseException as error:
            data = {"exit": 1, "error": type(error).__name__}
            raise
        finally:
            self._finish(step, state, data)

    def run(
        self,
        argv: Sequence[str],
        *,
        shell_source: str | None = None,
        session: str | None = None,
        task: str | None = None,
        message: str = "",
        timeout: float | None = None,
        state: bool = True,
        stdout_fd: int = 1,
        cwd: str | bytes | None = None,
        terminal: bool = True,
        starting: Callable[[], None] | None = None,
    ) -> StepResult:
        """Run a command as one step, in `cwd` (the current directory when None), and record it.

        `terminal`: it gets the terminal itself where there is one, and then no end of its output is kept.
        `starting` is called when all is saved, right before it starts.
        `timeout` in seconds; a command that cannot be started ends with 127 or 126, as in a shell.
        """
        started = time.monotonic()
        cwd = os.fsencode(cwd) if cwd is not None else here()
        text = message or in_words(argv, shell_source)
        named = steps.named_paths(argv, shell_source, os.path.realpath(cwd), self.root)
        step = self._begin(text, session, task, named, state)
        ran = command.Ran(1, b"", False)
        try:
            if starting is not None:
                starting()
            keep = self._w.settings.output_tail
            ran = command.run_or_say(
                to_run(argv, shell_source), cwd=cwd, timeout=timeout, stdout_fd=stdout_fd, keep=keep, terminal=terminal
            )
        finally:
            tail = ran.tail.decode("utf-8", "replace")
            after, changed = self._finish(step, state, {"exit": ran.exit, "tail": tail, "timed_out": ran.timed_out})
        return StepResult(
            id=step.id,
            before=step.before,
            after=after,
            exit=ran.exit,
            timed_out=ran.timed_out,
            changed=changed,
            ms=(time.monotonic() - started) * 1000,
            undo_with=f"takeback undo {step.id}" if step.before != after else "",
            tail=tail,
        )

    def mark_prompt(self, text: str = "", *, session: str | None = None, task: str | None = None) -> str:
        """Record that a person gave an agent a new prompt: what `undo(prompt=True)` goes back to."""
        with self._working("prompt"):
            event = self._recorder.event(
                EventKind.PROMPT,
                lambda id: Event(
                    seq=0,
                    id=id,
                    kind=EventKind.PROMPT,
                    at_ns=time.time_ns(),
                    worktree=self._w.dir.key,
                    session=session,
                    task=task,
                    text=text,
                ),
            )
            return event.id

    def _begin(
        self, text: str, session: str | None, task: str | None, named: Sequence[bytes], state: bool
    ) -> steps.Open:
        with self._working("step"):
            self._timeline()
            return steps.begin(
                self._w, self._recorder, text=text, session=session, task=task, named=named, state=state,
                owner=steps.me(),
            )  # fmt: skip

    def _finish(self, step: steps.Open, state: bool, data: dict[str, object]) -> tuple[str, int]:
        with self._working("step", remake=True):
            after = steps.finish(self._w, self._recorder, step, state=state, data=data)
        return after, views.count_changes(self._w, self._checkpoint(step.before), self._checkpoint(after))
