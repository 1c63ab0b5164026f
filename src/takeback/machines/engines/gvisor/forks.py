"""Copies made while their source is being saved: their containers are made beside the checkpoint, not after it.

Does not cover: the source (`snapshots`).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

from takeback.errors import EngineFailed
from takeback.machines.engine import Machine
from takeback.machines.engines.gvisor.checks import Container

# Makes one copy ready; the second argument is None while the source's layers are not frozen yet.
Prepare = Callable[[Machine, tuple[str, ...] | None], None]
Load = Callable[[Machine, Path, tuple[str, ...]], None]
_TOGETHER = 8


class Forks:
    """Implements `snapshots.Copies`."""

    def __init__(self, machines: Sequence[Machine], prepare: Prepare | None, load: Load) -> None:
        self._load = load
        self._ready = threading.Event()
        self._images: Path | None = None
        self._layers: tuple[str, ...] = ()
        self._workers = ThreadPoolExecutor(min(max(len(machines), 1), _TOGETHER))
        self._waiting: list[Future[None]] = [
            self._workers.submit(self._one, machine, prepare) for machine in machines
        ]  # fmt: skip

    def begin(self, images: Path, current: Container, layers: tuple[str, ...]) -> None:
        self._images, self._layers = images, layers
        self._ready.set()

    def finish(self) -> None:
        self._ready.set()  # without images, when the save failed before it had any
        self._workers.shutdown(wait=True)
        for done in self._waiting:
            error = done.exception()
            if error is not None:
                raise error

    def _one(self, machine: Machine, prepare: Prepare | None) -> None:
        if prepare is not None:
            with suppress(EngineFailed):  # `load` makes what is not there
                prepare(machine, None)
        self._ready.wait()
        if self._images is None:
            return
        try:
            self._load(machine, self._images, self._layers)
        except EngineFailed:
            # Some in a thousand fail for no reason that lasts.
            self._load(machine, self._images, self._layers)
