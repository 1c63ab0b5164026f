"""Previews: a URL of this machine for a server inside, which stays until the sandbox or the preview is deleted.

    record.previews = {"8000": {"local": 41234, "created_ns": ...}}

Another keeper listens on the same port again; when somebody else has taken it meanwhile, the URL is a new one.

Does not cover: ports that end with the program that asked for them (`forwarding`).
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from takeback.errors import InvalidRequest, PortInUse
from takeback.machines.keeper.forwarding import leading_to, port
from takeback.machines.keeper.server import Call, Operation
from takeback.machines.model import utc
from takeback.machines.network.forward import Forward

if TYPE_CHECKING:
    from takeback.machines.keeper.machine import Life

log = logging.getLogger("takeback.keeper")


class Previews:
    """The previews of all sandboxes of a keeper; which there are is in their records."""

    def __init__(self) -> None:
        self._open: dict[str, dict[int, Forward]] = {}

    async def create(self, life: Life, inside: int, now_ns: int) -> dict[str, Any]:
        """Begin to listen, or find that it is done; return the preview."""
        if str(inside) not in life.record.previews:
            await self._listen(life, inside, 0, now_ns)
        return shown(life, inside)

    async def resume(self, life: Life) -> None:
        """Listen for a sandbox that was found again."""
        for name, one in dict(life.record.previews).items():
            try:
                await self._listen(life, int(name), one["local"], one["created_ns"])
            except PortInUse as error:
                log.warning("sandbox %s: the preview of its port %s moves: %s", life.record.id, name, error)
                await self._listen(life, int(name), 0, one["created_ns"])

    async def delete(self, life: Life, inside: int) -> None:
        """Stop listening for a port, for good."""
        made = self._open.get(life.record.id, {}).pop(inside, None)
        left = {name: one for name, one in life.record.previews.items() if name != str(inside)}
        life.change(previews=left)
        if made is not None:
            await made.close()

    async def close(self, life: Life) -> None:
        """Stop listening for a sandbox that is deleted, or that another keeper will find."""
        for made in self._open.pop(life.record.id, {}).values():
            await made.close()

    async def move(self, life: Life, other: Life) -> None:
        """Let the URLs of a sandbox lead to another, which takes its place; those it had for these ports end."""
        moving = dict(life.record.previews)
        await self.close(life)
        life.change(previews={})
        for name, one in moving.items():
            await self.delete(other, int(name))
            await self._listen(other, int(name), one["local"], one["created_ns"])

    async def _listen(self, life: Life, inside: int, local: int, created_ns: int) -> None:
        made = leading_to(life, inside)
        number = await made.start(local)
        self._open.setdefault(life.record.id, {})[inside] = made
        one = {"local": number, "created_ns": created_ns}
        life.change(previews={**life.record.previews, str(inside): one})


def shown(life: Life, inside: int) -> dict[str, Any]:
    """Return a preview as callers see it. Raises InvalidRequest when there is none."""
    one = life.record.previews.get(str(inside))
    if one is None:
        raise InvalidRequest(detail=f"there is no preview of port {inside}", next=f"previews.create({inside})")
    url = f"http://127.0.0.1:{one['local']}/"
    return {
        "id": f"{life.record.id}:{inside}",
        "sandboxId": life.record.id,
        "port": inside,
        # Only this machine reaches it, so no token is needed.
        "visibility": "private",
        "url": url,
        "token": "",
        "tokenExpiresAt": None,
        "urlWithToken": url,
        "disabled": False,
        "embedOrigins": [],
        "createdAt": utc(one["created_ns"]),
    }


async def create(call: Call) -> dict[str, Any]:
    return await call.keeper.previews.create(call.life(), port(call.request["port"]), call.keeper.now_ns())


async def get(call: Call) -> dict[str, Any]:
    return shown(call.life(), port(call.request["port"]))


async def listing(call: Call) -> list[dict[str, Any]]:
    """Return the previews of a sandbox by their ports."""
    life = call.life()
    return [shown(life, inside) for inside in sorted(map(int, life.record.previews))]


async def delete(call: Call) -> dict[str, Any]:
    """Remove a preview; one that is not there is no trouble."""
    life, inside = call.life(), port(call.request["port"])
    await call.keeper.previews.delete(life, inside)
    return {"id": f"{life.record.id}:{inside}", "sandboxId": life.record.id, "port": inside, "deleted": True}


OPERATIONS = {
    "preview-create": Operation(create, leaves=False),
    "preview-get": Operation(get),
    "previews": Operation(listing),
    "preview-delete": Operation(delete, leaves=False),
}
