"""Records of the machines part and their JSON: what is written to disk, and what a caller sees as `info`.

Does not cover: how a machine gets from one state to another (`keeper.machine`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

from takeback.errors import Damaged

FORMAT = 1
WORKSPACE = "/workspace"
DAY_NS = 86_400 * 1_000_000_000


class SandboxState(StrEnum):
    """Where a sandbox is in its life. Source of the words: the hosted service's record."""

    STARTING = "starting"
    RUNNING = "running"
    PAUSING = "pausing"
    PAUSED = "paused"
    RESUMING = "resuming"
    STOPPING = "stopping"
    STOPPED = "stopped"


_STATUS = {
    SandboxState.STARTING: "pending",
    SandboxState.PAUSED: "paused",
    SandboxState.STOPPING: "stopping",
    SandboxState.STOPPED: "stopped",
}


@dataclass(frozen=True)
class Account:
    """Whom commands run as inside: what SPAWN needs, and where its home is."""

    name: str
    uid: int
    gid: int
    groups: tuple[int, ...] = ()
    home: str = WORKSPACE


@dataclass(frozen=True)
class Base:
    """What an image gave a sandbox: its root folder, its user, and where commands begin.

    Of its top only what is `seen` is there (empty: all). `masked` paths are hidden, `scratch` folders too but can be
    written to, `shown` folders are seen although they lie in those. A `live` root is in use by others, so its
    sandboxes keep their changes in memory.
    """

    image: str
    root: str
    account: Account = Account("runtime", 1000, 1000)
    workdir: str = WORKSPACE
    env: Mapping[str, str] = field(default_factory=dict)
    masked: tuple[str, ...] = ()
    scratch: tuple[str, ...] = ()
    seen: tuple[str, ...] = ()
    shown: tuple[str, ...] = ()
    live: bool = False
    start: tuple[str, ...] = ()  # what the image was made to run
    one_owner: bool = False  # an ordinary user's: all files are root's inside


@dataclass(frozen=True)
class SandboxRecord:
    """One sandbox as it is written down; times in nanoseconds since 1970, 0 for never.

    `lost` is the reason why a sandbox could not be found again; it is stopped then. `disk` is the engine's DiskKind.
    `made_from` is the id of a snapshot or of another sandbox.
    """

    id: str
    state: SandboxState
    engine: str
    base: Base
    disk: str
    supervisor: str
    created_ns: int
    name: str | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    env: Mapping[str, str] = field(default_factory=dict)
    network: Mapping[str, Any] = field(default_factory=dict)  # what it was made with; network.json has what holds
    previews: Mapping[str, Any] = field(default_factory=dict)  # of keeper.previews, by the port inside
    user: str = "sandbox"
    vcpu: int = 2
    memory_mib: int = 4096
    disk_mib: int = 4096
    timeout_seconds: int = 0
    on_lease_end: str = "pause"
    idle_pause_seconds: int = 300
    auto_wake: bool = True
    persistent: bool = False
    retention_days: int | None = None  # for how long it is kept when paused
    ready_ns: int = 0
    active_ns: int = 0
    paused_ns: int = 0
    ended_ns: int = 0
    lease_ns: int = 0
    stop_reason: str | None = None
    lost: str | None = None
    kept: str = ""  # folder with the disk of a stopped one
    made_from: str | None = None
    hostname: str = "sandbox"
    generation: int = 0  # how many copies and restores lie between the first boot and this
    incarnation: str = ""  # the engine's id of the machine that took its place in a restore
    last_snapshot: str | None = None  # the one taken or restored last
    born_of: str | None = None  # the snapshot its machine was started from
    trial_ns: int = 0  # a copy made to try something in: when it is deleted unless it was kept
    held: str = ""  # why its keeper paused it: it waits for somebody to wake it, by name
    replaces: str = ""  # the id of the one whose place it takes, until that one is deleted
    replaced: tuple[str, ...] = ()  # the ids of those whose place it took, oldest first

    def to_json(self) -> dict[str, Any]:
        """Return what is written to sandbox.json."""
        return {"format": FORMAT, **asdict(self)}

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> SandboxRecord:
        """Read what `to_json` wrote; fields of a newer takeback are left out. Raises Damaged."""
        try:
            if document["format"] > FORMAT:
                raise ValueError(f"format {document['format']}, this takeback knows {FORMAT}")
            values = {name: document[name] for name in cls.__dataclass_fields__ if name in document}
            values |= {"state": SandboxState(values["state"]), "base": _base(values["base"])}
            values["replaced"] = tuple(values.get("replaced", ()))
            return cls(**values)
        except (KeyError, TypeError, ValueError) as error:
            raise Damaged(
                what="the record of a sandbox", detail=str(error), next="remove it with `takeback sandbox rm`"
            ) from error

    @classmethod
    def spoiled(cls, id: str, why: str, created_ns: int) -> SandboxRecord:
        """Return what stands for a record that cannot be read: enough to be shown and deleted."""
        return cls(
            id=id, state=SandboxState.STOPPED, engine="gvisor", base=Base("", ""), disk="layers", supervisor="",
            created_ns=created_ns, stop_reason="lost", lost=f"its record cannot be read: {why}",
        )  # fmt: skip

    def info(self) -> dict[str, Any]:
        """Return the record as callers see it: the hosted service's names, `env` by name only."""
        lease = utc(self.lease_ns)
        return {
            "id": self.id,
            "kind": "sandbox",
            "name": self.name,
            "labels": dict(self.labels),
            "status": _STATUS.get(self.state, "active"),
            "state": self.state.value,
            "region": "local",
            "funding": "trial",
            "vcpu": self.vcpu,
            "memoryMiB": self.memory_mib,
            "diskMiB": self.disk_mib,
            "cpu": "shared",
            "cpuFloorMillis": 50,
            "pausable": True,
            "timeoutSeconds": self.timeout_seconds,
            "idlePauseSeconds": self.idle_pause_seconds,
            "autoWake": self.auto_wake,
            "persistent": self.persistent,
            "onLeaseEnd": self.on_lease_end,
            "onTimeout": self.on_lease_end,
            "createdAt": utc(self.created_ns),
            "readyAt": utc(self.ready_ns),
            "lastActiveAt": utc(self.active_ns or self.created_ns),
            "endedAt": utc(self.ended_ns),
            "pausedAt": utc(self.paused_ns),
            "pausedExpiresAt": utc(self.paused_until_ns),
            # The older name must hold a time also when there is no limit.
            "expiresAt": lease or "9999-12-31T23:59:59.000Z",
            "endsAt": lease,
            "stopReason": self.stop_reason,
            "lost": self.lost,
            "pausedBecause": self.held or None,
            "diskKept": bool(self.kept),
            "chargedMicros": 0,
            "heldMicros": 0,
            "envNames": sorted(self.env),
            "image": self.base.image,
            "secrets": None,
            "user": self.user,
            "engine": self.engine,
            "disk": self.disk,
            "source": self.made_from,
            "lastSnapshot": self.last_snapshot,
            "trialEndsAt": utc(self.trial_ns),
            "replaced": list(self.replaced),
        }

    @property
    def paused_until_ns(self) -> int:
        """When a paused one is deleted, 0 for never."""
        if self.retention_days is None or self.state != SandboxState.PAUSED or not self.paused_ns:
            return 0
        return self.paused_ns + self.retention_days * DAY_NS

    @property
    def alive(self) -> bool:
        """Whether it holds its name: it runs, is paused, or can be started again."""
        return self.state != SandboxState.STOPPED or bool(self.kept)

    def with_state(self, state: SandboxState, **changes: Any) -> SandboxRecord:
        """Return the record in another state."""
        return replace(self, state=state, **changes)


