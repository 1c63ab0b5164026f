"""Save a running machine: what is written, in which order, and what is put right when it fails at any point.

    MEMORY             room? -> checkpoint (stands still only meanwhile) -> move, sum up, header
    LAYERS, copied     room? -> pause -> checkpoint -> copy the upper -> resume -> ...
    LAYERS, replaced   room? -> pause -> checkpoint -> the upper is frozen: restore onto a new one -> it answers?
                                                                  yes: it is the machine now, kill the old -> ...
                                                                  no:  kill it, resume the old

The replaced way (`replacement`) is for filesystems that cannot copy a folder at once.

Does not cover: reading a snapshot (`header`, `engine`).
"""

from __future__ import annotations

import errno
import os
import re
import time
from dataclasses import replace
from pathlib import Path
from typing import Protocol

from takeback.errors import CannotSave, EngineFailed, MachineGone
from takeback.host import mounts
from takeback.machines.engine import Answers, DiskKind, Machine
from takeback.machines.engines.gvisor import checks, containers, header, lower, room, spec
from takeback.machines.engines.gvisor.checks import Container, Phase, Record
from takeback.machines.engines.gvisor.containers import Containers, images_in
from takeback.machines.engines.gvisor.control import Refusal
from takeback.machines.engines.gvisor.disk import Disks
from takeback.machines.engines.gvisor.replacement import Replacement

# Programs like apt hold a deleted file open for moments; a server whose binary was replaced does so for ever.
_TRIES, _WAIT = 4, 0.15
_DELETED = re.compile(r'dentry\("([^"]*)"\)\.beforeSave: deleted')


class Copies(Protocol):
    """Who makes copies of the machine while it is being saved (`forks`)."""

    def begin(self, images: Path, current: Container, layers: tuple[str, ...]) -> None:
        """The images are complete and `layers` are frozen, lowest first."""

    def finish(self) -> None:
        """Wait until nobody reads the images any more. Raises what went wrong."""


class _Moment(Exception):
    """It was refused for what may be over in a moment; `refusal` is what to raise if it is not."""

    def __init__(self, refusal: CannotSave) -> None:
        super().__init__()
        self.refusal = refusal


