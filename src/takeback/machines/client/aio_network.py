"""What a sandbox may reach, and how its servers are reached, in an event loop.

Does not cover: what the calls mean (`network` says it).
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import suppress
from typing import Any, ClassVar

from takeback.errors import TakebackError
from takeback.machines.client import networking
from takeback.machines.client.connect import Client
from takeback.machines.client.drivers import aitems, arun

Record = dict[str, Any]
Records = list[Record]
Entries = Sequence[str]


class AsyncNetwork:
    """What one sandbox may reach: `sandbox.network`. Rules hold at once, for open connections too.

    Records have sandboxId, internet, allow, deny, connect, version, enforced, ports, forbiddenPorts, updatedAt.
    """

    def __init__(self, client: Client, sandbox: str) -> None:
        self._client = client
        self._sandbox = sandbox

    async def get(self) -> Record:
        """Return the record of the rules."""
        return await arun(self._client, networking.get(self._sandbox))

    async def set(
        self,
        *,
        internet: bool,
        allow: Entries | None = None,
        deny: Entries | None = None,
        connect: Entries | None = None,
    ) -> Record:
        """Put rules in the place of those there are; a list that is left out is empty. Raises BadRule.

        `registries` in `allow` stands for what your own pip, npm and apt are configured to use.
        """
        rules = {"internet": internet, "allow": allow, "deny": deny, "connect": connect}
        return await arun(self._client, networking.put(self._client, self._sandbox, rules))

    async def off(self) -> Record:
        """Let it reach nothing."""
        return await self.set(internet=False)

    async def on(self) -> Record:
        """Let it reach the whole internet."""
        return await self.set(internet=True)

    async def log(self, limit: int | None = None) -> Records:
        """Return the decisions that are kept, or the last `limit`, oldest first, each with the step that caused it."""
        return await arun(self._client, networking.log(self._sandbox, limit))


class AsyncPreviews:
    """URLs of this machine for servers in one sandbox: `sandbox.previews`; they stay until it is deleted."""

    def __init__(self, client: Client, sandbox: str) -> None:
        self._client = client
        self._sandbox = sandbox

    async def create(
        self,
        port: int,
        *,
        visibility: str | None = None,
        ttl_seconds: int | None = None,
        expires_at: str | None = None,
        embed_origins: Sequence[str] | None = None,
        idempotency_key: str | None = None,
    ) -> Record:
        """Give a port inside a URL that this machine reaches; what else can be said has no meaning here."""
        return await arun(self._client, networking.preview("preview-create", self._sandbox, port))

    async def list(self) -> Records:
        """Return all of them."""
        return await arun(self._client, networking.previews(self._sandbox))

    async def get(self, port: int, *, ttl_seconds: int | None = None, expires_at: str | None = None) -> Record:
        """Return the one of a port. Raises InvalidRequest."""
        return await arun(self._client, networking.preview("preview-get", self._sandbox, port))

    async def rotate(self, port: int) -> Record:
        """Return the one of a port as it is: only this machine reaches it, so there is no token to change."""
        return await self.get(port)

    async def delete(self, port: int) -> Record:
        """Let its URL end."""
        return await arun(self._client, networking.preview("preview-delete", self._sandbox, port))


class AsyncPortForward:
    """A port here that leads to one inside, until it is closed or the event loop ends."""

    # Nobody has to hold one for it to stay.
    _all: ClassVar[set[AsyncPortForward]] = set()

    def __init__(self, steps: AsyncGenerator[Any, None], address: tuple[str, int], hold: networking.Hold) -> None:
        self.host, self.local_port = address
        self._steps = steps
        self._hold = hold
        self._all.add(self)

    async def close(self) -> None:
        """Stop listening and end the connections that were made."""
        self._all.discard(self)
        self._hold.waits = False
        with suppress(TakebackError):  # then it is over
            await anext(self._steps, None)
        await self._steps.aclose()

    async def wait(self) -> None:
        """Return when it has ended by itself: the sandbox was deleted, or its keeper is gone."""
        self._hold.waits = True
        await anext(self._steps, None)

    async def __aenter__(self) -> AsyncPortForward:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


async def forward_port(client: Client, sandbox: str, port: int, local_port: int | None, host: str) -> AsyncPortForward:
    """Return a forwarded port that is open. Raises PortInUse, InvalidRequest."""
    hold = networking.Hold()
    steps = aitems(client, networking.forward(sandbox, port, local_port, host, hold))
    return AsyncPortForward(steps, await anext(steps), hold)
