"""The operation `diff`: what differs between two sandboxes or snapshots, or since one was made.

Under LAYERS the layers are compared on the host and nothing inside is asked. Otherwise both are listed; a snapshot is
started for that moment. Does not cover: comparing (`machines.overlay`, `machines.changes`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from takeback.errors import InvalidRequest, SandboxNotFound, SnapshotNotFound
from takeback.machines.changes import Changes, between
from takeback.machines.keeper import listings, snapshots
from takeback.machines.keeper.listings import Listing, alike
from takeback.machines.keeper.machine import Life
from takeback.machines.keeper.server import Call, Operation
from takeback.machines.model import SandboxRecord, SnapshotRecord
from takeback.machines.overlay import compare

_SECONDS = 600
_AGAIN = "compare it with a sandbox or a snapshot that is still there"


@dataclass(frozen=True)
class _Side:
    """One state to compare: a sandbox now, a snapshot, or a sandbox as it was made (`born`)."""

    life: Life | None = None
    snapshot: SnapshotRecord | None = None
    born: bool = False

    @property
    def record(self) -> SandboxRecord:
        if self.snapshot is not None:
            return self.snapshot.sandbox
        assert self.life is not None
        return self.life.record


async def diff(call: Call) -> dict[str, Any]:
    """Return the files added, changed and deleted from `against` to the state that is meant.

    Raises SandboxNotFound, SnapshotNotFound, InvalidRequest.
    """
    after = _named(call, call.request)
    against = call.request.get("against")
    before = _named(call, against) if against else _made_from(call, after)
    return (await changes(call, before, after)).to_dict()


async def changes(call: Call, before: _Side, after: _Side) -> Changes:
    """Compare two states, on the host where that is possible."""
    old, new = await _layers(call, before), await _layers(call, after)
    if old is not None and new is not None:
        holder = after.life or before.life
        if holder is None:
            return await asyncio.to_thread(compare, old, new)
        return await holder.undisturbed(compare, old, new)
    return between(*await asyncio.to_thread(alike, await _listing(call, before), await _listing(call, after)))


def _named(call: Call, named: Mapping[str, Any]) -> _Side:
    if named.get("id"):
        try:
            return _Side(life=call.keeper.find(named["id"]))
        except SandboxNotFound:
            return _Side(snapshot=call.keeper.snapshots.find(named["id"]))
    if named.get("snapshot"):
        return _Side(snapshot=call.keeper.snapshots.find(named["snapshot"]))
    return _Side(life=call.keeper.find(named.get("sandbox")))


def _made_from(call: Call, side: _Side) -> _Side:
    if side.life is not None:
        return _Side(life=side.life, born=True)
    parent = side.record.last_snapshot
    if parent is None:
        raise InvalidRequest(detail="that snapshot was made of no other", next=_AGAIN)
    return _Side(snapshot=call.keeper.snapshots.find(parent))


async def _layers(call: Call, side: _Side) -> list[Path] | None:
    """Return the folders of a state on the host, the image's first; None when they are not there."""
    engine = call.keeper.engine(side.record.engine)
    folder = call.keeper.snapshots.folder(side.snapshot.id) if side.snapshot is not None else None
    if side.life is not None and side.life.kept is not None:
        folder = None if side.born else side.life.kept
    if folder is not None:
        found = engine.layers(await asyncio.to_thread(engine.saved, folder))
    else:
        assert side.life is not None
        found = engine.layers(side.life.machine, born=side.born)
    return None if found is None else [Path(side.record.base.root), *found]


async def _listing(call: Call, side: _Side) -> Listing:
    """List a state that is not to be read on the host."""
    if side.snapshot is not None:
        return await _of_snapshot(call, side.snapshot.id)
    assert side.life is not None
    if side.born:
        return await _of_birth(call, side.life)
    side.life.enter()
    try:
        await side.life.awake()
        return await listings.inside(side.life)
    finally:
        side.life.leave()


async def _of_birth(call: Call, life: Life) -> Listing:
    """List what a sandbox began with: noted then, or the image, or its snapshot or source that is still there."""
    noted = listings.kept(life, call.keeper.registry.folder(life.record.id))
    if noted is not None:
        return noted
    record = life.record
    if not record.generation or record.born_of is None:  # its image was switched: it began anew with that
        return listings.of_base(life)
    for one in (record.born_of, record.made_from):
        try:
            if one is not None:
                return await _of_snapshot(call, one)
        except SnapshotNotFound:
            continue
    try:
        return await _listing(call, _Side(life=call.keeper.find(record.made_from)))
    except SandboxNotFound:
        pass
    raise InvalidRequest(detail=f"what sandbox {record.id} was made of is gone", next=_AGAIN)


async def _of_snapshot(call: Call, snapshot_id: str) -> Listing:
    """List a snapshot with its files in memory by starting it for that moment."""
    life = await snapshots.start_from(call, {"trial_ns": call.keeper.now_ns() + _SECONDS * 10**9}, snapshot_id)
    try:
        return await listings.inside(life)
    finally:
        await call.keeper.discard(life)


OPERATIONS = {"diff": Operation(diff)}
