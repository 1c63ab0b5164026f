"""Save a running machine: what is written, in which order, and what is put right when it fails at any point.

    MEMORY                      room? -> checkpoint (stands still only meanwhile) -> move, sum up, header

Does not cover: reading a snapshot (`header`, `engine`).
"""

from __future__ import annotations

import errno
import re
import time
from dataclasses import replace
from pathlib import Path

from takeback.errors import CannotSave, EngineFailed, MachineGone
from takeback.machines.engine import Answers, DiskKind, Machine
from takeback.machines.engines.gvisor import checks, containers, header, room, spec
from takeback.machines.engines.gvisor.checks import Container, Phase, Record
from takeback.machines.engines.gvisor.containers import Containers, images_in
from takeback.machines.engines.gvisor.control import Refusal
from takeback.machines.engines.gvisor.disk import Disks

# Programs like apt hold a deleted file open for moments; a server whose binary was replaced does so for ever.
_TRIES, _PAUSE = 4, 0.15
_DELETED = re.compile(r'dentry\("([^"]*)"\)\.beforeSave: deleted')


class Save:
    """One save of one machine."""

    def __init__(self, containers: Containers, disks: Disks, machine: Machine, into: Path, scratch: Path) -> None:
        self._containers = containers
        self._disks = disks
        self._machine = machine
        self._into = into
        self._scratch = scratch

    def run(self, record: Record, *, memory: bool, answers: Answers | None) -> header.Header:
        """Write everything and return the header. Raises CannotSave or MachineGone, with nothing left in the folder."""
        current = record.current
        assert current is not None
        if self._machine.spec.disk is DiskKind.MEMORY and not memory:
            raise CannotSave(
                why="its disk lives in memory and is saved only with it",
                next="take a memory snapshot, or make the sandbox with disk='layers'",
            )
        used = containers.memory_file(current)
        place = room.choose(self._into, self._scratch, used)
        try:
            paused_s = self._checkpoint(current, place, used)
            return self._finish(current, place, paused_s)
        except OSError as error:
            raise _no_room(self._into, error) from error
        except BaseException:
            self._clean()
            raise
        finally:
            if place.staged:
                room.clear(place.folder)

    def _checkpoint(self, current: Container, place: room.Place, used: int) -> float:
        """Write the images and return how long the machine stood still, in seconds."""
        for attempt in range(_TRIES):
            began = time.monotonic()
            try:
                self._containers.save(current, place.folder, used)
                return time.monotonic() - began
            except (Refusal, EngineFailed) as error:
                for path in images_in(place.folder):
                    path.unlink()
                words = str(error)
                self._prove_unharmed(current)
                deleted = _DELETED.search(words)
                if deleted is None or attempt == _TRIES - 1:
                    raise _refusal(words, deleted) from error
            time.sleep(_PAUSE)
        raise AssertionError

    def _prove_unharmed(self, current: Container) -> None:
        try:
            self._containers.processes(current)
        except EngineFailed as error:
            raise MachineGone(id=self._machine.id, why=f"it does not answer after a refused save ({error})") from error

    def _finish(self, current: Container, place: room.Place, paused_s: float) -> header.Header:
        if place.staged:
            for path in images_in(place.folder):
                room.move(path, self._into / path.name)
        lasting = not place.in_memory
        head = header.Header(
            engine="gvisor",
            version=current.version,
            platform=current.platform,
            overlay=current.overlay,
            digest=spec.digest(self._machine.spec),
            memory=True,
            boot=checks.boot_id(),
            paused_s=paused_s,
            files=tuple(header.describe(path, lasting=lasting) for path in images_in(self._into)),
        )
        header.write(self._into, head, durable=lasting)
        return head

    def _clean(self) -> None:
        for path in (*images_in(self._into), self._into / header.FILE):
            path.unlink(missing_ok=True)


def mend(containers: Containers, disks: Disks, machine: Machine, record: Record) -> Record:
    """Put right what a killed keeper left in the middle of a save, and return the record as it is then."""
    for other in record.others:
        containers.clear(other, here=True)
    current = record.current
    assert current is not None
    if current.phase is Phase.SAVING:
        containers.resume(current)
        current = replace(current, phase=Phase.RUNNING)
    record = replace(record, current=current, others=())
    checks.write(machine.folder, record)
    return record


def _refusal(words: str, deleted: re.Match[str] | None) -> CannotSave:
    if deleted is not None:
        path = "/" + deleted.group(1).removeprefix("root").lstrip("/")
        return CannotSave(
            why=f"a program inside holds {path} open, which was deleted or replaced",
            next="restart that program and repeat, or make the sandbox with disk='memory', which allows it",
        )
    if "no space left" in words:
        return CannotSave(why="there was no room for its files", next="free some room and repeat")
    return CannotSave(why=f"the engine refused: {words}", next="it goes on unharmed; repeat, or restart what it names")


def _no_room(into: Path, error: OSError) -> CannotSave:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return CannotSave(why=f"no space left on the disk of {into}", next="free some room and repeat")
    return CannotSave(why=f"{into} cannot be written: {error.strerror}", next="make it writable and repeat")
