"""What happens because time passes: idle sandboxes pause, leases end, the dead are noticed, the keeper ends itself.

Does not cover: how a sandbox pauses or ends (`machine`).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable
from typing import TYPE_CHECKING

from takeback.errors import TakebackError
from takeback.machines.model import SandboxRecord, SandboxState

if TYPE_CHECKING:
    from takeback.machines.keeper.keeper import Keeper
    from takeback.machines.keeper.machine import Life

log = logging.getLogger("takeback.keeper")

TICK = 1.0
_LOOK_EVERY = 10  # ticks between two looks at a sandbox nobody uses


def due(record: SandboxRecord, busy: int, active_ns: int, now_ns: int) -> str:
    """Return what time has brought to a sandbox: `pause`, `stop`, `delete`, or an empty text."""
    if record.trial_ns and now_ns >= record.trial_ns:
        return "delete"
    if record.state not in (SandboxState.RUNNING, SandboxState.PAUSED):
        return ""
    if record.paused_until_ns and now_ns >= record.paused_until_ns:
        return "delete"
    if record.lease_ns and now_ns >= record.lease_ns:
        if record.on_lease_end != "pause" or record.state == SandboxState.RUNNING:
            return record.on_lease_end
    idle_ns = record.idle_pause_seconds * 1_000_000_000
    if record.state == SandboxState.RUNNING and idle_ns and not busy and now_ns - active_ns >= idle_ns:
        return "pause"
    return ""


async def watch(keeper: Keeper) -> None:
    """Look at everything once a second, for ever."""
    count = 0
    while True:
        await asyncio.sleep(TICK)
        count += 1
        keeper.reap()
        keeper.meter.tick(keeper)
        for life in keeper.lives():
            if not life.locked:
                life.write_again()
                _look(keeper, life, thorough=count % _LOOK_EVERY == 0)
        for snapshot in keeper.snapshots.expired(keeper.now_ns()):
            log.info("the days of snapshot %s are over", snapshot)
            keeper.snapshots.remove(snapshot)
            keeper.sweep_soon()
        keeper.sweep_if_quiet()
        keeper.end_if_idle()


def _look(keeper: Keeper, life: Life, *, thorough: bool) -> None:
    what = due(life.record, life.busy, life.active_ns, keeper.now_ns())
    if what == "pause":
        keeper.background(_logged(life, life.pause()))
    elif what == "stop":
        keeper.background(_logged(life, _stop(life)))
    elif what == "delete" and not life.deleted:
        keeper.background(_logged(life, _delete(keeper, life)))
    elif thorough and life.runs:
        keeper.background(_logged(life, life.check()))


async def _delete(keeper: Keeper, life: Life) -> None:
    # Asked again: before this began a trial's copy may have taken the original's place, or somebody gave it more time.
    if due(life.record, life.busy, life.active_ns, keeper.now_ns()) == "delete" and not life.deleted:
        await keeper.discard(life)


async def _stop(life: Life) -> None:
    try:
        await life.stop("lease ended")
    except TakebackError:
        # Its disk cannot be saved now. Paused it costs nothing but memory; asking every second would not help.
        life.change(lease_ns=0)
        await life.pause()
        raise


async def _logged(life: Life, work: Awaitable[object]) -> None:
    try:
        await work
    except TakebackError as error:
        log.warning("sandbox %s: %s", life.record.id, error)
