"""What a sandbox may reach, and how its servers are reached, blocking: `network`, `previews`, `PortForward`.

Does not cover: the same for asyncio (`aio_network`), deciding (the keeper).
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import suppress
from typing import Any, ClassVar

from takeback.errors import TakebackError
from takeback.machines.client import networking
from takeback.machines.client.connect import Client
from takeback.machines.client.drivers import items, run

Record = dict[str, Any]
Records = list[Record]
Entries = Sequence[str]


class Network:
    """What one sandbox may reach: `sandbox.network`. Rules hold at once, for open connections too.

    Records have sandboxId, internet, allow, deny, connect, version, enforced, ports, forbiddenPorts, updatedAt.
    """

    def __init__(self, client: Client, sandbox: str) -> None:
        self._client = client
        self._sandbox = sandbox

    def get(self) -> Record:
        """Return the record of the rules."""
        return run(self._client, networking.get(self._sandbox))

    def set(
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
        return run(self._client, networking.put(self._client, self._sandbox, rules))

    def off(self) -> Record:
        """Let it reach nothing."""
        return self.set(internet=False)

    def on(self) -> Record:
        """Let it reach the whole internet."""
        return self.set(internet=True)

    def log(self, limit: int | None = None) -> Records:
        """Return the decisions that are kept, or the last `limit`, oldest first, each with the step that caused it."""
        return run(self._client, networking.log(self._sandbox, limit))


class Previews:
    """URLs of this machine for servers in one sandbox: `sandbox.previews`; they stay until it is deleted."""

    def __init__(self, client: Client, sandbox: str) -> None:
        self._client = client
        self._sandbox = sandbox

    def create(
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
        return run(self._client, networking.preview("preview-create", self._sandbox, port))

    def list(self) -> Records:
        """Return all of them."""
        return run(self._client, networking.previews(self._sandbox))

    def get(self, port: int, *, ttl_seconds: int | None = None, expires_at: str | None = None) -> Record:
        """Return the one of a port. Raises InvalidRequest."""
        return run(self._client, networking.preview("preview-get", self._sandbox, port))

    def rotate(self, port: int) -> Record:
        """Return the one of a port as it is: only this machine reaches it, so there is no token to change."""
        return self.get(port)

    def delete(self, port: int) -> Record:
        """Let its URL end."""
        return run(self._client, networking.preview("preview-delete", self._sandbox, port))


class PortForward:
    """A port here that leads to one inside, until it is closed or this program ends."""

    # Nobody has to hold one for it to stay.
    _all: ClassVar[set[PortForward]] = set()

    def __init__(self, steps: Generator[Any, None, None], address: tuple[str, int], hold: networking.Hold) -> None:
        self.host, self.local_port = address
        self._steps = steps
        self._hold = hold
        self._all.add(self)

    def close(self) -> None:
        """Stop listening and end the connections that were made."""
        self._all.discard(self)
        self._hold.waits = False
        with suppress(TakebackError):  # then it is over
            next(self._steps, None)
        self._steps.close()

    def wait(self) -> None:
        """Return when it has ended by itself: the sandbox was deleted, or its keeper is gone."""
        self._hold.waits = True
        next(self._steps, None)

    def __enter__(self) -> PortForward:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def forward_port(client: Client, sandbox: str, port: int, local_port: int | None, host: str) -> PortForward:
    """Return a forwarded port that is open. Raises PortInUse, InvalidRequest."""
    hold = networking.Hold()
    steps = items(client, networking.forward(sandbox, port, local_port, host, hold))
    return PortForward(steps, next(steps), hold)
