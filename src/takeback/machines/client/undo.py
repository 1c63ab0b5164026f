"""Operations behind undo: replace, diff, what was used; and how a state to compare is named.

Does not cover: trying something in a copy (`trial`), or drawing (`tree`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from takeback.machines.client.operations import Info
from takeback.machines.client.steps import RECEIVE, Give, Op, ask, begin
from takeback.machines.cost import Prices, Used, cost

Against = Any  # a sandbox, a snapshot's record, or the id of either


def replace(sandbox: str, copy: str) -> Op[Info]:
    """Let a copy take a sandbox's place and return the copy's record. Raises SandboxStopped, SandboxNotFound."""
    info: Info = yield from ask({"op": "replace", "sandbox": sandbox, "copy": copy})
    return info


def hold(copy: str) -> Op[None]:
    """Give one item, and let the copy live as long as this operation is not closed: at most as long as this program."""
    yield from begin({"op": "hold", "sandbox": copy})
    yield Give(None)
    yield RECEIVE


def diff(of: Mapping[str, str], against: Against = None) -> Op[Info]:
    """Return what differs from `against` to the state meant by {"sandbox": id} or {"snapshot": id}."""
    request = {"op": "diff", **of, "against": named(against)}
    answer: Info = yield from ask(request)
    return answer


def named(state: Against) -> dict[str, str] | None:
    """Return how a sandbox or snapshot is named to the keeper, None for none; a lone id may be either's."""
    if state is None:
        return None
    info = state if isinstance(state, Mapping) else getattr(state, "info", None)
    if info is None:
        return {"id": str(state)}
    return {"snapshot" if info.get("kind") == "snapshot" else "sandbox": str(info["id"])}


def used(sandbox: str, prices: Prices) -> Op[dict[str, Any]]:
    """Return what a sandbox used until now, or until it was deleted, and what that costs.

    Micro-dollars by kind with `totalMicros`; `cpuSeconds`, `memoryGiBHours`, `storedGBMonths`, `sentBytes`,
    `receivedBytes`.
    """
    answer = yield from ask({"op": "used", "sandbox": sandbox})
    names = ("cpuSeconds", "memoryByteSeconds", "storedByteSeconds", "sentBytes", "receivedBytes")
    amounts = Used(*(answer[name] for name in names))
    return {"sandboxId": answer["sandboxId"], **cost(amounts, prices).to_dict(), **amounts.to_dict()}


def stored() -> Op[dict[str, int]]:
    """Return the bytes that snapshots and sandboxes have on the disk."""
    answer: dict[str, int] = yield from ask({"op": "stored"})
    return answer