class Save:
    """One save of one machine."""

    def __init__(
        self, containers: Containers, disks: Disks, machine: Machine, into: Path, scratch: room.Scratch
    ) -> None:
        self._containers = containers
        self._disks = disks
        self._machine = machine
        self._into = into
        self._scratch = scratch
        self._made: list[str] = []  # layers that nobody knows yet
        self._lower: tuple[lower.Lower, ...] = ()

    def run(
        self, record: Record, *, memory: bool, answers: Answers | None, copies: Copies | None = None
    ) -> header.Header:
        """Write everything and return the header. Raises CannotSave or MachineGone, with nothing left in the folder."""
        current = record.current
        assert current is not None
        if self._machine.spec.disk is DiskKind.MEMORY and not memory:
            raise CannotSave(
                why="its disk lives in memory and is saved only with it",
                next="take a memory snapshot, or make the sandbox with the disk kind 'layers'",
            )
        try:
            used = containers.memory_file(current)
            place = room.choose(self._into, self._scratch, used)
        except BaseException:
            if copies is not None:  # they would wait for ever, and the keeper would never end
                copies.finish()
            raise
        try:
            layers, paused_s = self._tries(record, place, used, answers, copies)
            return self._finish(current, place, layers, paused_s, memory=memory)
        except BaseException as error:
            self.discard()
            if isinstance(error, OSError):
                raise _no_room(self._into, error) from error
            raise
        finally:
            try:
                if copies is not None:
                    copies.finish()
            finally:
                if place.staged:
                    room.clear(place.folder)

    def _tries(
        self, record: Record, place: room.Place, used: int, answers: Answers | None, copies: Copies | None
    ) -> tuple[tuple[str, ...], float]:
        for attempt in range(_TRIES):
            try:
                if self._machine.spec.disk is DiskKind.MEMORY:
                    return self._memory(record, place, used, copies)
                return self._layers(record, place, used, answers, copies)
            except _Moment as moment:
                if attempt == _TRIES - 1:
                    raise moment.refusal from moment.__cause__
            time.sleep(_WAIT)
        raise AssertionError

    def _memory(
        self, record: Record, place: room.Place, used: int, copies: Copies | None
    ) -> tuple[tuple[str, ...], float]:
        assert record.current is not None
        began = time.monotonic()
        self._checkpoint(record.current, place, used)
        paused_s = time.monotonic() - began
        self._lower, gone = lower.held(record.current.sandbox[0], self._machine.spec)
        if gone:
            raise CannotSave(
                why=f"a program inside holds {gone} open, which was deleted or replaced on this machine",
                next="restart that program and repeat",
            )
        if copies is not None:
            copies.begin(place.folder, record.current, ())
        return (), paused_s

    def _layers(
        self, record: Record, place: room.Place, used: int, answers: Answers | None, copies: Copies | None
    ) -> tuple[tuple[str, ...], float]:
        before = record.current
        assert before is not None
        # A save cannot be restored by another build than wrote it, so what has an older one is never replaced.
        small = self._disks.copies_at_once(before.upper) or not self._containers.same_build(before)
        current = replace(before, phase=Phase.CHANGING, was_paused=before.phase is Phase.PAUSED)
        other = None if small else Replacement(self._containers, self._disks, self._machine, record)
        if other is not None:
            other.begin()
        began = time.monotonic()
        try:
            self._note(record.with_current(current) if other is None else other.record(current))
            if not current.was_paused:
                self._containers.pause(current)
            self._checkpoint(current, place, used)
            layers = (*current.layers, self._copied(current.upper) if other is None else current.upper)
            if copies is not None:
                copies.begin(place.folder, current, layers)
            if other is not None:
                other.take_place(place.folder, layers, answers)
            elif not current.was_paused:
                self._containers.resume(current)
        except BaseException:
            if other is not None:
                other.discard()
            self._go_on(record, before)
            raise
        paused_s = time.monotonic() - began
        if other is None:
            self._note(record.with_current(before))
        return layers, paused_s

    def _copied(self, upper: str) -> str:
        self._made.append(self._disks.copy(upper))
        return self._made[-1]

    def _go_on(self, record: Record, before: Container) -> None:
        """Let the machine be as it was before. Raises MachineGone when it cannot."""
        try:
            self._containers.settle(before, paused=before.phase is Phase.PAUSED)
        except EngineFailed as error:
            raise MachineGone(id=self._machine.id, why=f"it does not go on after a save ({error})") from error
        self._note(record.with_current(before))

    def _checkpoint(self, current: Container, place: room.Place, used: int) -> None:
        try:
            self._containers.save(current, place.folder, used)
        except (Refusal, EngineFailed) as error:
            for path in images_in(place.folder):
                path.unlink()
            words = str(error)
            self._prove_unharmed(current)
            deleted = _DELETED.search(words)
            if deleted is not None:
                raise _Moment(_refusal(words, deleted)) from error
            raise _refusal(words, None) from error

    def _prove_unharmed(self, current: Container) -> None:
        try:
            self._containers.processes(current)
        except EngineFailed as error:
            raise MachineGone(id=self._machine.id, why=f"it does not answer after a refused save ({error})") from error

    def _finish(
        self, before: Container, place: room.Place, layers: tuple[str, ...], paused_s: float, *, memory: bool
    ) -> header.Header:
        if place.staged and memory:
            for path in images_in(place.folder):
                room.copy(path, self._into / path.name)
        elif not memory:
            for path in images_in(place.folder):
                path.unlink()
        kept = not self._scratch.is_passing(self._into)
        lasting = kept and not place.in_memory
        if lasting and layers:
            # Else a power cut could leave a whole snapshot over files that were never written.
            mounts.sync_filesystem(self._disks.folder)
        head = header.Header(
            engine="gvisor",
            version=before.version,
            platform=before.platform,
            overlay=before.overlay,
            digest=spec.digest(self._machine.spec, memory=memory),
            memory=memory,
            boot=checks.boot_id(),
            paused_s=round(paused_s, 4),
            files=tuple(header.describe(path, lasting=kept) for path in images_in(self._into)),
            layers=layers,
            summaries=self._disks.summaries(layers) if kept else (),
            lower=self._lower,
        )
        header.write(self._into, head, durable=lasting)
        return head

    def _note(self, record: Record) -> None:
        checks.write(self._machine.folder, record)

    def discard(self) -> None:
        """Remove all that was written."""
        for path in (*images_in(self._into), self._into / header.FILE):
            path.unlink(missing_ok=True)
        for name in self._made:
            self._disks.drop(name)


def mend(containers: Containers, disks: Disks, machine: Machine, record: Record) -> Record:
    """Put right what a killed keeper or a call without an answer left half done; return the record as it is then."""
    for other in record.others:
        containers.clear(other, here=True)
        if other.upper:
            disks.drop(other.upper)
    current = record.current
    assert current is not None
    if current.phase is Phase.CHANGING:
        containers.drain(machine)
        containers.settle(current, paused=current.was_paused)
        current = replace(current, phase=Phase.PAUSED if current.was_paused else Phase.RUNNING)
    record = replace(record, current=current, others=())
    checks.write(machine.folder, record)
    return record


def _refusal(words: str, deleted: re.Match[str] | None) -> CannotSave:
    if deleted is not None:
        path = "/" + deleted.group(1).lstrip("/")
        return CannotSave(
            why=f"a program inside holds {path} open, which was deleted or replaced",
            next="restart that program and repeat, or make the sandbox with the disk kind 'memory', which allows it",
        )
    if os.strerror(errno.ENOSPC).lower() in words.lower():
        return CannotSave(why="there was no room for its files", next="free some room and repeat")
    return CannotSave(why=f"the engine refused: {words}", next="it goes on unharmed; repeat, or restart what it names")


def _no_room(into: Path, error: OSError) -> CannotSave:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return CannotSave(why=f"no space left on the disk of {into}", next="free some room and repeat")
    return CannotSave(why=f"{into} cannot be written: {error.strerror}", next="make it writable and repeat")
