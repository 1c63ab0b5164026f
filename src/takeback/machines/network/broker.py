"""The broker: takes the connections that programs inside make, decides, dials, and cuts what new rules refuse.

One per sandbox, in the keeper's event loop. What the guest sends is only ever data: names, requests and rules are read
here, outside, where nobody inside can change anything.

Does not cover: keeping the rules and their version (`keeper`), reaching a server inside (`forward`).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress

from takeback.machines.channel.frames import Frame
from takeback.machines.network import http, socks
from takeback.machines.network.addresses import Address, Host, show
from takeback.machines.network.buffered import Buffered
from takeback.machines.network.environment import PORT
from takeback.machines.network.flow import Flow, RefusedByRule, Traffic, Unreachable
from takeback.machines.network.log import DecisionLog, Entry
from takeback.machines.network.outside import Resolver, Upstream, dial, dial_proxy, is_own, lookup, tunnel
from takeback.machines.network.relay import Channel, GuestStream, Relay
from takeback.machines.network.rules import LOCALHOST, Decision, Rules, is_localhost
from takeback.machines.network.tunnel import tunnel as carry

_IDLE_S = 3600.0
_HALF_S = 300.0
_SWEEP_S = 15.0
_LOOKUPS = 8  # at once; a sandbox must not use up the threads of all


class Broker:
    """The network of one sandbox. `step` names what runs inside at the moment, for the log."""

    def __init__(
        self,
        channel: Channel,
        log: DecisionLog,
        rules: Rules,
        *,
        upstream: Upstream | None = None,
        step: Callable[[], str] = lambda: "",
        resolver: Resolver = lookup,
        own: Callable[[Address], bool] = is_own,
        traffic: Traffic | None = None,
    ) -> None:
        self.rules = rules
        self.log = log
        self._upstream = upstream or Upstream()
        self._step = step
        self._resolver = resolver
        self._own = own
        self._traffic = traffic or Traffic()
        self.relay = Relay(channel, self._accepted)
        self._flows: dict[int, Flow] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._lookups = asyncio.Semaphore(_LOOKUPS)
        self._sweeper: asyncio.Task[None] | None = None

    def start(self, port: int = PORT) -> None:
        """Begin to accept inside, once the channel is attached; again after each attach. Raises ConnectionError."""
        self.relay.reset("the channel was taken over")
        self.relay.listen(port)
        if self._sweeper is None:
            self._sweeper = asyncio.create_task(self._sweep())

    def receive(self, frame: Frame) -> None:
        """Take a frame about relayed connections: `link.on_connection(broker.receive)`."""
        self.relay.receive(frame)

    def set_rules(self, rules: Rules) -> int:
        """Put new rules into force, for open connections too; return how many of them were cut."""
        self.rules = rules
        cut = 0
        for flow in list(self._flows.values()):
            decision = self._still(flow)
            if not decision.allowed:
                flow.cut(f"cut by new rules: {decision.why}")
                cut += 1
        return cut

    @property
    def open_connections(self) -> int:
        return len(self._flows)

    async def close(self, why: str = "the sandbox was stopped") -> None:
        """End everything outside; the guest is told nothing."""
        if self._sweeper is not None:
            self._sweeper.cancel()
        for flow in list(self._flows.values()):
            flow.cut(why)
        self.relay.reset(why)
        tasks = [*self._tasks, *([self._sweeper] if self._sweeper else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._sweeper = None

    # One connection of a program inside.

    def _accepted(self, stream: GuestStream) -> None:
        task = asyncio.get_running_loop().create_task(self._serve(stream))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, guest: GuestStream) -> None:
        client = Buffered(guest)
        flow: Flow | None = None
        why = "closed"
        try:
            flow = await self._ask(guest, client)
            if flow is not None:
                flow.on_cut = guest.abort
                await carry(self, guest, client, flow, self.rules.narrow)
        except RefusedByRule as error:
            why = f"refused: {error.decision.why}"
            if flow is not None and not flow.down and client.held[:1].isalpha():
                with suppress(ConnectionError):  # plain HTTP in a tunnel: the program can be told
                    await guest.write(http.refusal(error))
                    await http.leave(guest, client)
        except (ConnectionError, TimeoutError, ValueError, OSError) as error:
            why = str(error) or type(error).__name__
        finally:
            if flow is not None:
                self.done(flow, why)
            guest.abort(why)

    async def _ask(self, guest: GuestStream, client: Buffered) -> Flow | None:
        """Speak what the program speaks, up to the tunnel it asks for, if it does."""
        async with asyncio.timeout(http.FIRST_S):
            if not await client.more():
                return None
            if client.held[0] == 5:
                flow = await socks.handshake(self, guest, client)
                if flow is None:
                    await http.leave(guest, client)
                return flow
        return await http.serve(self, guest, client)

    async def open(self, host: Host, port: int, method: str, *, plain: bool = False) -> Flow:
        """Decide, look up, dial; every outcome is logged. Raises RefusedByRule, Unreachable."""
        where = show(host, port)
        decision = self.rules.before_lookup(host, port)
        proxy = self._upstream.proxy_for(host, plain=plain)
        if decision is None:
            addresses = await self._addresses(host, port, method, proxied=proxy is not None)
            if addresses:
                decision = self.rules.decide(host, port, addresses, self._own)
            else:
                decision = self.rules.unresolved(host, port)  # the proxy knows the name, we do not
        if not decision.allowed:
            self._note(host, port, method, decision)
            raise RefusedByRule(decision, where)
        address: Address | None = None
        try:
            if proxy is None:
                pipe, address = await dial(decision.addresses, port)
            elif plain:
                pipe = await dial_proxy(proxy)
            else:
                pipe = await tunnel(proxy, host, port)
        except (OSError, TimeoutError) as error:
            why = str(error) or "no answer in time"
            self._note(host, port, method, decision, ended=f"unreachable: {why}")
            raise Unreachable(f"{where}: {why}", refused=isinstance(error, ConnectionRefusedError)) from error
        flow = Flow(self.log.next_id(), host, port, address, pipe, self._traffic)
        flow.proxy = proxy if plain else None
        decision_now = self._still(flow)
        if not decision_now.allowed:  # the rules changed while it was being dialled
            flow.cut(decision_now.why)
            self._note(host, port, method, decision_now)
            raise RefusedByRule(decision_now, where)
        self._flows[flow.id] = flow
        self._note(host, port, method, decision, id=flow.id, address=address)
        return flow

    async def _addresses(self, host: Host, port: int, method: str, *, proxied: bool) -> list[Address]:
        if not isinstance(host, str):
            return [host]
        if is_localhost(host):
            return list(LOCALHOST)
        try:
            async with self._lookups:
                found = list(await self._resolver(host))
        except (OSError, TimeoutError, UnicodeError) as error:
            found = []
            why = f"{host} cannot be looked up: {error or 'no answer in time'}"
        else:
            why = f"{host} has no address"
        if not found and not proxied:
            allowed = self.rules.unresolved(host, port)
            self._note(host, port, method, allowed, ended=f"unreachable: {why}")
            raise Unreachable(why)
        return found

    def check_named(self, flow: Flow | None, host: Host, port: int, how: str) -> None:
        """Check a host that is named inside a connection to another. Raises RefusedByRule."""
        decision = self.rules.before_lookup(host, port)
        if decision is None:
            if flow is not None:
                flow.named.add((host, port))
            return
        to = f" (in a connection to {show(flow.host, flow.port)})" if flow is not None else ""
        refused = Decision(False, decision.code, f"{how} names {show(host)}{to}: {decision.why}", decision.add)
        self._note(host, port, how, refused)
        raise RefusedByRule(refused, show(host, port))

    def done(self, flow: Flow, why: str = "closed") -> None:
        """Close a connection and log its end, once."""
        flow.close(why)
        if self._flows.pop(flow.id, None) is not None:
            seconds = time.monotonic() - flow.began
            self.log.end(flow.id, up=flow.up, down=flow.down, seconds=seconds, ended=flow.ended)

    def _still(self, flow: Flow) -> Decision:
        if flow.address is not None:
            decision = self.rules.decide(flow.host, flow.port, [flow.address], self._own)
        else:
            early = self.rules.before_lookup(flow.host, flow.port)
            decision = early or self.rules.unresolved(flow.host, flow.port)
        for host, port in flow.named:
            decision = self.rules.before_lookup(host, port) or decision
        return decision

    def _note(
        self,
        host: Host,
        port: int,
        method: str,
        decision: Decision,
        *,
        id: int | None = None,
        address: Address | None = None,
        ended: str = "",
    ) -> None:
        self.log.add(
            Entry(
                id=self.log.next_id() if id is None else id,
                time=round(time.time(), 3),
                method=method,
                host=show(host),
                port=port,
                allowed=decision.allowed,
                code=decision.code,
                why=decision.why,
                step=self._step(),
                address="" if address is None else str(address),
                ended=ended,
            )
        )

    async def _sweep(self) -> None:
        while True:
            await asyncio.sleep(_SWEEP_S)
            now = time.monotonic()
            for flow in list(self._flows.values()):
                if now - flow.last > (_HALF_S if flow.half else _IDLE_S):
                    flow.cut("idle for too long")
