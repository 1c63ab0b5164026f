"""The operations on snapshots: take, list, delete, fork, restore in place, and starting from one.

    DATA/machines/snapshots/ID/{snapshot.json, ...the engine's files}

A folder without a snapshot.json is one that was never finished. Does not cover: what an engine writes (`engines`).
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

from takeback.errors import Damaged, InvalidRequest, SnapshotNotFound
from takeback.host import atomic
from takeback.machines.engine import Saved
from takeback.machines.keeper import stored, trials
from takeback.machines.keeper.creation import checked
from takeback.machines.keeper.machine import Life
from takeback.machines.keeper.server import Call, Operation
from takeback.machines.layout import MachinesDir
from takeback.machines.model import SandboxRecord, SandboxState, SnapshotRecord

log = logging.getLogger("takeback.keeper")

_NAME = "snapshot.json"
_DAY_NS = 86_400_000_000_000
_MOST_COPIES = 64
UNDO = "takeback.undo"  # label of what a restore saved before: the id of its sandbox


class Snapshots:
    """Every snapshot of a data directory."""

    def __init__(self, directory: MachinesDir) -> None:
        self._directory = directory
        self._records: dict[str, SnapshotRecord] = {}
        self._held: set[str] = set()

    def folder(self, snapshot_id: str) -> Path:
        return self._directory.snapshot(snapshot_id)

    def load(self) -> bool:
        """Read them all, removing what was never finished; return whether every record could be read."""
        top = self._directory.root / "snapshots"
        whole = True
        for folder in sorted(top.iterdir()) if top.is_dir() else ():
            try:
                record = SnapshotRecord.from_json(json.loads((folder / _NAME).read_bytes()))
                self._records[record.id] = record
            except FileNotFoundError:
                shutil.rmtree(folder, ignore_errors=True)
            except (OSError, ValueError, Damaged) as error:
                log.error("snapshot %s: its record cannot be read: %s", folder.name, error)
                whole = False
        return whole

    def all(self) -> list[SnapshotRecord]:
        return sorted(self._records.values(), key=lambda record: -record.created_ns)

    def folders(self) -> list[Path]:
        return [self.folder(id) for id in (*self._records, *self._held)]

    def find(self, snapshot_id: object) -> SnapshotRecord:
        """Return a snapshot by its id, or the newest of that name. Raises SnapshotNotFound."""
        found = self._records.get(str(snapshot_id))
        named = found or next((record for record in self.all() if record.name == snapshot_id), None)
        if named is None:
            raise SnapshotNotFound(id=str(snapshot_id))
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

    def hold(self, record: SnapshotRecord) -> None:
        """Keep one for a fork that is under way: nobody else sees it, and the next keeper removes it."""
        self._held.add(record.id)

    def remove(self, snapshot_id: str) -> None:
        """Remove one; the disk layers that only it needed go with the engine's next sweep."""
        self._held.discard(snapshot_id)
        self._records.pop(snapshot_id, None)
        (self.folder(snapshot_id) / _NAME).unlink(missing_ok=True)
        shutil.rmtree(self.folder(snapshot_id), ignore_errors=True)

    def expired(self, now_ns: int) -> Iterator[str]:
        for record in tuple(self._records.values()):
            if record.expires_ns and record.expires_ns <= now_ns:
                yield record.id


