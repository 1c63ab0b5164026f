"""Operations on the network of a sandbox: rules, log, forwarded ports, previews.

The entry `registries` of `allow` is replaced here, in the user's own program: the keeper that decides was started by
whichever program came first, and knows neither this one's PIP_INDEX_URL nor its npm configuration. What is stored, and
carried to copies, are the names it stood for then.

Does not cover: how they look to the caller (`network`, `aio_network`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from takeback.errors import BadRule, KeeperGone
from takeback.machines import wire
from takeback.machines.client.connect import Client
from takeback.machines.client.steps import RECEIVE, Give, Op, Run, Send, ask, begin, document

Record = dict[str, Any]
_REGISTRIES = "registries"


def expanded(client: Client, rules: object) -> Op[Record]:
    """Return rules without the entry `registries`; asking the tools takes some seconds. Raises BadRule."""
    if not isinstance(rules, Mapping):
        raise BadRule(where="network", entry=rules, why="it is a dict", next='write network={"internet": False}')
    given = {name: value for name, value in rules.items() if value is not None}
    allow, connect = given.get("allow", ()), given.get("connect", ())
    # What is no list is refused by the keeper, in words.
    if isinstance(allow, list | tuple) and _REGISTRIES in allow and isinstance(connect, list | tuple):
        # Only here: it is half of what a program would import.
        from takeback.machines.network.registries import expand

        answer = yield Run(expand, (allow, connect, client.environ), blocking=True)
        given["allow"], given["connect"] = map(list, answer)
    return given


def get(sandbox: str) -> Op[Record]:
    """Return the record of the rules."""
    record: Record = yield from ask({"op": "network", "sandbox": sandbox})
    return record


def put(client: Client, sandbox: str, rules: Mapping[str, Any]) -> Op[Record]:
    """Put rules in the place of those there are; a list that is left out is empty. Raises BadRule."""
    fields = yield from expanded(client, rules)
    record: Record = yield from ask({"op": "network-set", "sandbox": sandbox, "fields": fields})
    return record


def log(sandbox: str, limit: int | None) -> Op[list[Record]]:
    """Return the last decisions, oldest first."""
    entries: list[Record] = yield from ask({"op": "network-log", "sandbox": sandbox, "limit": limit})
    return entries


class Hold:
    """What the rest of a `forward` is to do when it goes on: end it, or wait for its end."""

    waits = False


def forward(sandbox: str, port: int, local_port: int | None, host: str, hold: Hold) -> Op[None]:
    """Give (host, port) here once it leads to a port inside, until this operation goes on."""
    request = {"op": "forward", "sandbox": sandbox, "port": port, "local_port": local_port, "host": host}
    yield from begin(request)
    answer = document((yield RECEIVE), "forward")
    if "ok" in answer:
        raise KeeperGone(what="forward")
    yield Give((str(answer["host"]), int(answer["port"])))
    if not hold.waits:
        yield Send(wire.pack(wire.Type.EOF))
    yield RECEIVE  # what comes is its end: as asked, or the sandbox is deleted, or the keeper gone


def preview(op: str, sandbox: str, port: int) -> Op[Record]:
    """Create, get or delete a preview."""
    record: Record = yield from ask({"op": op, "sandbox": sandbox, "port": port})
    return record


def previews(sandbox: str) -> Op[list[Record]]:
    """Return the previews of a sandbox."""
    records: list[Record] = yield from ask({"op": "previews", "sandbox": sandbox})
    return records