@dataclass(frozen=True)
class SnapshotRecord:
    """One snapshot as it is written down beside the engine's files; times in nanoseconds since 1970, 0 for never.

    `sandbox` is the record of the source as it was then, without its env: what a machine made of it is like.
    """

    id: str
    mode: str
    sandbox: SandboxRecord
    created_ns: int
    name: str | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    ready_ns: int = 0
    expires_ns: int = 0
    retention_days: int | None = None
    file_bytes: int = 0
    layers: Mapping[str, int] = field(default_factory=dict)  # frozen disk layers by name, with their bytes
    paused_s: float = 0.0
    error: str = ""  # why its record cannot be read; the rest is made up then

    def to_json(self) -> dict[str, Any]:
        """Return what is written to snapshot.json."""
        return {"format": FORMAT, **asdict(self), "sandbox": self.sandbox.to_json()}

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> SnapshotRecord:
        """Read what `to_json` wrote. Raises Damaged."""
        try:
            if document["format"] > FORMAT:
                raise ValueError(f"format {document['format']}, this takeback knows {FORMAT}")
            values = {name: document[name] for name in cls.__dataclass_fields__ if name in document}
            return cls(**{**values, "sandbox": SandboxRecord.from_json(values["sandbox"])})
        except (KeyError, TypeError, ValueError) as error:
            raise Damaged(what="the record of a snapshot", detail=str(error), next="delete that snapshot") from error

    @property
    def sized(self) -> bool:
        """Whether what is made of it has the size of the source: memory was saved, or the disk lies in it."""
        return self.mode == "memory" or self.sandbox.disk == "memory"

    @property
    def stored_bytes(self) -> int:
        """What it needs on the disk, with layers that others may share."""
        return self.file_bytes + sum(self.layers.values())

    def info(self) -> dict[str, Any]:
        """Return the record as callers see it: the hosted service's names."""
        source = self.sandbox
        return {
            "id": self.id,
            "kind": "snapshot",
            "mode": self.mode,
            "status": "active",
            "state": "failed" if self.error else "ready",
            "name": self.name,
            "labels": dict(self.labels),
            "sourceSandboxId": source.id,
            "sourceImageId": source.base.image,
            "parentSnapshotId": source.last_snapshot,
            "shape": {"vcpu": source.vcpu, "memoryMiB": source.memory_mib, "diskMiB": source.disk_mib},
            "retentionDays": self.retention_days,
            "storedBytes": self.stored_bytes,
            "meteredBytes": self.stored_bytes,
            "pausedSeconds": self.paused_s,
            "backedUp": False,
            "error": self.error or None,
            "createdAt": utc(self.created_ns),
            "readyAt": utc(self.ready_ns),
            "expiresAt": utc(self.expires_ns),
        }


def _base(given: Mapping[str, Any]) -> Base:
    base = dict(given)
    account = dict(base["account"])
    account["groups"] = tuple(account["groups"])
    lists = {name: tuple(base.get(name, ())) for name in ("masked", "scratch", "seen", "shown", "start")}
    return Base(**{**base, "account": Account(**account), **lists})


def utc(at_ns: int) -> str | None:
    """Return a moment in ISO 8601 with milliseconds, None for 0."""
    if not at_ns:
        return None
    return datetime.fromtimestamp(at_ns / 1e9, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
