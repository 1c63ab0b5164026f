"""The network of one sandbox as its keeper holds it: rules on disk with their version, the broker, forwarded ports.

It outlives the broker: a machine that is restored in place, or found again by another keeper, gets a new one.

Does not cover: when a machine is attached or woken (`keeper`), the preset `registries` (`registries.expand`, first).
"""

from __future__ import annotations

import json
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from takeback.errors import Damaged
from takeback.host import atomic
from takeback.machines.channel.link import Link
from takeback.machines.network.broker import Broker
from takeback.machines.network.environment import PORT
from takeback.machines.network.flow import Traffic
from takeback.machines.network.forward import Forward
from takeback.machines.network.log import DecisionLog, Entry
from takeback.machines.network.outside import Upstream
from takeback.machines.network.relay import GuestStream
from takeback.machines.network.rules import Rules, read_rules

_FORMAT = 1


class SandboxNetwork:
    """All calls from the keeper's event loop. `folder` is the sandbox's own: `network.json`, `network.jsonl`.

    `rules` are those of a new sandbox (a copy: its source's); one that is found again has its own. Raises Damaged;
    whoever wants to go on makes it anew with `internet=False`.
    """

    def __init__(
        self,
        sandbox_id: str,
        folder: Path,
        rules: Rules | None = None,
        *,
        upstream: Upstream | None = None,
        step: Callable[[], str] = lambda: "",
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._id = sandbox_id
        self._file = folder / "network.json"
        self._upstream = upstream
        self._step = step
        self._clock = clock
        self._log = DecisionLog(folder / "network.jsonl")
        self._forwards: dict[int, Forward] = {}
        self.traffic = Traffic()  # of all its brokers
        self.broker: Broker | None = None
        if rules is None:
            self.rules, self._version, self._updated = self._read()
        else:
            self.rules, self._version, self._updated = rules, 0, 0.0
            self.set(rules)

    def record(self) -> dict[str, Any]:
        """Return the record of the rules. They are enforced even while no machine is attached: nothing passes then."""
        updated = datetime.fromtimestamp(self._updated, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        return self.rules.shown(
            self._id, version=self._version, enforced_version=self._version, updated_at=updated
        )  # fmt: skip

    def set(self, rules: Rules) -> dict[str, Any]:
        """Put rules (of `read_rules`) into force, also for open connections, and keep them; return the record.

        Raises OSError when they cannot be kept; what is narrower is in force even so.
        """
        if rules != self.rules or self._version == 0:
            self._version += 1
            self._updated = self._clock()
        self.rules = rules
        if self.broker is not None:
            self.broker.set_rules(rules)
        document = {"format": _FORMAT, "version": self._version, "updated": self._updated, **rules.to_json()}
        atomic.write_bytes(self._file, json.dumps(document).encode())
        return self.record()

    async def attach(self, link: Link) -> None:
        """Serve the machine behind a link that is attached; what an earlier one had open is ended.

        Raises MachineRefused when something inside holds the proxy's port: then nothing comes out.
        """
        await self.detach("the machine was replaced")
        self.broker = Broker(
            link, self._log, self.rules, upstream=self._upstream, step=self._step, traffic=self.traffic
        )  # fmt: skip
        self.broker.start(PORT)
        # After the start, which forgets all streams: a program in a copy may have connected already.
        link.on_connection(self.broker.receive)
        await link.listen(PORT)

    async def detach(self, why: str = "the sandbox was stopped") -> None:
        """End all connections outside; forwarded ports stay, and lead to the next machine."""
        if self.broker is not None:
            broker, self.broker = self.broker, None
            await broker.close(why)

    async def close(self) -> None:
        """End everything, for a sandbox that is deleted."""
        for forward in self._forwards.values():
            await forward.close()
        self._forwards.clear()
        await self.detach()

    def log(self, limit: int | None = None) -> list[Entry]:
        """Return the decisions that are kept, oldest first."""
        return self._log.entries(limit)

    async def dial(self, port: int) -> GuestStream:
        """Connect to a port inside. Raises ConnectionError, TimeoutError."""
        if self.broker is None:
            raise ConnectionRefusedError("the sandbox does not run")
        return await self.broker.relay.dial(port)

    async def forward(
        self, inside: int, outside: int = 0, wake: Callable[[], Awaitable[None]] | None = None
    ) -> tuple[str, int]:
        """Listen on 127.0.0.1:outside (0: any) for a port inside, once for each; return where. Raises PortInUse.

        `wake` is awaited before each connection.
        """

        async def dial(port: int) -> GuestStream:
            if wake is not None:
                await wake()
            return await self.dial(port)

        if inside not in self._forwards:
            made = Forward(dial, inside)
            await made.start(outside)
            self._forwards[inside] = made
        return self._forwards[inside].address

    async def unforward(self, inside: int) -> bool:
        """Stop forwarding a port; whether it was."""
        forward = self._forwards.pop(inside, None)
        if forward is not None:
            await forward.close()
        return forward is not None

    def forwards(self) -> dict[int, tuple[str, int]]:
        """Return what is forwarded: port inside to address outside."""
        return {inside: forward.address for inside, forward in self._forwards.items()}

    def _read(self) -> tuple[Rules, int, float]:
        try:
            document = json.loads(self._file.read_bytes())
            if document["format"] != _FORMAT:
                raise ValueError(f"format {document['format']}")
            rules = read_rules(document["internet"], document["allow"], document["deny"], document["connect"])
            return rules, int(document["version"]), float(document["updated"])
        except Exception as error:
            # Nobody may get the open default because a file is spoiled.
            raise Damaged(
                what=str(self._file), detail=str(error), next="set the sandbox's network rules anew"
            ) from error
