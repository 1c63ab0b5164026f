"""Get runsc from its makers' own releases, for systems that have no package of it.

Layout: https://gvisor.dev/docs/user_guide/install/ (BASE/VERSION/ARCHITECTURE/runsc and runsc.sha512, as sha512sum
writes it).

Does not cover: Debian (`debian_package`).
"""

from __future__ import annotations

import hashlib
from pathlib import Path

from takeback.errors import FetchFailed
from takeback.host import fetch as fetching
from takeback.host import system
from takeback.machines.engines.install import Fetched
from takeback.machines.making import Report

BASE = "https://storage.googleapis.com/gvisor/releases/release"
VERSION = "20240729"  # a release never changes; this is the build that takeback is tested with
_ARCHITECTURES = ("x86_64", "aarch64")


def fetch(work: Path, report: Report, *, base: str = BASE, version: str = VERSION) -> Fetched:
    """Fetch the program and check it against its checksum. Raises FetchFailed, ToolMissing."""
    architecture = system.architecture()
    if architecture not in _ARCHITECTURES:
        raise FetchFailed(what="a release of runsc", why=f"there is none for {architecture}")
    url = f"{base}/{version}/{architecture}/runsc"
    program, checksum = work / "runsc", work / "runsc.sha512"
    report(f"fetching runsc {version}")
    fetching.fetch(f"{url}.sha512", checksum, timeout=60.0)
    fetching.fetch(url, program)
    wanted = (checksum.read_text(errors="replace").split() or [""])[0].lower()
    with open(program, "rb") as file:
        found = hashlib.file_digest(file, "sha512").hexdigest()
    if found != wanted:
        program.unlink()
        raise FetchFailed(what=url, why=f"its SHA-512 is {found[:16]}..., not {wanted[:16]}... as published")
    return Fetched(program, url)
