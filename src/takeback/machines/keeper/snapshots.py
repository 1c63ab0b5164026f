"""The operations on snapshots: take, list, delete, restore in place, and starting from one.

    DATA/machines/snapshots/ID/{snapshot.json, ...the engine's files}

A folder without a snapshot.json is one that was never finished. Does not cover: copies
(`forks`), what an engine writes (`engines`).
"""

from __future__ import annotations

import asyncio
import json
import logging
import shutil
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from takeback.errors import (
    CannotSaveFirst,
    Damaged,
    FenceConflict,
    InvalidRequest,
    MachineGone,
    MachineSilent,
    SandboxStopped,
    SnapshotNotFound,
    TakebackError,
)
from takeback.host import atomic
from takeback.machines.engine import Saved
from takeback.machines.keeper import stored
from takeback.machines.keeper.creation import checked
from takeback.machines.keeper.machine import Life
from takeback.machines.keeper.server import Call, Operation
from takeback.machines.layout import MachinesDir
from takeback.machines.model import DAY_NS, SandboxRecord, SandboxState, SnapshotRecord

log = logging.getLogger("takeback.keeper")

_NAME = "snapshot.json"
_SIZES = ("vcpu", "memory_mib", "disk_mib")
OURS = "takeback."  # how labels begin that say what a sandbox or snapshot is to takeback, not to its user
UNDO = OURS + "undo"  # label of what a restore saved before: the id of its sandbox


class Snapshots:
    """Every snapshot of a data directory."""

    def __init__(self, directory: MachinesDir) -> None:
        self._directory = directory
        self._records: dict[str, SnapshotRecord] = {}

    def folder(self, snapshot_id: str) -> Path:
        return self._directory.snapshot(snapshot_id)

    def load(self) -> None:
        """Read them all, removing what was never finished; one that cannot be read can be seen and deleted."""
        top = self._directory.root / "snapshots"
        for folder in sorted(top.iterdir()) if top.is_dir() else ():
            if not folder.is_dir():
                continue
            try:
                record = SnapshotRecord.from_json(json.loads((folder / _NAME).read_bytes()))
                self._records[record.id] = record
            except FileNotFoundError:
                shutil.rmtree(folder, ignore_errors=True)
            except (OSError, ValueError, Damaged) as error:
                log.error("snapshot %s: its record cannot be read: %s", folder.name, error)
                created_ns = folder.stat().st_mtime_ns
                source = SandboxRecord.spoiled("", str(error), created_ns)
                self._records[folder.name] = SnapshotRecord(folder.name, "memory", source, created_ns, error=str(error))

    def all(self) -> list[SnapshotRecord]:
        return sorted(self._records.values(), key=lambda record: -record.created_ns)

    def folders(self) -> list[Path]:
        return [self.folder(id) for id in self._records]

    def find(self, snapshot_id: object, *, spoiled: bool = False) -> SnapshotRecord:
        """Return a snapshot by its id, or the newest of a name. Raises SnapshotNotFound, Damaged (not if `spoiled`)."""
        found = self._records.get(str(snapshot_id))
        named = found or next((record for record in self.all() if record.name == snapshot_id), None)
        if named is None:
            raise SnapshotNotFound(id=str(snapshot_id))
        if named.error and not spoiled:
            raise Damaged(what=f"the record of snapshot {named.id}", detail=named.error, next="delete that snapshot")
        return named

    def has(self, snapshot_id: str) -> bool:
        return snapshot_id in self._records

    def begin(self) -> tuple[str, Path]:
        """Return a new id and its empty folder."""
        id = str(uuid.uuid4())
        self.folder(id).mkdir(mode=0o700, parents=True)
        return id, self.folder(id)

    def add(self, record: SnapshotRecord) -> None:
        """Write a finished one down, or one that was changed."""
        atomic.write_bytes(self.folder(record.id) / _NAME, json.dumps(record.to_json(), indent=1).encode())
        self._records[record.id] = record

    def remove(self, snapshot_id: str) -> None:
        """Remove one; the disk layers that only it needed go with the engine's next sweep."""
        self._records.pop(snapshot_id, None)
        (self.folder(snapshot_id) / _NAME).unlink(missing_ok=True)
        shutil.rmtree(self.folder(snapshot_id), ignore_errors=True)

    def expired(self, now_ns: int) -> Iterator[str]:
        for record in tuple(self._records.values()):
            if record.expires_ns and record.expires_ns <= now_ns:
                yield record.id


def draft(call: Call, life: Life, id: str, mode: str, days: int | None, **fields: Any) -> SnapshotRecord:
    """Return the record of a snapshot that is about to be taken of a sandbox as it is now."""
    source = replace(life.record, env={}, active_ns=life.active_ns, network=life.network.rules.to_json())
    return SnapshotRecord(
        id=id, mode=mode, sandbox=source, created_ns=call.keeper.now_ns(), retention_days=days, **fields
    )  # fmt: skip


