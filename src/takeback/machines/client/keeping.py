"""`keep_alive`: a sandbox with a time limit kept going while this program lives.

Does not cover: the time limit (the keeper's), the idle pause, which any call puts off.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from takeback.errors import TakebackError
from takeback.machines.client.faces import Steps, later, now

_LEAST_SECONDS = 10.0
_LEAST_MARGIN, _MOST_MARGIN = 60, 3600

Stop = Callable[[], None]


def in_thread(box: Any, every_seconds: float, margin_seconds: int) -> Stop:
    """Look after a Sandbox from a thread of its own; return what ends that."""
    over = threading.Event()
    steps = _keep(box, every_seconds, margin_seconds, over.is_set, over.wait)
    threading.Thread(target=lambda: now(steps), name=f"keep {box.id}", daemon=True).start()
    return over.set


def in_task(box: Any, every_seconds: float, margin_seconds: int) -> Stop:
    """Look after an AsyncSandbox from a task of the running event loop; return what ends that."""
    import asyncio  # half of what a blocking program would import

    steps = _keep(box, every_seconds, margin_seconds, lambda: False, asyncio.sleep)
    task = asyncio.get_running_loop().create_task(later(steps))

    def stop() -> None:
        task.cancel()

    return stop


def _keep(
    box: Any, every_seconds: float, margin_seconds: int, over: Callable[[], bool], sleep: Callable[[float], Any]
) -> Steps[None]:
    every = max(_LEAST_SECONDS, float(every_seconds))
    margin = min(_MOST_MARGIN, max(_LEAST_MARGIN, int(margin_seconds)))
    box = type(box)(box._client, box.info)  # what the caller knows of it changes by his own calls only
    while not over():
        try:
            yield box.refresh()
            if box.state in ("stopping", "stopped"):
                return
            missing = margin - _left(box.info["endsAt"])
            if box.state == "running" and missing > 0:
                yield box.extend(math.ceil(missing))
        except TakebackError as error:
            if error.http_status == 404:
                return  # it was deleted
        yield sleep(every)


def _left(ends_at: str | None) -> float:
    """Return the seconds to a moment; without one there is no end."""
    if ends_at is None:
        return math.inf
    return (datetime.fromisoformat(ends_at) - datetime.now(UTC)).total_seconds()