async def take(
    call: Call,
    life: Life,
    *,
    memory: bool = True,
    days: int | None = None,
    passing: bool = False,
    held: bool = False,
    **fields: Any,
) -> tuple[SnapshotRecord, Saved]:
    """Save a sandbox; one in `passing` is not where it stands from now on, one that is only `held` is for this call.

    Raises CannotSave, SandboxStopped; then nothing is left and it goes on.
    """
    keeper = call.keeper
    id, folder = keeper.snapshots.begin()
    created = keeper.now_ns()
    try:
        saved = await life.save(folder, memory=memory)
        ready = keeper.now_ns()
        record = SnapshotRecord(
            id=id,
            mode="memory" if memory else "disk",
            sandbox=replace(life.record, env={}, active_ns=life.active_ns, network=life.network.rules.to_json()),
            created_ns=created,
            ready_ns=ready,
            expires_ns=ready + days * _DAY_NS if days else 0,
            retention_days=days,
            file_bytes=sum(size for _, size in saved.files),
            paused_s=saved.paused_s,
            **fields,
        )
        if held:
            keeper.snapshots.hold(record)
        else:
            keeper.snapshots.add(record)
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
    named.setdefault("labels", dict(life.record.labels))
    await stored.room(call, life)
    record, saved = await take(call, life, memory=mode == "memory", days=_days(asked.get("retention_days")), **named)
    return (await stored.counted(call, record, saved)).info()


async def fork(call: Call) -> dict[str, Any]:
    """Make running copies of a sandbox, and keep the snapshot they came from only if asked. All of them, or none."""
    keeper, asked = call.keeper, call.request["fields"]
    count = asked.get("count", 1)
    if isinstance(count, bool) or not isinstance(count, int) or not 1 <= count <= _MOST_COPIES:
        raise InvalidRequest(detail=f"count={count!r}", next=f"from 1 to {_MOST_COPIES} copies")
    life = call.life()
    wanted = checked({name: asked[name] for name in ("name", "labels", "network") if asked.get(name) is not None})
    name = wanted.pop("name", None)
    names = [name if number == 0 else name and f"{name}-{number}" for number in range(count)]
    for one in names:
        keeper.take_name(one)
    env = life.record.env
    trial = trials.fields(call, asked)
    keep = bool(asked.get("keep_snapshot"))
    if keep:
        await stored.room(call, life)
    days = _days(asked.get("retention_days"))
    labels = dict(life.record.labels)
    taken, saved = await take(call, life, labels=labels, passing=not keep, held=not keep, days=days)
    copies: list[Life] = []
    try:
        for one in names:
            came_from = taken.id if keep else life.record.last_snapshot
            own = {**wanted, **trial, "name": one, "env": env, "last_snapshot": came_from}
            made = _record_from(call, taken, own, life.record.id)
            copies.append(keeper.new(made))
        results = await asyncio.gather(*(copy.start_from(saved) for copy in copies), return_exceptions=True)
        failed = [one for one in results if isinstance(one, BaseException)]
        if failed:
            raise failed[0]
        await trials.begun(call, copies)
        if keep:
            taken = await stored.counted(call, taken, saved)
    except BaseException:
        for copy in copies:
            await keeper.discard(copy)
        raise
    finally:
        if not keep:
            keeper.background(_forget(call, taken.id))
    return {"sandboxes": [copy.shown() for copy in copies], "snapshot": taken.info() if keep else None}


async def start_from(call: Call, fields: Mapping[str, Any], snapshot_id: str) -> Life:
    """Make a sandbox of a snapshot; it is of the size that was saved. Raises SnapshotNotFound, InvalidRequest."""
    keeper = call.keeper
    found = keeper.snapshots.find(snapshot_id)
    for name in ("vcpu", "memory_mib", "disk_mib", "image"):
        saved_as = getattr(found.sandbox, name, found.sandbox.base.image)
        if fields.get(name) not in (None, saved_as):
            raise InvalidRequest(
                detail=f"{name}={fields[name]!r} with a snapshot", next=f"it was saved with {saved_as}"
            )
    engine = keeper.engine(found.sandbox.engine)
    saved = await asyncio.to_thread(engine.saved, keeper.snapshots.folder(found.id))
    life = keeper.new(_record_from(call, found, fields, found.id))
    try:
        await life.start_from(saved)
    except BaseException:
        await keeper.discard(life)
        raise
    return life


