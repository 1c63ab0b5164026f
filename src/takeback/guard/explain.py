"""Draws a verdict: what was read, how each command is reached, and what each does.

Does not cover: writing it out; text of the command is as it came, so a face must make it printable.
"""

from __future__ import annotations

from collections.abc import Iterator

from takeback.guard.model import Class, Effect, Part, Verdict
from takeback.redact import redacted

_SPAN = 100


def lines(verdict: Verdict) -> Iterator[str]:
    """Yield the lines of the drawing."""
    reason = f" ({verdict.reason.value})" if verdict.reason else ""
    yield f"class       {verdict.cls}{reason}"
    yield f"why         {verdict.why}"
    yield f"checkpoint  {_covers(verdict)}"
    if verdict.brake:
        yield "            and it reaches for what holds agents back"
    yield ""
    yield from _part(verdict.part, "", "")


def _covers(verdict: Verdict) -> str:
    if verdict.cls is Class.NONE:
        return "none is needed"
    if verdict.cls is Class.OUTSIDE:
        return "none takes this back"
    kind = verdict.checkpoint.value if verdict.checkpoint else ""
    return f"{kind}, which covers the project only" if verdict.cls is Class.MACHINE else kind


def _part(part: Part, first: str, rest: str) -> Iterator[str]:
    while not part.effects and len(part.parts) == 1 and part.text in ("", part.parts[0].text) and not part.how:
        part = part.parts[0]
    yield first + _title(part)
    below: list[Effect | Part] = [*_told(part.effects), *part.parts]
    for number, one in enumerate(below):
        last = number == len(below) - 1
        if isinstance(one, Effect):
            yield f"{rest}{'└' if last else '├'}─ {one.cls!s:<8} {one.why}"
        else:
            yield from _part(one, f"{rest}{'└' if last else '├'}─ ", rest + ("   " if last else "│  "))


def _told(effects: list[Effect]) -> list[Effect]:
    return list(dict.fromkeys(effects))


def _title(part: Part) -> str:
    text = " ⏎ ".join(redacted(part.text).strip().splitlines())  # before it is cut: half a key has no shape
    if len(text) > _SPAN:
        text = text[: _SPAN - 1] + "…"
    return f"{part.how}: {text}" if part.how and text else part.how or text
