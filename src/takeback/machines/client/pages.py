"""Lists as the hosted client gives them: page by page, and walked as one.

Does not cover: asking for them.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Sequence
from typing import Any, TypeVar

T = TypeVar("T")
_PAGE = 50


class Page(list[T]):
    """All that was found, as iterating the pages gives it; `data` is the page itself, of `limit` entries."""

    def __init__(self, found: Iterable[T], limit: int | None = None) -> None:
        super().__init__(found)
        self._limit = limit or _PAGE

    @property
    def data(self) -> Sequence[T]:
        """The entries of this page."""
        return self[: self._limit]

    @property
    def has_more(self) -> bool:
        """Whether there is another page."""
        return len(self) > self._limit

    @property
    def next_cursor(self) -> str | None:
        """None after the last page."""
        return str(self._limit) if self.has_more else None

    def _next(self) -> list[T] | None:
        return self[self._limit :] if self.has_more else None

    def next_page(self) -> Page[T] | None:
        """Return the page after this one, or None."""
        rest = self._next()
        return None if rest is None else Page(rest, self._limit)

    def to_list(self, limit: int = 10_000) -> list[T]:
        """Return the entries of this page and of those after it, `limit` at most."""
        return self[:limit]


class AsyncPage(Page[T]):
    """The same, walked with `async for`."""

    async def __aiter__(self) -> AsyncIterator[T]:
        for one in self:
            yield one

    async def next_page(self) -> AsyncPage[T] | None:  # type: ignore[override]
        """Return the page after this one, or None."""
        rest = self._next()
        return None if rest is None else AsyncPage(rest, self._limit)

    async def to_list(self, limit: int = 10_000) -> list[T]:  # type: ignore[override]
        """Return the entries of this page and of those after it, `limit` at most."""
        return self[:limit]


def oldest_first(infos: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return records as the hosted service orders its sandboxes."""
    return sorted(infos, key=lambda info: str(info["createdAt"]))
