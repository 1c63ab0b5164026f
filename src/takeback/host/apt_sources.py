"""Which mirrors the user's own apt knows: no name of one is written anywhere in takeback.

Does not cover: fetching from them (`apt`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from takeback.host import system, tools

_ASK_SECONDS = 30.0
_FORM = "$(SITE)\t$(RELEASE)\t$(ORIGIN)"
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


def sources(etc: Path = Path("/etc/apt")) -> tuple[Source, ...]:
    """Return the user's own binary sources, from all files of sources.list(5) in both forms."""
    origins = _origins()
    found: list[Source] = []
    for file in [etc / "sources.list", *sorted((etc / "sources.list.d").glob("*"))]:
        read = {".list": _one_line, ".sources": _stanzas}.get(file.suffix)
        if read is None:
            continue
        try:
            text = file.read_text(encoding="utf-8", errors="replace")
        except OSError:
            continue
        for source in read(text):
            known = replace(source, origin=origins.get((source.mirror.rstrip("/"), source.suite), ""))
            if source.mirror.startswith(_FETCHABLE) and known not in found:
                found.append(known)
    return tuple(found)


def _one_line(text: str) -> Iterator[Source]:
    for line in text.splitlines():
        row = re.match(r"\s*deb\s+(?:\[([^\]]*)\]\s+)?(\S+)\s+(\S+)\s*([^#]*)", line)
        if row:
            options = dict(re.findall(r"(\S+?)=(\S+)", row[1] or ""))
            yield Source(row[2], row[3], tuple(row[4].split()), _keyrings(options.get("signed-by", "")))


def _stanzas(text: str) -> Iterator[Source]:
    kept = "\n".join(line for line in text.splitlines() if not line.startswith("#"))
    for stanza in re.split(r"\n\s*\n", kept):
        fields = {
            name.lower(): " ".join(value.split())
            for name, value in re.findall(r"(?m)^([\w-]+):((?:.*)(?:\n[ \t].*)*)", stanza)
        }
        if "deb" not in fields.get("types", "").split() or fields.get("enabled", "yes").lower() in ("no", "false", "0"):
            continue
        components = tuple(fields.get("components", "").split())
        for mirror in fields.get("uris", "").split():
            for suite in fields.get("suites", "").split():
                yield Source(mirror, suite, components, _keyrings(fields.get("signed-by", "")))


def _keyrings(value: str) -> str:
    """Return the files that a Signed-By names; a key in the sources file itself, or only a fingerprint, is no file."""
    return ",".join(word for word in re.split(r"[\s,]+", value) if word.startswith("/") and "-----" not in value)


def _origins() -> dict[tuple[str, str], str]:
    """Return what the Release files that apt has fetched say of themselves, by mirror and suite."""
    code, said = tools.ask(
        ["apt-get", "indextargets", "--format", _FORM, "Created-By: Packages"], timeout=_ASK_SECONDS, split=True
    )
    rows = [line.split("\t") for line in said.splitlines()] if code == 0 else []
    return {(row[0].rstrip("/"), row[1]): row[2] for row in rows if len(row) == 3 and not row[2].startswith("$")}


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