def _record_from(call: Call, found: SnapshotRecord, fields: Mapping[str, Any], made_from: str) -> SandboxRecord:
    """Return the record of a copy: as the source was, with its own name, env and clock."""
    own = {
        name: value
        for name, value in fields.items()
        if name in SandboxRecord.__dataclass_fields__ and name not in ("vcpu", "memory_mib", "disk_mib")
    }
    own.setdefault("labels", dict(found.labels))
    fresh: dict[str, Any] = {
        "id": str(uuid.uuid4()), "state": SandboxState.STARTING, "created_ns": call.keeper.now_ns(), "name": None,
        "env": {}, "ready_ns": 0, "active_ns": 0, "paused_ns": 0, "ended_ns": 0, "lease_ns": 0, "stop_reason": None,
        "lost": None, "previews": {}, "kept": "", "incarnation": "", "trial_ns": 0, "replaces": "", "replaced": (),
        "made_from": made_from, "last_snapshot": found.id, "born_of": found.id,
        "generation": found.sandbox.generation + 1,
    }  # fmt: skip
    # A snapshot that does not say what its source might reach opens nothing.
    own.setdefault("network", found.sandbox.network or {"internet": False})
    return replace(found.sandbox, **{**fresh, **own})


async def restore(call: Call) -> dict[str, Any]:
    """Put a sandbox to a snapshot, same id; what it was is saved first, so that this can be taken back."""
    keeper, life = call.keeper, call.life()
    found = keeper.snapshots.find(call.request["snapshot"])
    if found.sandbox.engine != life.record.engine:
        raise InvalidRequest(
            detail=f"a snapshot of the engine {found.sandbox.engine}", next="start a new sandbox from it"
        )
    # All that can be wrong with it is found out before anything is done.
    saved = await asyncio.to_thread(life.engine.saved, keeper.snapshots.folder(found.id))
    undo, undo_saved = await take(call, life, days=1, passing=True, labels={UNDO: life.record.id})
    try:
        old = await life.replace(saved, found.id)
    except BaseException:
        keeper.snapshots.remove(undo.id)
        raise
    keeper.background(life.drop(old))
    keeper.background(stored.counted(call, undo, undo_saved))
    return {**life.shown(), "undoSnapshotId": undo.id}


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
    return call.keeper.snapshots.find(call.request["snapshot"]).info()


async def update(call: Call) -> dict[str, Any]:
    """Change name, labels, or for how many days from now it is kept."""
    snapshots, asked = call.keeper.snapshots, dict(call.request["fields"])
    record = snapshots.find(call.request["snapshot"])
    changes: dict[str, Any] = checked({k: v for k, v in asked.items() if k in ("name", "labels")}, update=True)
    if "retention_days" in asked:
        days = _days(asked["retention_days"])
        changes |= {"retention_days": days, "expires_ns": call.keeper.now_ns() + days * _DAY_NS if days else 0}
    snapshots.add(replace(record, **changes))
    return snapshots.find(record.id).info()


async def delete(call: Call) -> dict[str, Any]:
    """Remove a snapshot; sandboxes made of it stay."""
    record = call.keeper.snapshots.find(call.request["snapshot"])
    await _forget(call, record.id)
    return {**record.info(), "state": "deleted"}


async def _forget(call: Call, snapshot_id: str) -> None:
    await asyncio.to_thread(call.keeper.snapshots.remove, snapshot_id)
    call.keeper.sweep_soon()


def _days(value: object) -> int | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= 365:
        raise InvalidRequest(detail=f"retention_days={value!r}", next="a whole number from 1 to 365")
    return value


OPERATIONS = {
    "snapshot": Operation(snapshot, leaves=False),
    "fork": Operation(fork, leaves=False),
    "restore": Operation(restore, leaves=False),
    "snapshots": Operation(listing),
    "snapshot-get": Operation(get),
    "snapshot-update": Operation(update, leaves=False),
    "snapshot-delete": Operation(delete, leaves=False),
}
