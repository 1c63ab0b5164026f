"""Regular expressions that are compiled when they are first used: a hook reads one command, and needs few of them.

Does not cover: patterns over bytes.
"""

from __future__ import annotations

import re
from typing import Any, cast

_METHODS = ("match", "fullmatch", "search", "sub", "finditer", "findall", "pattern")


class _Later:
    def __init__(self, source: str, flags: int) -> None:
        self._given = (source, flags)

    def __getattr__(self, name: str) -> Any:
        if name not in _METHODS:
            raise AttributeError(name)
        compiled = re.compile(*self._given)
        for method in _METHODS:
            setattr(self, method, getattr(compiled, method))
        return getattr(compiled, name)


def pattern(source: str, flags: int = 0) -> re.Pattern[str]:
    """Return what works as `re.compile(source, flags)`."""
    return cast("re.Pattern[str]", _Later(source, flags))
