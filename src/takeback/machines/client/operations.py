"""Operations on sandboxes as a whole, and the fields of a create: what both faces share.

Does not cover: commands (`commands`) and files (`fileops`) inside.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from typing import Any, TypedDict, TypeVar

from takeback.errors import InvalidRequest, TakebackError
from takeback.machines.client import networking
from takeback.machines.client.connect import Client
from takeback.machines.client.steps import Op, Run, ask

Info = dict[str, Any]
T = TypeVar("T")


class Wishes(TypedDict, total=False):
    """What a sandbox can be made with; all of it may be left out. Seconds, whole processors, and MiB of 2**20 bytes."""

    labels: Mapping[str, str] | None
    env: Mapping[str, str] | None
    region: str | None
    vcpu: int | None
    memory_mib: int | None
    disk_mib: int | None
    cpu: str | None
    cpu_floor_millis: int | None
    timeout_seconds: int | None
    on_lease_end: str | None
    idle_pause_seconds: int | None
    auto_wake: bool | None
    user: str | None
    persistent: bool | None
    max_total_cost_micros: int | None
    max_cost_micros: int | None
    get_or_create: bool | None
    network: Mapping[str, Any] | None
    image: str | None
    snapshot: str | None
    snapshot_id: str | None
    spread_from: Sequence[str] | None
    volumes: Sequence[Mapping[str, Any]] | None
    tailscale: Mapping[str, Any] | None
    secrets: Sequence[str] | None
    funding: str | None
    pausable: bool | None
    disk: str | None
    keep: bool | None
    wait: bool | None
    wait_for_capacity: float | bool | None
    on_capacity_wait: Any
    idempotency_key: str | None


class CreateFields(Wishes, total=False):
    """The same with a name, which is unique among the living."""

    name: str | None


# Of the face only: never sent.
_OURS = ("keep", "wait", "wait_for_capacity", "on_capacity_wait", "idempotency_key", "client")
_UPDATES = (
    "name",
    "labels",
    "env",
    "auto_wake",
    "user",
    "idle_pause_seconds",
    "persistent",
    "max_total_cost_micros",
    "timeout_seconds",
    "on_timeout",
    "on_lease_end",
)


def create(client: Client, fields: Mapping[str, Any]) -> Op[Info]:
    """Make a sandbox, or with `get_or_create` find the living one of that name; what is missing here is set up first.

    Raises TypeError for a field that is none, NameTaken, UnknownImage, InvalidRequest, StartFailed, and what the
    set-up raises.
    """
    _known(fields, CreateFields.__annotations__)
    sent = {name: value for name, value in fields.items() if value is not None and name not in _OURS}
    snapshot_id = sent.pop("snapshot_id", None)
    if snapshot_id is not None:
        sent.setdefault("snapshot", snapshot_id)
    if "network" in sent:
        sent["network"] = yield from networking.expanded(client, sent["network"])
    for name in ("labels", "env"):
        if name in sent:
            sent[name] = dict(sent[name])
    # A snapshot knows its own image, and needs no other engine than the one that made it.
    if client.prepare is not None and "snapshot" not in sent:
        sent = dict((yield Run(client.prepare, (sent,), blocking=True)))
    info: Info = yield from ask({"op": "create", "engine": client.engine, "fields": sent})
    return info


def get(sandbox: str) -> Op[Info]:
    """Return the record of a sandbox. Raises SandboxNotFound."""
    info: Info = yield from ask({"op": "get", "sandbox": sandbox})
    return info


def listing(
    *,
    state: str | Sequence[str] | None = None,
    include_stopped: bool = False,
    labels: Mapping[str, str] | None = None,
    name: str | None = None,
    limit: int | None = None,
) -> Op[list[Info]]:
    """Return the records that fit, newest first."""
    states = [state] if isinstance(state, str) else list(state or ())
    request = {"op": "list", "states": states, "stopped": include_stopped, "labels": dict(labels or {}), "name": name}
    infos: list[Info] = yield from ask(request)
    return first(infos, limit)


def change(op: str, sandbox: str, **fields: Any) -> Op[Info]:
    """Ask for another state (pause, wake, stop, restart, extend), and return the record when it is reached."""
    info: Info = yield from ask({"op": op, "sandbox": sandbox, **fields})
    return info


def update(sandbox: str, settings: Mapping[str, Any]) -> Op[Info]:
    """Change settings of a sandbox; None clears a name, and in `env` removes a variable."""
    _known(settings, _UPDATES)
    fields = dict(settings)
    if "on_timeout" in fields:
        fields["on_lease_end"] = fields.pop("on_timeout")
    info: Info = yield from ask({"op": "update", "sandbox": sandbox, "fields": fields})
    return info


def resize(sandbox: str, restart: bool, size: Mapping[str, int | None]) -> Op[Info]:
    """Give a sandbox another size and boot it from its disk. Raises InvalidRequest, Unsupported."""
    fields = {name: value for name, value in size.items() if value is not None}
    info: Info = yield from ask({"op": "reshape", "sandbox": sandbox, "restart": restart, "fields": fields})
    return info


def switch_image(client: Client, sandbox: str, image: str, keep: str) -> Op[Info]:
    """Boot a sandbox from another image with its own /workspace. Raises UnknownImage, InvalidRequest."""
    if keep != "workspace":
        raise InvalidRequest(detail=f"keep={keep!r}", next='only keep="workspace" is possible')
    fields: Mapping[str, Any] = {"image": image}
    if client.prepare is not None:
        fields = yield Run(client.prepare, (fields,), blocking=True)
    info: Info = yield from ask({"op": "switch-image", "sandbox": sandbox, "fields": dict(fields)})
    return info


def wait_for(sandbox: str, state: str, timeout_seconds: float) -> Op[Info]:
    """Return the record when the state is reached, can no longer be, or the time is over."""
    info: Info = yield from ask({"op": "wait-for", "sandbox": sandbox, "state": state, "seconds": timeout_seconds})
    return info


def snapshot(sandbox: str, fields: Mapping[str, Any]) -> Op[Info]:
    """Save a sandbox and return the snapshot's record. Raises CannotSave; then it goes on as before."""
    _known(fields, ("name", "labels", "retention_days", "mode", "idempotency_key", "timeout_seconds"))
    sent = {name: value for name, value in fields.items() if value is not None}
    record: Info = yield from ask({"op": "snapshot", "sandbox": sandbox, "fields": sent})
    return record


