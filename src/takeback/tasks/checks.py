"""Run the checks of a task: shell source each, in a tree, with a time of its own; the exit code alone counts.

Does not cover: what a failure leads to (`run`).
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from takeback.host import usergit
from takeback.host.headless import Runner
from takeback.tasks.model import Check

_TAIL = 4000


@dataclass(frozen=True)
class Checker:
    """Runs checks in one environment; `timeout` in seconds is each check's own."""

    runner: Runner
    env: Mapping[str, str]
    timeout: float
    say: Callable[[str], None]
    marker: str  # names the checks of one task alone on the whole machine

    def run(self, cmds: Sequence[str], cwd: bytes, output: Callable[[int], Path], *, task: str) -> list[Check]:
        """Run all of them, also after one has failed; `output` names the file for the output of each, from 1."""
        return [self.one(cmd, cwd, output(number), task=task) for number, cmd in enumerate(cmds, 1)]

    def one(self, cmd: str, cwd: bytes, output: Path, *, task: str) -> Check:
        """Run one check. A process it leaves behind is ended with it."""
        where = os.fsdecode(cwd)
        # Where the tree of a repository begins; a project may also be a folder of one.
        env = usergit.environment(self.env, top=cwd if os.path.lexists(os.path.join(cwd, b".git")) else None)
        began = time.monotonic()
        ended = self.runner.run(
            ["/bin/sh", "-c", cmd], cwd=where, env={**env, "PWD": where, "TASK_ID": task},
            output=os.fspath(output), marker=self.marker, timeout=self.timeout,
        )  # fmt: skip
        code = 124 if ended.timed_out else ended.exit
        check = Check(cmd, code, round(time.monotonic() - began, 3), os.fspath(output))
        self.say(f"check `{cmd}`: {said(check)}")
        return check


def said(check: Check) -> str:
    """Return how a check ended, in words."""
    if check.exit == 124:
        return f"out of time after {check.seconds:.1f} s"
    return "ok" if check.exit == 0 else f"exit code {check.exit}"


def tail(output: str, most: int = _TAIL) -> str:
    """Return the end of a file of output, at whole lines."""
    try:
        raw = Path(output).read_bytes()
    except OSError:
        return ""
    text = raw[-most:].decode("utf-8", "replace")
    return (text.partition("\n")[2] or text) if len(raw) > most else text


def quoted(output: str) -> str:
    """Return the end of a file of output for the end of a sentence: on lines of its own, or that there was none."""
    said = tail(output, 1200).strip()
    return f":\n{said}" if said else ", and said nothing"
