"""How the benchmarks measure: pairs run in turn, medians, one table.

Does not cover: what is measured (see `files`, `peers`).
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

Work = Callable[[], object]

# A child counts what its parent held at the fork as its own peak (getrusage(2)), so a small process starts it.
_WAIT = """
import os, sys
pid = os.posix_spawnp(sys.argv[1], sys.argv[1:], os.environ, file_actions=[
    (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)])
_, status, usage = os.wait4(pid, 0)
print(usage.ru_maxrss)
sys.exit(os.waitstatus_to_exitcode(status))
"""


@dataclass(frozen=True)
class Row:
    """One line of the table; `verdict` is True when the target is met, None when there is none."""

    what: str
    ours: str
    against: str
    theirs: str
    ratio: str
    target: str
    verdict: bool | None


def seconds(work: Work) -> float:
    """Return how long one call takes."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def in_turn(
    ours: Work, theirs: Work, *, runs: int, prepare: Work = lambda: None, rest: Work = lambda: None, warm: int = 1
) -> tuple[list[float], list[float]]:
    """Run both by turns, who goes first by turns too; untimed go `prepare` before each pair, `rest` before each run.

    Returns the times of `runs` pairs in seconds; `warm` pairs before them are not counted.
    """
    mine: list[float] = []
    other: list[float] = []
    for number in range(-warm, runs):
        prepare()
        times = {}
        for side in (ours, theirs) if number % 2 else (theirs, ours):
            rest()
            times[side] = seconds(side)
        one, two = times[ours], times[theirs]
        if number >= 0:
            mine.append(one)
            other.append(two)
    return mine, other


def ratio(ours: Sequence[float], theirs: Sequence[float], *, allowance: float = 0.0) -> float:
    """Return the median of the pairs' ratios, after `allowance` seconds are taken off each of ours."""
    return statistics.median((one - allowance) / two for one, two in zip(ours, theirs, strict=True))


def ms(times: Sequence[float]) -> str:
    """Return the median in milliseconds, of short ones the tenths too."""
    middle = statistics.median(times) * 1000
    return f"{middle:.1f} ms" if middle < 20 else f"{middle:.0f} ms"


def run(argv: Sequence[str], *, cwd: str | None = None, env: Mapping[str, str] | None = None) -> None:
    """Run a program with its output thrown away; an error ends the benchmark with what was said."""
    done = subprocess.run(argv, cwd=cwd, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(argv)} ended with {done.returncode}:\n{done.stderr.decode(errors='replace')}")


def peak_rss(argv: Sequence[str], *, cwd: str, env: Mapping[str, str]) -> int:
    """Return the largest resident size, in bytes, of a program or any child it waited for."""
    done = subprocess.run([sys.executable, "-I", "-S", "-c", _WAIT, *argv], cwd=cwd, env=env, capture_output=True)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(argv)} ended with {done.returncode}: {done.stderr.decode(errors='replace')}")
    return int(done.stdout.split()[-1]) * 1024


def disk(*directories: str) -> int:
    """Return the bytes of all files below the directories; a file with two names counts once."""
    seen: dict[tuple[int, int], int] = {}
    for top in directories:
        for directory, _, names in os.walk(top):
            for name in names:
                found = os.lstat(os.path.join(directory, name))
                seen[found.st_dev, found.st_ino] = found.st_size
    return sum(seen.values())


def table(title: str, rows: Sequence[Row]) -> str:
    """Return the rows as a Markdown table."""
    lines = [title, "", "| what | takeback | against | that | ratio | target | |", "|---|---|---|---|---|---|---|"]
    for row in rows:
        verdict = {True: "ok", False: "OVER", None: ""}[row.verdict]
        cells = (row.what, row.ours, row.against, row.theirs, row.ratio, row.target, verdict)
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)
