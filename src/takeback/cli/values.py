"""Durations, sizes and ages as people write and read them: `10m`, `2h30m`, `500M`, `3 min ago`.

Does not cover: dates, calendars, time zones. Units of size are powers of 1024.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TypeVar

import click

T = TypeVar("T")

_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}
_DURATION_PART = re.compile(r"(\d+(?:\.\d+)?)([smhdw])")
_SIZES = {"": 1, "k": 1024, "m": 1024**2, "g": 1024**3, "t": 1024**4}
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([kmgt]?)(?:i?b)?", re.IGNORECASE)


def parse_duration(text: str, *, bare_seconds: bool = False) -> float:
    """Return the seconds in `text`: numbers with s, m, h, d or w, largest first or in any order, added up.

    A number without a unit is accepted as seconds only with `bare_seconds`. Raises ValueError.
    """
    compact = text.strip().lower().replace(" ", "")
    if bare_seconds and re.fullmatch(r"\d+(\.\d+)?", compact):
        return float(compact)
    parts = _DURATION_PART.findall(compact)
    if not parts or "".join(number + unit for number, unit in parts) != compact:
        raise ValueError(f"{text!r} is not a duration; write it like 30s, 10m, 2h or 7d")
    return sum(float(number) * _SECONDS[unit] for number, unit in parts)


def parse_size(text: str) -> int:
    """Return the bytes in `text`: a number, alone or with K, M, G or T (powers of 1024). Raises ValueError."""
    found = _SIZE.fullmatch(text.strip())
    if found is None:
        raise ValueError(f"{text!r} is not a size; write it like 500M or 2G")
    return int(float(found[1]) * _SIZES[found[2].lower()])


def format_size(size: int) -> str:
    """Return `size` bytes in the largest unit that leaves a number of at least 1."""
    value = float(size)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(value) < 1024:
            return f"{value:.0f} {unit}" if unit == "B" or value >= 100 else f"{value:.1f} {unit}"
        value /= 1024
    return f"{value:.1f} TiB"


def format_span(seconds: float) -> str:
    """Return a length of time in one unit: `0.4 s`, `3 min`, `2 h`, `5 days`."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    if seconds < 60:
        return f"{seconds:.0f} s"
    if seconds < 3600:
        return f"{seconds // 60:.0f} min"
    if seconds < 2 * 86400:
        return f"{seconds // 3600:.0f} h"
    return f"{seconds // 86400:.0f} days"


def format_age(seconds: float) -> str:
    """Return how long ago something was; a clock that was set back counts as now."""
    return "just now" if seconds < 1 else f"{format_span(seconds)} ago"


def duration(ctx: click.Context, param: click.Parameter, value: str | None) -> float | None:
    """A click callback: the value in seconds; a unit is required, so that `--older-than 7` cannot mean 7 seconds."""
    return _converted(ctx, param, value, parse_duration)


def timeout(ctx: click.Context, param: click.Parameter, value: str | None) -> float | None:
    """A click callback: the value in seconds, which may stand without a unit."""
    return _converted(ctx, param, value, lambda text: parse_duration(text, bare_seconds=True))


def size(ctx: click.Context, param: click.Parameter, value: str | None) -> int | None:
    """A click callback: the value in bytes."""
    return _converted(ctx, param, value, parse_size)


def _converted(ctx: click.Context, param: click.Parameter, value: str | None, parse: Callable[[str], T]) -> T | None:
    if value is None:
        return None
    try:
        return parse(value)
    except ValueError as error:
        raise click.BadParameter(str(error), ctx, param) from None