def finish(call: Call, record: SnapshotRecord, saved: Saved) -> SnapshotRecord:
    """Write the record of a snapshot down that has been taken, and return it."""
    ready, days = call.keeper.now_ns(), record.retention_days
    record = replace(
        record,
        ready_ns=ready,
        expires_ns=ready + days * DAY_NS if days else 0,
        file_bytes=sum(size for _, size in saved.files),
        paused_s=saved.paused_s,
    )
    call.keeper.snapshots.add(record)
    return record


def inherited(labels: Mapping[str, str]) -> dict[str, str]:
    """Return the labels that a snapshot or copy has from where it came: the user's own.

    A copy with the label of its source's chain would be a second owner of that chain's snapshots.
    """
    return {name: text for name, text in labels.items() if not name.startswith(OURS)}


async def take(
    call: Call, life: Life, *, memory: bool = True, days: int | None = None, passing: bool = False, **fields: Any
) -> tuple[SnapshotRecord, Saved]:
    """Save a sandbox; one in `passing` is not where it stands from now on.

    Raises CannotSave, SandboxStopped; then nothing is left and it goes on.
    """
    keeper = call.keeper
    id, folder = keeper.snapshots.begin()
    created = keeper.now_ns()
    try:
        saved = await life.save(folder, memory=memory)
        record = draft(call, life, id, "memory" if memory else "disk", days, **fields)
        record = finish(call, replace(record, created_ns=created), saved)
    except BaseException:
        keeper.snapshots.remove(id)
        raise
    if not passing:
        life.change(last_snapshot=id)
    return record, saved


async def snapshot(call: Call) -> dict[str, Any]:
    """Save a sandbox and return the snapshot's record."""
    asked = call.request["fields"]
    mode = asked.get("mode") or "memory"
    if mode not in ("memory", "disk"):
        raise InvalidRequest(detail=f"mode={mode!r}", next="it is memory or disk")
    life = call.life()
    named = checked({name: asked[name] for name in ("name", "labels") if asked.get(name) is not None})
    named.setdefault("labels", inherited(life.record.labels))
    await stored.room(call, life)
    record, saved = await take(call, life, memory=mode == "memory", days=days_of(asked.get("retention_days")), **named)
    return (await stored.counted(call, record, saved)).info()


async def start_from(call: Call, fields: Mapping[str, Any], snapshot_id: str) -> Life:
    """Make a sandbox of a snapshot, of the size that was saved; of a disk's, of any size in which that has room.

    Raises SnapshotNotFound, InvalidRequest.
    """
    keeper = call.keeper
    found = keeper.snapshots.find(snapshot_id)
    for name in ("image", *(_SIZES if found.sized else ())):
        saved_as = getattr(found.sandbox, name, found.sandbox.base.image)
        if fields.get(name) not in (None, saved_as):
            raise InvalidRequest(
                detail=f"{name}={fields[name]!r} with a snapshot", next=f"it was saved with {saved_as}"
            )
    disk_mib = found.sandbox.disk_mib
    if (fields.get("disk_mib") or disk_mib) < disk_mib:
        raise InvalidRequest(detail=f"disk_mib={fields['disk_mib']!r} with a snapshot", next=f"from {disk_mib} on")
    engine = keeper.engine(found.sandbox.engine)
    saved = await asyncio.to_thread(engine.saved, keeper.snapshots.folder(found.id))
    life = keeper.new(record_from(call, found, fields, found.id))
    try:
        await life.start_from(saved)
    except BaseException:
        await keeper.discard(life)
        raise
    return life


def record_from(call: Call, found: SnapshotRecord, fields: Mapping[str, Any], made_from: str) -> SandboxRecord:
    """Return the record of a copy: as the source was, with its own name, env and clock."""
    own = {
        name: value
        for name, value in fields.items()
        if name in SandboxRecord.__dataclass_fields__ and (name not in _SIZES or (not found.sized and value))
    }
    own.setdefault("labels", inherited(found.labels))
    fresh: dict[str, Any] = {
        "id": str(uuid.uuid4()), "state": SandboxState.STARTING, "created_ns": call.keeper.now_ns(), "name": None,
        "env": {}, "ready_ns": 0, "active_ns": 0, "paused_ns": 0, "ended_ns": 0, "lease_ns": 0, "stop_reason": None,
        "lost": None, "previews": {}, "kept": "", "incarnation": "", "trial_ns": 0, "replaces": "", "replaced": (),
        "held": "",
        "made_from": made_from, "last_snapshot": found.id, "born_of": found.id,
        "generation": found.sandbox.generation + 1,
    }  # fmt: skip
    # A snapshot that does not say what its source might reach opens nothing.
    own.setdefault("network", found.sandbox.network or {"internet": False})
    return replace(found.sandbox, **{**fresh, **own})