def fork(client: Client, sandbox: str, fields: Mapping[str, Any]) -> Op[list[Info]]:
    """Make running copies and return their records."""
    sent = {name: value for name, value in fields.items() if value is not None}
    if "network" in sent:
        sent["network"] = yield from networking.expanded(client, sent["network"])
    answer = yield from ask({"op": "fork", "sandbox": sandbox, "fields": sent})
    infos: list[Info] = [{**info, "forkSnapshot": answer["snapshot"]} for info in answer["sandboxes"]]
    return infos


def first(found: list[T], limit: int | None) -> list[T]:
    """Return the first of what was found, all without a limit. Raises InvalidRequest for one below 0."""
    if limit is not None and limit < 0:
        raise InvalidRequest(detail=f"limit={limit}", next="it is 0 or more")
    return found if limit is None else found[:limit]


def snapshots(
    sandbox: str | None = None, *, name: str | None = None, labels: Mapping[str, str] | None = None
) -> Op[list[Info]]:
    """Return the records of the snapshots that fit, newest first."""
    request = {"op": "snapshots", "sandbox": sandbox, "name": name, "labels": dict(labels or {})}
    records: list[Info] = yield from ask(request)
    return records


def update_snapshot(snapshot_id: str, if_labels: Mapping[str, str] | None, fields: Mapping[str, Any]) -> Op[Info]:
    """Change a snapshot, with `if_labels` only when its labels are these. Raises FenceConflict, TypeError."""
    _known(fields, ("name", "labels", "retention_days"))
    fence = None if if_labels is None else dict(if_labels)
    record = yield from on_snapshot("snapshot-update", snapshot_id, fields=dict(fields), if_labels=fence)
    return record


def on_snapshot(op: str, snapshot_id: str, **fields: Any) -> Op[Info]:
    """Get, update or delete a snapshot."""
    record: Info = yield from ask({"op": op, "snapshot": snapshot_id, **fields})
    return record


def processes(sandbox: str) -> Op[list[dict[str, Any]]]:
    """Return the records of the running processes and of the last that ended."""
    records: list[dict[str, Any]] = yield from ask({"op": "processes", "sandbox": sandbox})
    return records


def each_labelled(op: str, labels: Mapping[str, str]) -> Op[tuple[list[str], list[Info]]]:
    """Stop or delete every sandbox with all these labels; return the ids, and {"id", "error"} of those that failed.

    At least one label must be named, so that no single call ends everything. Raises InvalidRequest.
    """
    if not labels:
        raise InvalidRequest(detail=f"{op}_all without a label", next=f"{op} one by its id, or name the labels")
    done: list[str] = []
    failed: list[Info] = []
    for info in (yield from listing(labels=labels, include_stopped=op == "delete")):
        try:
            yield from change(op, info["id"])
            done.append(info["id"])
        except TakebackError as error:
            failed.append({"id": info["id"], "error": error})
    return done, failed


def _known(fields: Mapping[str, Any], names: Any) -> None:
    for name in fields:
        if name not in names:
            near = difflib.get_close_matches(name, list(names), 1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise TypeError(f"unexpected keyword argument {name!r}{hint}")
