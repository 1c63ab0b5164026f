"""Get runsc from Debian's own package, unpacked into takeback's folder; the system's packages and sources stay.

Debian 13 and later have a usable one in main; Debian 12's main has an old one and its backports, on the same mirror, a
usable one.

Does not cover: other systems (`release`).
"""

from __future__ import annotations

from pathlib import Path

from takeback.errors import FetchFailed
from takeback.host import apt, apt_sources, system
from takeback.machines.engines.install import MINIMUM, Build, Fetched, parse_build
from takeback.machines.making import Report

_IN_BACKPORTS = ("bookworm",)


def fetch(work: Path, report: Report) -> Fetched:
    """Fetch and unpack the package. Raises FetchFailed, also where this is no Debian."""
    mine = system.debian()
    source = apt_sources.debian_source(f"{mine}-backports" if mine in _IN_BACKPORTS else mine)
    if source is None:
        raise FetchFailed(what="Debian's package of runsc", why="no Debian suite of this machine's is in apt's sources")
    report(f"looking for runsc in Debian's {source.suite}")
    with apt.private([source]) as private:
        private.update()
        known = {version: parse_build(version) for version in private.versions("runsc")}
        version = max(known, key=lambda one: known[one] or Build(0), default="")
        build = known.get(version)
        if build is None or build < MINIMUM:
            raise FetchFailed(
                what="Debian's package of runsc", why=f"{source.suite} has {version or 'none'}, {MINIMUM} is needed"
            )
        report(f"fetching runsc {build}")
        private.unpack("runsc", work, version=version)
    return Fetched(work / "usr" / "bin" / "runsc", f"Debian {source.suite}, package runsc {version}")
