"""A progress bar on stderr for work that takes longer than a moment, when a person is watching.

Does not cover: what is measured; the library calls `report(what, done, total)` from its own loops.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

from takeback.cli.output import Face, is_terminal

Report = Callable[[str, int, int], None]

# Shorter work is over before a bar could be read, and importing rich costs 58 ms.
_DELAY = 0.5


@contextmanager
def reporting(face: Face) -> Iterator[Report | None]:
    """Give a function to report progress to, or None when nobody watches; the bar is gone at the end."""
    if face.quiet or face.json or not is_terminal(sys.stderr):
        yield None
        return
    with ExitStack() as stack:
        yield _Bar(stack).report


class _Bar:
    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack
        self._started = time.monotonic()
        self._update: Report | None = None

    def report(self, what: str, done: int, total: int) -> None:
        if self._update is None:
            if time.monotonic() - self._started < _DELAY:
                return
            self._update = self._draw()
        self._update(what, done, total)

    def _draw(self) -> Report:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

        bar = self._stack.enter_context(
            Progress(
                TextColumn("{task.description}", markup=False),
                BarColumn(),
                MofNCompleteColumn(),
                TimeRemainingColumn(),
                console=Console(stderr=True),
                transient=True,
            )
        )
        tasks: dict[str, TaskID] = {}

        def update(what: str, done: int, total: int) -> None:
            if what not in tasks:
                tasks[what] = bar.add_task(what, total=total or None)
            bar.update(tasks[what], completed=done, total=total or None)

        return update
