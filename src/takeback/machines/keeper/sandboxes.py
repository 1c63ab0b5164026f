"""The operations on sandboxes as a whole: create, get, list, pause, wake, stop, delete, ...

Does not cover: what they do to a machine (`machine`).
"""

from __future__ import annotations

import asyncio
import uuid
from typing import Any

from takeback.errors import InvalidRequest, NotPaused, SandboxNotFound, StartFailed, TakebackError
from takeback.machines.cost import Used
from takeback.machines.keeper import firsts, snapshots
from takeback.machines.keeper import keeper as keepers
from takeback.machines.keeper.creation import checked, new_record
from takeback.machines.keeper.machine import Life
from takeback.machines.keeper.server import Call, Operation
from takeback.machines.model import SandboxState

_LONGEST_WAIT = 86_400.0


async def create(call: Call) -> dict[str, Any]:
    """Make and start a sandbox; with `get_or_create` answer the living one of that name."""
    keeper = call.keeper
    fields = checked(call.request["fields"])
    if fields.get("get_or_create"):
        if not fields.get("name"):
            raise InvalidRequest(detail="get_or_create without a name", next="give a name")
        life = keeper.named(fields["name"])
        if life is not None:
            return {**await _found(life), "reused": True}
    keeper.take_name(fields.get("name"))
    if fields.get("snapshot"):
        life = await snapshots.start_from(call, fields, fields["snapshot"])
        return life.shown()
    engine = keeper.engine(call.request["engine"])
    record = new_record(str(uuid.uuid4()), fields, call.request["engine"], engine, keeper.directory, keeper.now_ns())
    life = keeper.new(record)
    try:
        await life.start()
        begun = await firsts.after_boot(life)
    except BaseException as error:
        await keeper.discard(life)
        if isinstance(error, TakebackError) or not isinstance(error, Exception):
            raise
        raise StartFailed(why=str(error)) from error
    if call.line.ended and record.name is None:
        await keeper.discard(life)  # whoever asked has gone, and nobody else knows its id
    return {**life.record.info(), **({} if begun is None else {"start": begun})}


async def _found(life: Life) -> dict[str, Any]:
    """Wake or restart a sandbox that was found by its name."""
    life.enter()
    try:
        if life.record.state == SandboxState.STOPPED:
            await life.restart()
        elif life.record.held:
            raise life.stopped()
        elif life.record.state == SandboxState.PAUSED:
            try:
                await life.wake()
            except NotPaused:
                pass  # another caller was quicker
        else:
            await life.wait_for(SandboxState.RUNNING, 60)
    finally:
        life.leave()
    return life.record.info()


async def get(call: Call) -> dict[str, Any]:
    return call.life().shown()


async def listing(call: Call) -> list[dict[str, Any]]:
    """Return the records that fit."""
    asked = call.request
    lives = keepers.select(call.keeper.lives(), asked["states"], asked["stopped"], asked["labels"], asked["name"])
    return [life.shown() for life in lives]


async def wait_for(call: Call) -> dict[str, Any]:
    """Return the record when it has come to a state, or the time is over."""
    life = call.life()
    await life.wait_for(call.request["state"], min(float(call.request["seconds"]), _LONGEST_WAIT))
    return life.shown()


async def pause(call: Call) -> dict[str, Any]:
    life = call.life()
    await life.pause()
    return life.shown()


async def wake(call: Call) -> dict[str, Any]:
    life = call.life()
    await life.wake(call.request.get("timeout_seconds"))
    return life.shown()


async def stop(call: Call) -> dict[str, Any]:
    life = call.life()
    await life.stop()
    return life.shown()


async def restart(call: Call) -> dict[str, Any]:
    life = call.life()
    await life.restart()
    return life.shown()


async def extend(call: Call) -> dict[str, Any]:
    """Move the end of the time limit; without one nothing changes."""
    life = call.life()
    if life.record.lease_ns:
        seconds = int(call.request["seconds"])
        life.change(lease_ns=max(life.record.lease_ns, call.keeper.now_ns()) + seconds * 1_000_000_000)
    return life.shown()


async def update(call: Call) -> dict[str, Any]:
    """Change settings; in `env` a value sets and null removes."""
    life = call.life()
    fields = checked(call.request["fields"], update=True)
    if fields.get("name") is not None:
        call.keeper.take_name(fields["name"], besides=life)
    if "env" in fields:
        env = {**life.record.env, **fields["env"]}
        fields["env"] = {name: value for name, value in env.items() if value is not None}
    if "timeout_seconds" in fields:
        seconds = fields["timeout_seconds"] = fields["timeout_seconds"] or 0
        fields["lease_ns"] = call.keeper.now_ns() + seconds * 1_000_000_000 if seconds else 0
    life.change(**fields)
    return life.shown()


async def delete(call: Call) -> dict[str, Any]:
    """Remove a sandbox; saying it again gets the same answer."""
    try:
        return await call.keeper.discard(call.life())
    except SandboxNotFound:
        answer = call.keeper.deleted(call.request["sandbox"])
        if answer is None:
            raise
        return {**answer, "replayed": True}


async def metrics(call: Call) -> dict[str, Any]:
    """Return what a sandbox uses now, CPU measured over a tenth of a second, and what went over its network so far."""
    life = call.life()
    record = life.record
    call.keeper.meter.read(life)
    used = call.keeper.meter.used(record.id) or Used()
    latest = None
    if record.state == SandboxState.RUNNING:
        first = await life.usage()
        await asyncio.sleep(_SAMPLE_SECONDS)
        second = await life.usage()
        cores = max(0.0, second.cpu_s - first.cpu_s) / _SAMPLE_SECONDS
        latest = {
            "at": life.shown()["lastActiveAt"],
            "cpuPercent": round(100 * cores / record.vcpu, 1),
            "cpuCores": round(cores, 3),
            "cpuPeakPercent": round(100 * cores / record.vcpu, 1),
            "memoryBytes": second.memory,
            "memoryPeakBytes": second.memory,
            "diskBytes": second.disk,
            "cpuSeconds": second.cpu_s,
            "samples": 2,
        }
    return {
        "sandboxId": record.id,
        "range": call.request.get("range", "1h"),
        "stepSeconds": 10,
        "vcpu": record.vcpu,
        "memoryLimitBytes": record.memory_mib << 20,
        "diskLimitBytes": record.disk_mib << 20,
        "state": record.state.value,
        "networkSentBytes": used.sent,
        "networkReceivedBytes": used.received,
        "latest": latest,
        "points": [latest] if latest else [],
    }


_SAMPLE_SECONDS = 0.1

OPERATIONS = {
    "create": Operation(create, leaves=False),
    "get": Operation(get),
    "list": Operation(listing),
    "wait-for": Operation(wait_for),
    "pause": Operation(pause, leaves=False),
    "wake": Operation(wake, leaves=False),
    "stop": Operation(stop, leaves=False),
    "restart": Operation(restart, leaves=False),
    "extend": Operation(extend, leaves=False),
    "update": Operation(update, leaves=False),
    "delete": Operation(delete, leaves=False),
    "metrics": Operation(metrics),
}
