"""Which mirrors the user's own apt knows: no name of one is written anywhere in takeback.

Does not cover: fetching from them (`apt`).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path

from takeback.host import system, tools

_ASK_SECONDS = 30.0
_FORM = "\t".join(("$(SITE)", "$(RELEASE)", "$(COMPONENT)", "$(SOURCESENTRY)", "$(ORIGIN)"))
_FETCHABLE = ("http://", "https://", "file:", "mirror")
_SAME_RELEASE = ("stable", "oldstable", "testing", "unstable", "sid")
ARCHIVE_KEYS = "/usr/share/keyrings/debian-archive-keyring.gpg"


@dataclass(frozen=True)
class Source:
    """One suite of one mirror; `signed_by` is a comma-separated list of keyrings, empty for apt's trusted ones.

    `origin` is what its Release file says of itself, empty when apt has not fetched that yet.
    """

    mirror: str
    suite: str
    components: tuple[str, ...] = ("main",)
    signed_by: str = ""
    origin: str = ""

    def line(self) -> str:
        """Return it in the one-line form of sources.list(5)."""
        keys = f"[signed-by={self.signed_by}] " if self.signed_by else ""
        return f"deb {keys}{self.mirror} {self.suite} {' '.join(self.components)}"


def sources() -> tuple[Source, ...]:
    """Return the user's own binary sources, as apt reads them from all its files; empty where there is no apt."""
    code, said = tools.ask(
        ["apt-get", "indextargets", "--format", _FORM, "Created-By: Packages"], timeout=_ASK_SECONDS, split=True
    )
    found: list[Source] = []
    for line in said.splitlines() if code == 0 else ():
        if line.count("\t") != 4:
            continue
        site, release, component, entry, origin = line.split("\t")
        origin = "" if origin.startswith("$") else origin
        source = Source(site, release, (component,), keyrings(Path(entry.rpartition(":")[0])), origin)
        if site.startswith(_FETCHABLE) and source not in found:
            found.append(source)
    return tuple(found)


def keyrings(file: Path) -> str:
    """Return the keyrings that a sources file names, in either form; apt does not tell them with its targets."""
    try:
        text = file.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    found: list[str] = []
    for deb822, one_line in re.findall(r"(?im)^signed-by:(.*)$|^[^#\n]*\bsigned-by=([^\s\]]+)", text):
        for word in re.split(r"[\s,]+", deb822 or one_line):
            if word.startswith("/") and word not in found:
                found.append(word)
    return ",".join(found)


def debian_source(suite: str, known: tuple[Source, ...] | None = None) -> Source | None:
    """Return a suite of Debian on the mirror that this Debian's own packages come from; None where there is none."""
    mine = system.debian()
    here = sources() if known is None else known
    usable = [
        one
        for one in here
        if mine and "main" in one.components and one.suite in (mine, *_SAME_RELEASE) and one.origin in ("", "Debian")
    ]

    def likely(one: Source) -> tuple[bool, bool, bool]:
        # Others' repositories too have suites and components of these names; before the first `apt-get update`
        # nothing says whose they are.
        updates = any(other.mirror == one.mirror and other.suite.endswith("-updates") for other in here)
        return one.origin == "Debian", updates, one.mirror.rstrip("/").endswith("/debian")

    best = max(usable, key=likely, default=None)
    return replace(best, suite=suite, components=("main",)) if best else None


def security_source(suite: str, known: tuple[Source, ...]) -> Source | None:
    """Return the user's own source of security updates for a suite of Debian, if there is one."""
    wanted = (f"{suite}-security", f"{suite}/updates")
    return next((one for one in known if one.suite in wanted and "main" in one.components), None)
