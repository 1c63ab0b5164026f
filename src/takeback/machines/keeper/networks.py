"""The operations on what a sandbox may reach, and where its rules come from.

A sandbox whose rules cannot be read reaches nothing until they are set anew.

Does not cover: deciding (`network.rules`), connections (`network.broker`), servers inside (`forwarding`, `previews`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from takeback.errors import BadRule, Damaged, InvalidRequest
from takeback.machines.keeper.server import Call, Operation
from takeback.machines.network.outside import Upstream
from takeback.machines.network.rules import Rules, read_rules
from takeback.machines.network.state import SandboxNetwork

log = logging.getLogger("takeback.keeper")

_PARTS = ("internet", "allow", "deny", "connect")


def rules(given: object) -> Rules:
    """Return rules as they are asked for: a dict with any of internet, allow, deny, connect. Raises BadRule."""
    if not isinstance(given, Mapping):
        raise BadRule(where="network", entry=given, why="it is a dict", next='write network={"internet": False}')
    for name in given:
        if name not in _PARTS:
            raise BadRule(where="network", entry=name, why="it has no such part", next=f"parts: {', '.join(_PARTS)}")
    return read_rules(**given)


def of(
    sandbox_id: str, folder: Path, new: Rules | None, upstream: Upstream | None, step: Callable[[], str]
) -> SandboxNetwork:
    """Return the network of a sandbox that is `new`, or is found again with the rules it had."""
    try:
        return SandboxNetwork(sandbox_id, folder, new, upstream=upstream, step=step)
    except Damaged as error:
        log.error("sandbox %s reaches nothing: %s", sandbox_id, error)
        return SandboxNetwork(sandbox_id, folder, Rules(internet=False), upstream=upstream, step=step)


async def get(call: Call) -> dict[str, Any]:
    return call.life().network.record()


async def put(call: Call) -> dict[str, Any]:
    """Put rules in the place of those it has, for open connections too."""
    return call.life().network.set(rules(call.request["fields"]))


async def entries(call: Call) -> list[dict[str, Any]]:
    """Return the last decisions, oldest first."""
    limit = call.request.get("limit")
    if limit is not None and (isinstance(limit, bool) or not isinstance(limit, int) or limit < 1):
        raise InvalidRequest(detail=f"limit={limit!r}", next="a whole number from 1 on")
    return [entry.to_json() for entry in call.life().network.log(limit)]


OPERATIONS = {
    "network": Operation(get),
    "network-set": Operation(put, leaves=False),
    "network-log": Operation(entries),
}
