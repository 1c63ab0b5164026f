"""The container that takes a machine's place after a save, where its disk cannot be copied at once (`snapshots`).

    while the machine runs:     created on its FIFOs, without a disk     (builds that open the disk late)
    while it stands still:      its layers are below, a new one above -> loaded -> it answers

The old container stands still, unharmed, until the new one has answered; only then it is killed, and it never runs on a
layer that others use.

Does not cover: what is written, and when the machine stands still (`snapshots`).
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from takeback.errors import CannotSave, EngineFailed
from takeback.machines.engine import Answers, Machine
from takeback.machines.engines.gvisor import checks, containers
from takeback.machines.engines.gvisor.checks import Container, Phase, Record
from takeback.machines.engines.gvisor.containers import Containers
from takeback.machines.engines.gvisor.disk import Disks


class Replacement:
    """One machine's next container, noted beside the one it has."""

    def __init__(self, containers: Containers, disks: Disks, machine: Machine, record: Record) -> None:
        assert record.current is not None
        self._containers = containers
        self._disks = disks
        self._machine = machine
        self._record = record
        self._new = containers.fresh(machine.spec, record.current.platform, machine.folder / "run")

    def begin(self) -> None:
        """Do what can be done while the machine runs. Raises CannotSave, with nothing left of it."""
        if self._containers.late():
            try:
                self._create()
            except BaseException as error:
                self._give_up(error)

    def record(self, current: Container) -> Record:
        """Return the machine's record with `current`, and with what there is of the new one."""
        self._record = self._record.with_current(current)
        return self._record

    def take_place(self, images: Path, layers: tuple[str, ...], answers: Answers | None) -> None:
        """Be the machine, restored from `images` onto a new layer; the old one stands still.

        Raises CannotSave, with nothing left of it.
        """
        old = self._record.current
        assert old is not None
        try:
            self._new = replace(self._new, layers=self._disks.merged(layers), upper=self._disks.new())
            if self._new.phase is Phase.CREATED:
                self._note(self._new)
                self._containers.give_disk(self._machine.spec, self._new)
            else:
                self._create()
            self._containers.load(self._new, images)
            if not containers.alive(self._new) or (answers is not None and not answers()):
                raise CannotSave(
                    why="the container that was to replace it did not answer", next="it goes on unharmed; repeat"
                )
            if old.was_paused:
                self._containers.pause(self._new)
        except BaseException as error:
            self._give_up(error)
        # From here on the new one is the machine, also for whoever comes after a crash.
        gone = replace(old, upper="")
        record = replace(
            self._record,
            current=replace(self._new, phase=Phase.PAUSED if old.was_paused else Phase.RUNNING),
            others=(gone,),
            cpu_before=self._record.cpu_before + containers.cpu_seconds(old),
        )
        checks.write(self._machine.folder, record)
        self._record = replace(record, others=())
        if self._containers.clear(gone, here=True):
            with suppress(OSError):  # with the old one in it the record is as good
                checks.write(self._machine.folder, self._record)

    def discard(self) -> None:
        """Remove all of it; the channel is at rest."""
        if self._record.others:
            self._containers.clear(self._new, here=True)
            if self._new.upper:
                self._disks.drop(self._new.upper)
            self._containers.drain(self._machine)
            self._record = replace(self._record, others=())
            checks.write(self._machine.folder, self._record)

    def _create(self) -> None:
        self._new = self._containers.create(self._machine, self._new, self._note)

    def _note(self, container: Container) -> None:
        self._new = container
        self._record = replace(self._record, others=(container,))
        checks.write(self._machine.folder, self._record)

    def _give_up(self, error: BaseException) -> None:
        self.discard()
        if isinstance(error, EngineFailed):
            raise CannotSave(why=f"it could not be replaced: {error}", next="it goes on unharmed; repeat") from error
        raise error