async def restore(call: Call) -> dict[str, Any]:
    """Put a sandbox to a snapshot, same id; what it was is saved first, so that this can be taken back.

    One that has ended runs again. Without `undo` nothing is saved. Raises CannotSaveFirst.
    """
    keeper, life = call.keeper, call.life()
    found = keeper.snapshots.find(call.request["snapshot"])
    if found.sandbox.engine != life.record.engine:
        raise InvalidRequest(
            detail=f"a snapshot of the engine {found.sandbox.engine}", next="start a new sandbox from it"
        )
    # All that can be wrong with it is found out before anything is done.
    saved = await asyncio.to_thread(life.engine.saved, keeper.snapshots.folder(found.id))
    undo = await _undo(call, life) if call.request.get("undo", True) else None
    try:
        if not life.record.alive:
            keeper.take_name(life.record.name, besides=life)
        old = await life.replace(saved, found.id)
    except BaseException:
        if undo is not None:
            keeper.snapshots.remove(undo[0].id)
        raise
    keeper.background(life.drop(old))
    if undo is not None:
        keeper.background(stored.counted(call, *undo))
    return {**life.shown(), "undoSnapshotId": undo[0].id if undo is not None else None}


async def _undo(call: Call, life: Life) -> tuple[SnapshotRecord, Saved] | None:
    """Save what a restore is about to replace, None when nothing is left of it. Raises CannotSaveFirst."""
    labels = {UNDO: life.record.id}
    try:
        if not await _has_ended(life):
            try:
                return await take(call, life, days=1, passing=True, labels=labels)
            except (MachineGone, MachineSilent, SandboxStopped):
                if not await _has_ended(life):  # it may have died just now
                    raise
        return await _take_kept(call, life, days=1, labels=labels)
    except (TakebackError, OSError) as error:
        raise CannotSaveFirst(id=life.record.id, why=getattr(error, "fields", {}).get("why") or str(error)) from error


async def _has_ended(life: Life) -> bool:
    await life.check()
    return life.record.state == SandboxState.STOPPED


async def _take_kept(
    call: Call, life: Life, *, days: int, labels: Mapping[str, str]
) -> tuple[SnapshotRecord, Saved] | None:
    """Make a snapshot of the kept disk of a sandbox that has ended; None when there is none."""
    snapshots = call.keeper.snapshots
    id, folder = snapshots.begin()
    try:
        saved = await life.copy_kept(folder)
        if saved is None:
            snapshots.remove(id)
            return None
        mode = "memory" if saved.memory else "disk"
        return finish(call, draft(call, life, id, mode, days, labels=labels), saved), saved
    except BaseException:
        snapshots.remove(id)
        raise


async def listing(call: Call) -> list[dict[str, Any]]:
    """Return the records that fit, newest first."""
    asked = call.request
    place = stored.place(call, asked.get("sandbox"))
    return [
        record.info()
        for record in call.keeper.snapshots.all()
        if (not place or record.sandbox.id in place)
        and asked.get("name") in (None, record.name)
        and all(record.labels.get(key) == value for key, value in (asked.get("labels") or {}).items())
    ]


async def get(call: Call) -> dict[str, Any]:
    return call.keeper.snapshots.find(call.request["snapshot"], spoiled=True).info()


async def update(call: Call) -> dict[str, Any]:
    """Change name, labels, or for how many days from now it is kept."""
    snapshots, asked = call.keeper.snapshots, dict(call.request["fields"])
    record = snapshots.find(call.request["snapshot"])
    fence = call.request.get("if_labels")
    if fence is not None and fence != dict(record.labels):
        raise FenceConflict(snapshot=record.id)
    changes: dict[str, Any] = checked({k: v for k, v in asked.items() if k in ("name", "labels")}, update=True)
    if "retention_days" in asked:
        days = days_of(asked["retention_days"])
        changes |= {"retention_days": days, "expires_ns": call.keeper.now_ns() + days * DAY_NS if days else 0}
    snapshots.add(replace(record, **changes))
    return snapshots.find(record.id).info()


async def delete(call: Call) -> dict[str, Any]:
    """Remove a snapshot; sandboxes made of it stay."""
    record = call.keeper.snapshots.find(call.request["snapshot"], spoiled=True)
    await _forget(call, record.id)
    return {**record.info(), "state": "deleted"}


async def _forget(call: Call, snapshot_id: str) -> None:
    await asyncio.to_thread(call.keeper.snapshots.remove, snapshot_id)
    call.keeper.sweep_soon()


def days_of(value: object) -> int | None:
    """Return for how many days a snapshot is to be kept, None for ever. Raises InvalidRequest."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= 365:
        raise InvalidRequest(detail=f"retention_days={value!r}", next="a whole number from 1 to 365")
    return value


OPERATIONS = {
    "snapshot": Operation(snapshot, leaves=False),
    "restore": Operation(restore, leaves=False),
    "snapshots": Operation(listing),
    "snapshot-get": Operation(get),
    "snapshot-update": Operation(update, leaves=False),
    "snapshot-delete": Operation(delete, leaves=False),
}
