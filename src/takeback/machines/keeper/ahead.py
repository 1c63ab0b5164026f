"""What is made while nobody asks for anything, so that the next start is quick.

Only after a moment without calls, and one piece at a time: whoever calls again is not to wait for it. A call that lasts
(a long command, a copy held open) does not count, one that begins or ends does.

Does not cover: what is made (the engine).
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from takeback.errors import TakebackError
from takeback.machines.keeper.machine import threaded

if TYPE_CHECKING:
    from takeback.machines.keeper.keeper import Keeper

log = logging.getLogger("takeback.keeper")

QUIET_SECONDS = 0.3


async def watch(keeper: Keeper) -> None:
    """Have engines make ahead what they can after every time somebody asked something, for ever."""
    while True:
        await keeper.called.wait()
        keeper.called.clear()
        while not keeper.called.is_set() and (left := QUIET_SECONDS - keeper.quiet_for()) > 0:
            await asyncio.sleep(left)
        for engine in keeper.engines():
            try:
                while not keeper.called.is_set() and await threaded(engine.make_ahead):
                    pass
            except (TakebackError, OSError) as error:
                log.warning("nothing could be made ahead: %s", error)
