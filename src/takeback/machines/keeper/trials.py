"""Copies made to try something in: they end with whoever made them, or take the original's place.

    copy's record:   name, labels, rules of the original, `replaces` = its id     one write: from here on it is done
    the original:    deleted, as every sandbox is
    copy's record:   `replaces` = ""

A keeper killed in between finishes it at its next start, or takes it back when only the original still lives. Does not
cover: running anything in a copy (the client's `trial`).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from takeback.errors import CannotSave, InvalidRequest, TakebackError
from takeback.machines.engine import DiskKind
from takeback.machines.keeper import listings
from takeback.machines.keeper.machine import Life
from takeback.machines.keeper.server import Call, Operation
from takeback.machines.model import SandboxState

if TYPE_CHECKING:
    from takeback.machines.keeper.keeper import Keeper

log = logging.getLogger("takeback.keeper")

_LONGEST = 7 * 86_400
_ALIVE = (SandboxState.RUNNING, SandboxState.PAUSED)
# What belongs to the place, not to the machine in it.
_OF_THE_PLACE = (
    "name", "labels", "env", "user", "timeout_seconds", "lease_ns", "on_lease_end", "idle_pause_seconds",
    "auto_wake", "persistent", "retention_days", "made_from",
)  # fmt: skip


def fields(call: Call, asked: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a fork's `lease` says of a copy: seconds until it is deleted unless kept. Raises InvalidRequest."""
    own: dict[str, Any] = {}
    lease = asked.get("lease")
    if lease is not None:
        if isinstance(lease, bool) or not isinstance(lease, int) or not 1 <= lease <= _LONGEST:
            raise InvalidRequest(detail=f"lease={lease!r}", next=f"whole seconds from 1 to {_LONGEST}")
        own["trial_ns"] = call.keeper.now_ns() + lease * 1_000_000_000
    return own


async def begun(call: Call, copies: Sequence[Life]) -> None:
    """Note what trial copies begin with; give up when whoever wanted copies, of which nobody else knows, has gone."""
    for copy in copies:
        if call.line.ended and (copy.record.trial_ns or copy.record.name is None):
            raise CannotSave(why="its caller has gone", next="repeat it")
        if not copy.record.trial_ns:
            continue
        # Layers tell later what a step changed; a disk in memory does not.
        if copy.record.disk == DiskKind.MEMORY:
            listings.keep(copy, call.keeper.registry.folder(copy.record.id), await listings.inside(copy))


async def hold(call: Call) -> dict[str, Any]:
    """Delete a trial's copy as soon as the caller has gone, even killed; the lease is for when this keeper is too."""
    life = call.life()
    try:
        await asyncio.get_running_loop().create_future()
    except asyncio.CancelledError:
        if call.line.ended and life.record.trial_ns and not life.deleted:
            log.info("sandbox %s: whoever tried something in it has gone", life.record.id)
            call.keeper.background(_abandon(call.keeper, life))
        raise
    return {}


async def _abandon(keeper: Keeper, life: Life) -> None:
    # Asked again: before this began the copy may have taken the original's place, which is gone then.
    if life.record.trial_ns and not life.deleted:
        await keeper.discard(life)


async def replace(call: Call) -> dict[str, Any]:
    """Let a copy take a sandbox's place, and delete that one; never both, never neither.

    Raises InvalidRequest, SandboxStopped; then nothing has changed.
    """
    keeper, source = call.keeper, call.life()
    copy = keeper.find(call.request["copy"])
    if copy is source:
        raise InvalidRequest(detail="a sandbox in its own place", next="name a copy of it")
    await copy.check()
    if copy.record.state not in _ALIVE:
        raise copy.stopped()
    # Nothing of this waits until the original counts as deleted: nobody ever sees both, or neither.
    keeper.find(source.record.id)
    keeper.find(copy.record.id)
    before, rules = source.record, copy.network.rules
    copy.network.set(source.network.rules)
    changes = {name: getattr(before, name) for name in _OF_THE_PLACE}
    try:
        copy.change(**changes, trial_ns=0, replaces=before.id, replaced=(*before.replaced, before.id))
    except OSError:
        copy.network.set(rules)
        raise
    source.deleted = True
    await _finish(keeper, source, copy)
    return {**copy.shown(), "replacedSandboxId": before.id}


async def _finish(keeper: Keeper, source: Life, copy: Life) -> None:
    """Let the URLs of the original lead to its copy, and delete it."""
    try:
        await keeper.previews.move(source, copy)
    except TakebackError as error:
        log.warning("sandbox %s: a preview did not move: %s", copy.record.id, error)
    await keeper.discard(source)
    copy.change(replaces="")


def _fit(life: Life) -> bool:
    return life.record.state in _ALIVE


async def recover(keeper: Keeper) -> None:
    """Finish what a killed keeper had begun."""
    for copy in keeper.lives():
        original = copy.record.replaces
        if not original or copy.deleted:
            continue
        source = next((life for life in keeper.lives() if life.record.id == original and not life.deleted), None)
        if source is not None and not _fit(copy) and (_fit(source) or (source.record.alive and not copy.record.alive)):
            log.warning("sandbox %s died before it had the place of %s, which goes on", copy.record.id, original)
            copy.change(name=None)
            await keeper.discard(copy)
            continue
        if source is not None:
            await _finish(keeper, source, copy)
        else:
            copy.change(replaces="")


OPERATIONS = {
    "hold": Operation(hold),
    "replace": Operation(replace, leaves=False),
}
