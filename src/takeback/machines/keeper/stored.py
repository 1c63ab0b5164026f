"""The room that snapshots take: counted when one is taken, limited by the user's setting, told by `du`.

Does not cover: room that the engine needs in memory (`engines.gvisor.room`).
"""

from __future__ import annotations

import asyncio
import logging
import os
from dataclasses import replace
from pathlib import Path

from takeback.errors import StoredLimit, TakebackError
from takeback.machines.engine import Saved
from takeback.machines.keeper.machine import Life
from takeback.machines.keeper.meter import stored_bytes
from takeback.machines.keeper.server import Call, Operation
from takeback.machines.model import SnapshotRecord

log = logging.getLogger("takeback.keeper")


async def room(call: Call, life: Life) -> None:
    """See that another snapshot of a sandbox stays within the limit, before anything stops. Raises StoredLimit."""
    limit = int(call.request.get("stored_limit") or 0)
    if not limit:
        return
    try:
        usage = await life.usage()
    except TakebackError:
        return  # it cannot be saved then, and that says why
    held, need = stored_bytes(call.keeper.snapshots.all()), usage.memory + usage.disk
    if held + need > limit:
        raise StoredLimit(need=need, limit=limit, stored=held)


async def counted(call: Call, record: SnapshotRecord, saved: Saved) -> SnapshotRecord:
    """Write down how large the disk layers of a new snapshot are, and return its record."""
    snapshots = call.keeper.snapshots
    known = {name: size for one in snapshots.all() for name, size in one.layers.items()}
    engine = call.keeper.engine(record.sandbox.engine)
    layers = await asyncio.to_thread(engine.stored, saved, known)
    if layers and snapshots.has(record.id):
        # Not the record that was given: it may have been renamed, or its days changed, while its layers were counted.
        record = replace(snapshots.find(record.id), layers=layers)
        snapshots.add(record)
    return record


def place(call: Call, sandbox_id: str | None) -> set[str]:
    """Return a sandbox's id and those whose place it took; nothing for None."""
    if sandbox_id is None:
        return set()
    replaced = next((life.record.replaced for life in call.keeper.lives() if life.record.id == sandbox_id), ())
    return {sandbox_id, *replaced}


async def stored(call: Call) -> dict[str, int]:
    """Return the bytes of all snapshots (what they share once), and of all that machines have on this disk."""
    directory = call.keeper.directory
    total = await asyncio.to_thread(_on_disk, directory.root)
    images = await asyncio.to_thread(_on_disk, directory.images)
    return {
        "snapshots": stored_bytes(call.keeper.snapshots.all()),
        "snapshotCount": len(call.keeper.snapshots.all()),
        "sandboxCount": call.keeper.alive(),
        "images": images,
        "total": total,
        "limit": int(call.request.get("stored_limit") or 0),
    }


def _on_disk(top: Path) -> int:
    total = 0
    for folder, folders, names in os.walk(top):
        for name in (*folders, *names):
            try:
                total += os.lstat(os.path.join(folder, name)).st_blocks * 512
            except OSError:
                continue
    return total


OPERATIONS = {"stored": Operation(stored)}
