"""Copies of a running sandbox, brought up by its engine beside the save, not after it.

    source locked:   make the copies' records -> at rest -> engine.fork (the whole of it once more, when a copy dies)
    copies locked:   ... -> each answers -> running (once more from the save's files, when one does not)

A save that nobody wants afterwards lies where the engine reads it quickest. Does not cover: other ways to use a save
(`snapshots`), what a killed keeper leaves of it (`batches`).
"""

from __future__ import annotations

import asyncio
import logging
import shutil
import uuid
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from takeback.errors import EngineFailed, InvalidRequest
from takeback.machines.engine import Answers, Saved
from takeback.machines.keeper import batches, snapshots, stored, trials
from takeback.machines.keeper.creation import checked
from takeback.machines.keeper.machine import Life, threaded
from takeback.machines.keeper.server import Call, Operation
from takeback.machines.model import SnapshotRecord

log = logging.getLogger("takeback.keeper")

Make = Callable[[], Sequence[Life]]
_MOST_COPIES = 64


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
    days = snapshots.days_of(asked.get("retention_days"))
    copies: list[Life] = []
    batch: Path | None = None
    if keep:
        id, folder = keeper.snapshots.begin()
    else:
        id = str(uuid.uuid4())
        folder = await asyncio.to_thread(life.engine.passing, id, life.machine)
    taken: SnapshotRecord | None = None

    def make() -> list[Life]:
        nonlocal taken, batch
        # Here nothing changes any more what the source is.
        taken = snapshots.draft(call, life, id, "memory", days, labels=snapshots.inherited(life.record.labels))
        ids = [str(uuid.uuid4()) for _ in names]
        batch = batches.begin(keeper.directory, ids)
        for own_id, one in zip(ids, names, strict=True):
            came_from = id if keep else life.record.last_snapshot
            own = {**wanted, **trial, "id": own_id, "name": one, "env": env, "last_snapshot": came_from}
            copies.append(keeper.new(snapshots.record_from(call, taken, own, life.record.id)))
        return copies

    try:
        saved = await _fork(life, make, folder, follow="network" not in wanted)
        await trials.begun(call, copies)
        if batch is not None:
            batches.end(batch)
        if keep and taken is not None:
            taken = snapshots.finish(call, taken, saved)
            if not trial:  # that one is deleted with the copy, when the trial fails
                life.change(last_snapshot=id)
            taken = await stored.counted(call, taken, saved)
    except BaseException:
        for copy in copies:
            await keeper.discard(copy)
        if batch is not None:
            batches.end(batch)
        if keep:
            keeper.snapshots.remove(id)
        raise
    finally:
        if not keep:
            keeper.background(_drop(folder))
    return {
        "sandboxes": [copy.shown() for copy in copies],
        "snapshot": taken.info() if keep and taken is not None else None,
    }


async def _drop(folder: Path) -> None:
    await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)


async def _fork(source: Life, make: Make, into: Path, *, follow: bool) -> Saved:
    """Save a sandbox into an empty folder and bring up the copies that `make` enters, called once it cannot change.

    Returns when all of them run; with `follow` they may reach what the source may then. Raises what `Life.save` and
    `Life.arrive` raise; the source goes on, and the copies are to be discarded.
    """
    async with AsyncExitStack() as held:
        async with source.changing():
            copies = make()
            for copy in copies:
                await held.enter_async_context(copy.changing())
            saved = await source.at_rest(lambda answers: _twice(source, copies, into, answers))
        for copy in copies:
            if follow and copy.network.rules != source.network.rules:  # changed meanwhile
                copy.network.set(source.network.rules)
        results = await asyncio.gather(*(copy.arrive(saved) for copy in copies), return_exceptions=True)
    failed = [one for one in results if isinstance(one, BaseException)]
    if failed:
        raise failed[0]
    return saved


async def _twice(source: Life, copies: Sequence[Life], into: Path, answers: Answers) -> Saved:
    try:
        return await _once(source, copies, into, answers)
    except EngineFailed as error:
        # One restore in hundreds dies in the engine; nothing is left of the copies, so it can be repeated.
        log.warning("sandbox %s: a copy of it failed: %s; once more", source.record.id, error)
        return await _once(source, copies, into, answers)


async def _once(source: Life, copies: Sequence[Life], into: Path, answers: Answers) -> Saved:
    for copy in copies:
        copy.begin()
    machines = [copy.machine for copy in copies]
    return await threaded(source.engine.fork, source.machine, machines, into, answers=answers)


OPERATIONS = {"fork": Operation(fork, leaves=False)}
