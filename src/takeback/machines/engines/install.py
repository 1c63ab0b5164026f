"""Which `runsc` is used, and getting one into takeback's own folder.

An own one (DATA/machines/engine/runsc-VERSION/runsc) goes before any on PATH: whoever has an old one there keeps it.

Does not cover: where one is fetched (`debian_package`, `release`), or what the engine can do on this host (`gvisor`).
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from takeback.errors import EngineMissing, EngineTooOld, FetchFailed, ToolMissing
from takeback.host import tools
from takeback.machines.making import Report, alone, put, scratch, silent

_ASK_SECONDS = 20.0


@dataclass(frozen=True, order=True)
class Build:
    """A build of runsc by its date, as in `0.0~20240729.0` and `release-20240729.0`."""

    date: int
    point: int = 0

    def __str__(self) -> str:
        return f"{self.date}.{self.point}"


# What needs it: snapshots of a machine that goes on running. Before 2024, `checkpoint --leave-running` ended the source
# and never returned, a connected TCP socket (loopback too) made it fail and left the source stopped, and images were
# always compressed. 20240729 is the oldest that all of takeback's tests pass with.
MINIMUM = Build(20240729)
WHY_NOT_OLDER = "a snapshot with an older one can end the machine that is saved, or never return"


@dataclass(frozen=True)
class Found:
    """One runsc: where, which build (None: it does not say), if takeback put it there, and why it is not usable."""

    path: Path
    build: Build | None
    own: bool
    why_not: str = ""


@dataclass(frozen=True)
class Fetched:
    """What a way of getting one brought: the program, and from where in words."""

    program: Path
    source: str


Way = Callable[[Path, Report], Fetched]


def parse_build(text: str) -> Build | None:
    """Return the build that `runsc --version` or a package's version names, or None."""
    found = re.search(r"\b(20\d{6})(?:\.(\d+))?", text)
    return Build(int(found[1]), int(found[2] or 0)) if found else None


def look_at(path: Path, *, own: bool = False) -> Found:
    """Ask a runsc for its build; `why_not` says what keeps it from being used."""
    code, said = tools.ask([os.fspath(path), "--version"], timeout=_ASK_SECONDS)
    line = next(iter(said.splitlines()), "")
    if code != 0 or "runsc" not in line:
        return Found(path, None, own, f"it does not run: {said.strip()[:200] or f'exit code {code}'}")
    build = parse_build(line)
    if build is None:
        return Found(path, None, own, f"it does not tell its build: {line[:200]}")
    if build < MINIMUM:
        return Found(path, build, own, f"older than {MINIMUM}: {WHY_NOT_OLDER}")
    return Found(path, build, own)


def candidates(folder: Path, search: str) -> list[Found]:
    """Return every runsc there is, the preferred first: own ones from new to old, then those on the path `search`."""
    own = [look_at(path, own=True) for path in folder.glob("runsc-*/runsc")]
    own.sort(key=lambda one: one.build or Build(0), reverse=True)
    seen: list[Path] = []
    for directory in search.split(os.pathsep):
        path = Path(directory or ".") / "runsc"
        if os.access(path, os.X_OK) and path.is_file() and path.resolve() not in [one.resolve() for one in seen]:
            seen.append(path)
    return own + [look_at(path) for path in seen]


def find(folder: Path, search: str) -> Found:
    """Return the runsc to use. Raises EngineMissing, and EngineTooOld about the best that there is."""
    found = candidates(folder, search)
    for one in found:
        if not one.why_not:
            return one
    old = [one for one in found if one.build is not None]
    if old:
        best = max(old, key=lambda one: one.build or Build(0))
        raise EngineTooOld(path=os.fspath(best.path), found=best.build, minimum=MINIMUM, why=WHY_NOT_OLDER)
    raise EngineMissing(folder=os.fspath(folder))


def ensure(folder: Path, search: str, *, report: Report = silent, ways: Sequence[Way] | None = None) -> Found:
    """Return the runsc to use, getting one first if there is none.

    Raises FetchFailed, ToolMissing, DiskFull, CannotWrite, Busy; then nothing half-made is left.
    """
    try:
        return find(folder, search)
    except (EngineMissing, EngineTooOld):
        pass
    with alone(folder, "setup of the engine", report):
        try:
            return find(folder, search)
        except (EngineMissing, EngineTooOld):
            return _get(folder, _all_ways() if ways is None else ways, report)


def _all_ways() -> tuple[Way, ...]:
    from takeback.machines.engines import debian_package, release

    return (debian_package.fetch, release.fetch)


def _get(folder: Path, ways: Sequence[Way], report: Report) -> Found:
    reasons: list[str] = []
    for way in ways:
        with scratch(folder) as work:
            fetched_in, made = work / "fetched", work / "made"
            fetched_in.mkdir()
            made.mkdir()
            program = made / "runsc"
            try:
                fetched = way(fetched_in, report)
            except ToolMissing as error:
                if not reasons:
                    raise
                reasons.append(str(error))
                continue
            except FetchFailed as error:
                reasons.append(str(error))
                continue
            os.replace(fetched.program, program)
            os.chmod(program, 0o755)
            found = look_at(program, own=True)
            if found.why_not or found.build is None:
                reasons.append(f"{fetched.source}: {found.why_not}")
                continue
            _describe(made, found.build, fetched)
            target = folder / f"runsc-{found.build}"
            put(made, target)
            return replace(found, path=target / "runsc")
    raise FetchFailed(what=f"a runsc of {MINIMUM} or newer", why="; ".join(reasons) or "no way to get one here")


def _describe(made: Path, build: Build, fetched: Fetched) -> None:
    digest = hashlib.sha256((made / "runsc").read_bytes()).hexdigest()
    record = {"schema": 1, "version": str(build), "source": fetched.source, "sha256": digest}
    (made / "engine.json").write_text(json.dumps(record, indent=1) + "\n")
