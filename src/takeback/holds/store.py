"""Where holds are kept: one file each in the project's private data, exact, for its owner alone.

    PROJECT/holds/h3.json       written whole or not at all, under the project's lock

A change is a function from the hold as it is now to the new one, called under the lock: of two who approve at once, one
finds it approved. Does not cover: which changes there are (`app.holding`).
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from takeback.errors import Damaged, UnknownId
from takeback.holds.model import Hold, Request, State
from takeback.host import atomic, locks

FORMAT = 1
_NAME = re.compile(r"h([1-9]\d*)\.json")
_MOST = 200  # ended holds that are kept; a step that asks for its answer reads them all


class HoldStore:
    """The holds of one project; `lock` is the project's own, `wait` in seconds."""

    def __init__(self, folder: Path, lock: Path, wait: float) -> None:
        self._folder = folder
        self._lock = lock
        self._wait = wait

    def all(self) -> list[Hold]:
        """Return every hold, oldest first. Raises Damaged."""
        return [self._load(number) for number in self._numbers()]

    def get(self, id: str) -> Hold:
        """Return a hold. Raises UnknownId, Damaged."""
        if not _NAME.fullmatch(f"{id}.json") or not (self._folder / f"{id}.json").exists():
            waiting = [hold.id for hold in self.all() if hold.state is State.WAITING]
            nearest = f"waiting: {', '.join(waiting)}" if waiting else "nothing waits; `takeback holds --all` lists all"
            raise UnknownId(what="hold", id=id, nearest=nearest)
        return self._load(int(id[1:]))

    def add(self, make: Callable[[str, Sequence[Hold]], tuple[Sequence[Hold], Hold | None]]) -> Hold | None:
        """Write what `make` returns for a new id and the holds there are: changed ones, and a new one or None."""
        with self._locked("hold"):
            there = self.all()
            number = max((int(hold.id[1:]) for hold in there), default=0) + 1
            # A number is not given twice, also when the newest was taken away.
            number = max(number, self._last() + 1)
            changed, new = make(f"h{number}", there)
            for hold in changed:
                self._save(hold)
            if new is not None:
                atomic.write_bytes(self._folder / "last", f"{number}\n".encode())
                self._save(new)
                self._thin(there)
            return new

    def change(self, id: str, make: Callable[[Hold], Hold]) -> Hold:
        """Replace a hold by what `make` makes of it; what it raises leaves it as it was. Raises UnknownId, Damaged."""
        with self._locked("hold"):
            new = make(self.get(id))
            self._save(new)
            return new

    @contextmanager
    def _locked(self, what: str) -> Iterator[None]:
        self._folder.mkdir(mode=0o700, exist_ok=True)
        with locks.held(self._lock, what=what, wait=self._wait):
            for left in self._folder.glob(".tmp-*"):  # of a writer that was killed
                left.unlink(missing_ok=True)
            yield

    def _numbers(self) -> list[int]:
        try:
            names = os.listdir(self._folder)
        except FileNotFoundError:
            return []
        return sorted(int(found[1]) for found in map(_NAME.fullmatch, names) if found)

    def _last(self) -> int:
        try:
            return int((self._folder / "last").read_text())
        except (OSError, ValueError):
            return 0

    def _thin(self, there: Sequence[Hold]) -> None:
        ended = [hold for hold in there if hold.ended]
        for hold in ended[: max(0, len(ended) - _MOST)]:
            (self._folder / f"{hold.id}.json").unlink(missing_ok=True)

    def _load(self, number: int) -> Hold:
        path = self._folder / f"h{number}.json"
        try:
            data: dict[str, Any] = json.loads(path.read_bytes())
            asked = dict(data["request"])
            asked["argv"] = tuple(asked["argv"]) if asked["argv"] is not None else None
            data["request"] = Request(**asked)
            data["state"] = State(data["state"])
            for name in ("commands", "effects", "runner"):
                data[name] = tuple(data[name])
            return Hold(**{field.name: data[field.name] for field in fields(Hold) if field.name in data})
        except (ValueError, KeyError, TypeError) as error:
            raise Damaged(
                what=os.fspath(path), detail=str(error), next="move the file away; what it held must be asked for again"
            ) from None

    def _save(self, hold: Hold) -> None:
        data = {"format": FORMAT, **asdict(hold)}
        atomic.write_bytes(self._folder / f"{hold.id}.json", json.dumps(data, indent=1).encode())
