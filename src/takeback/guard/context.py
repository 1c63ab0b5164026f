"""What the classifier is told of the project, since it looks at nothing itself.

Does not cover: finding these things out (`ground` does, with a few stats).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from takeback.guard.later import pattern

# What git usually does not see. With the real project at hand, `ground` asks git instead.
_USUALLY_IGNORED = pattern(
    r"(^|/)(node_modules|bower_components|\.?v?env|\.venv[\w.-]*|venv[\w.-]*|dist|build|target|coverage"
    r"|htmlcov|__pycache__"
    r"|\.next|\.nuxt|\.svelte-kit|\.turbo|\.parcel-cache|\.cache|\.tox|\.nox|\.gradle|\.terraform|\.pytest_cache"
    r"|\.mypy_cache"
    r"|\.ruff_cache|\.hypothesis|\.eggs|[^/]*\.egg-info|\.env\.[\w.-]+|\.DS_Store|[^/]+\.(db|sqlite3?|log|pyc|pyo"
    r"|o|class"
    r"|swp|tmp|bak))(/|$)"
)
_KEPT = pattern(r"(^|/)\.env\.(example|sample|template|dist)$")


def usually_ignored(path: str) -> bool:
    """Whether git usually ignores `path`, relative to the project's root."""
    return _USUALLY_IGNORED.search(path) is not None and _KEPT.search(path) is None


def _nothing(path: str) -> str | None:
    return None


def _same(path: str) -> str:
    return path


@dataclass(frozen=True)
class Context:
    """Where a step runs; paths are absolute, those that `ignored` and `read` get relative to `root`."""

    root: str = "/work/project"
    cwd: str = ""  # the root when empty
    home: str = "/home/user"
    data: str = ""  # takeback's own data; the usual places below home when empty
    ignored: Callable[[str], bool] = usually_ignored
    read: Callable[[str], str | None] = _nothing  # the text of a project file that a step would run, if it is there
    resolve: Callable[[str], str] = _same  # an absolute path with its symlinks followed
    nested: Callable[[str], bool] = lambda path: False  # is this below another repository inside the project?
    holds_ignored: Callable[[str], bool] = lambda path: False  # has this folder files in it that git ignores?
    hooks: bool = False  # does the repository have hooks that would run?
    venv: bool | None = None  # is a virtual environment of the project active? None: not known
    aliases: Callable[[str], str | None] = _nothing  # what `git NAME` is an alias for

    @property
    def start(self) -> str:
        """The folder the step starts in."""
        return self.cwd or self.root
