"""What a timeline store can do: keep events, checkpoints, numbers and small settings.

Does not cover: the objects of checkpoints (see `files`), or what events mean (see `timeline`). Implementations stand
beside this file; one conformance suite, tests/store/conformance.py, holds all of them to these words.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager
from typing import Protocol

from takeback.errors import UsageError
from takeback.model import Checkpoint, Event


class TimelineStore(Protocol):
    """An append-only log of events with a catalogue of checkpoints, safe for several processes at once.

    Every writing call is one transaction, or part of the one around it. Raises from every call: Damaged, Busy and
    CannotRead; from every writing call also: StoreReadOnly, DiskFull and CannotWrite.
    """

    @property
    def read_only(self) -> bool:
        """Whether the data is of a newer format, so that writing raises StoreReadOnly."""

    @property
    def last_seq(self) -> int:
        """The seq of the newest event, 0 when there is none."""

    def append(self, event: Event) -> Event:
        """Add an event and return it with its seq: the next one when `event.seq` is 0, else `event.seq` itself.

        Also makes sure `next_number` never gives the number of its id again. Raises UsageError when `event.seq` is not
        past the last, or an event of that kind and id is there already.
        """

    def events(self, after_seq: int = 0) -> Iterator[Event]:
        """Yield the events past `after_seq` in order; of a newer format, those this version understands."""

    def put_checkpoint(self, checkpoint: Checkpoint) -> None:
        """Add a checkpoint to the catalogue, or replace the one of the same id."""

    def checkpoint(self, id: str) -> Checkpoint | None:
        """Return the checkpoint of that id, None when there is none (never was, or forgotten)."""

    def checkpoints(self, worktree: str | None = None, *, newest_first: bool = True) -> Iterator[Checkpoint]:
        """Yield the checkpoints of one worktree or of all, by number."""

    def forget_checkpoints(self, ids: Iterable[str]) -> int:
        """Take checkpoints out of the catalogue; returns how many were there. Their ids are not used again."""

    def next_number(self, prefix: str) -> int:
        """Return a number this prefix (c, s, r, u, y, ...) never had: 1, 2, 3, ...

        A number taken in a transaction that fails is given again. So where the id is also written outside the store,
        take the number before opening the transaction; a gap is harmless, a second meaning is not.
        """

    def get_meta(self, key: str) -> str | None:
        """Return a setting of the store itself, None when it was never set."""

    def set_meta(self, key: str, value: str) -> None:
        """Set a setting of the store itself."""

    def transaction(self) -> AbstractContextManager[None]:
        """Make all writes of the block one: all are there after it, or none when it raises. May be nested.

        No other process writes meanwhile; raises Busy when another one does for too long.
        """

    def verify(self) -> tuple[str, ...]:
        """Read everything and return what is wrong, one sentence each; empty when all is well. Raises nothing."""

    def close(self) -> None:
        """Give back files and locks; closing twice is allowed."""


def split_id(id: str) -> tuple[str, int]:
    """Return prefix and number of an id (`c12` is `("c", 12)`); raises UsageError when it is not of that shape."""
    prefix = id.rstrip("0123456789")
    number = id[len(prefix) :]
    if not prefix.isascii() or not prefix.isalpha() or not number or len(number) > 15:
        raise UsageError(detail=f"{id!r} is not an id: a letter and a number, as in c12")
    return prefix, int(number)
