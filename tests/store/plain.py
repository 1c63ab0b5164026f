"""A timeline store of plain lists: shows that the protocol and its tests are about no database."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, field, replace

from takeback.errors import UsageError
from takeback.model import Checkpoint, Event
from takeback.store.base import split_id


@dataclass
class _All:
    events: list[Event] = field(default_factory=list)
    catalogue: dict[str, Checkpoint] = field(default_factory=dict)
    numbers: dict[str, int] = field(default_factory=dict)
    meta: dict[str, str] = field(default_factory=dict)


class PlainStore:
    read_only = False

    def __init__(self) -> None:
        self._all = _All()

    @property
    def last_seq(self) -> int:
        return self._all.events[-1].seq if self._all.events else 0

    def append(self, event: Event) -> Event:
        if 0 < event.seq <= self.last_seq:
            raise UsageError(detail=f"event {event.seq} cannot come after event {self.last_seq}")
        if event.id and any((one.kind, one.id) == (event.kind, event.id) for one in self._all.events):
            raise UsageError(detail=f"the {event.kind} {event.id} is in the timeline already")
        event = replace(event, seq=event.seq or self.last_seq + 1)
        self._all.events.append(event)
        self._used(event.id)
        return event

    def events(self, after_seq: int = 0) -> Iterator[Event]:
        at = 0
        while at < len(self._all.events):
            if self._all.events[at].seq > after_seq:
                yield self._all.events[at]
            at += 1

    def put_checkpoint(self, checkpoint: Checkpoint) -> None:
        split_id(checkpoint.id)
        self._all.catalogue[checkpoint.id] = checkpoint
        self._used(checkpoint.id)

    def checkpoint(self, id: str) -> Checkpoint | None:
        return self._all.catalogue.get(id)

    def checkpoints(self, worktree: str | None = None, *, newest_first: bool = True) -> Iterator[Checkpoint]:
        found = [one for one in self._all.catalogue.values() if worktree in (None, one.worktree)]
        yield from sorted(found, key=lambda one: split_id(one.id)[1], reverse=newest_first)

    def forget_checkpoints(self, ids: Iterable[str]) -> int:
        return sum(self._all.catalogue.pop(id, None) is not None for id in ids)

    def next_number(self, prefix: str) -> int:
        if split_id(f"{prefix}1")[0] != prefix:
            raise UsageError(detail=f"{prefix!r} is not the letter of an id")
        number = self._all.numbers.get(prefix, 0) + 1
        self._all.numbers[prefix] = number
        return number

    def get_meta(self, key: str) -> str | None:
        return self._all.meta.get(key)

    def set_meta(self, key: str, value: str) -> None:
        self._all.meta[key] = value

    @contextmanager
    def transaction(self) -> Iterator[None]:
        before = deepcopy(self._all)
        try:
            yield
        except BaseException:
            self._all = before
            raise

    def verify(self) -> tuple[str, ...]:
        return ()

    def close(self) -> None:
        pass

    def _used(self, id: str) -> None:
        try:
            prefix, number = split_id(id)
        except UsageError:
            return
        self._all.numbers[prefix] = max(number, self._all.numbers.get(prefix, 0))
