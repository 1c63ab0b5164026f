"""What a sandbox may be asked to be: limits of every field, and the record made of them.

Does not cover: getting an image or an engine (the caller's set-up, see `takeback.sandboxes`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from takeback.errors import InvalidRequest, Unsupported
from takeback.host import proc
from takeback.machines.engine import DiskKind, Engine
from takeback.machines.keeper import networks
from takeback.machines.layout import MachinesDir
from takeback.machines.model import Account, Base, SandboxRecord, SandboxState

_HOUR_24 = 86_400
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
# Accepted as the hosted service does, and without a meaning on one's own machine.
_WITHOUT_MEANING = {
    "region", "cpu", "cpu_floor_millis", "max_total_cost_micros", "max_cost_micros", "funding", "pausable",
    "spread_from", "secrets",
}  # fmt: skip
_NOT_YET = {"volumes", "tailscale"}
# As the hosted service has them; `disk_mib` there counts the system too.
_MEMORY_MIB, _DISK_MIB = (128, 65_536), (3072, 409_600)


def checked(fields: Mapping[str, Any], *, update: bool = False) -> dict[str, Any]:
    """Return the fields that have a meaning here, each within its limits. Raises InvalidRequest, Unsupported."""
    result: dict[str, Any] = {}
    for name, value in fields.items():
        if name in _WITHOUT_MEANING:
            continue
        if name in _NOT_YET:
            if value:
                raise Unsupported(what=f"a sandbox with {name}", next="leave it out")
            continue
        if value is None and update and name not in ("name", "timeout_seconds"):
            continue
        check = _CHECKS.get(name)
        result[name] = value if check is None or value is None else check(name, value)
    return result


def new_record(
    id: str, fields: Mapping[str, Any], engine_name: str, engine: Engine, directory: MachinesDir, now_ns: int
) -> SandboxRecord:
    """Return the record of a sandbox that is about to start.

    `base` and `supervisor` come from the caller's set-up. Raises InvalidRequest without them.
    """
    given = dict(fields)
    root = base_of(given)
    given.pop("base")
    supervisor = given.pop("supervisor")
    disk = given.pop("disk", None) or (DiskKind.MEMORY.value if root.live else _default_disk(engine))
    if root.live and disk != DiskKind.MEMORY.value:
        raise InvalidRequest(
            detail=f"disk={disk!r} on the image {root.image!r}, which others use too", next="leave `disk` out"
        )
    known = {name: value for name, value in given.items() if name in SandboxRecord.__dataclass_fields__}
    return SandboxRecord(
        id=id,
        state=SandboxState.STARTING,
        engine=engine_name,
        base=root,
        disk=disk,
        supervisor=str(supervisor),
        created_ns=now_ns,
        hostname=known.pop("hostname", None) or "sandbox",
        **known,
    )


def _default_disk(engine: Engine) -> str:
    """Layers, which make copies cheap; where there is one user only, files of others can be kept in memory alone."""
    unable = engine.capabilities().layers or proc.users_here() == 1
    return DiskKind.MEMORY.value if unable else DiskKind.LAYERS.value


def base_of(fields: Mapping[str, Any]) -> Base:
    """Return the image in the fields that a set-up completed. Raises InvalidRequest without it."""
    given = fields.get("base")
    if not isinstance(given, Mapping) or not fields.get("supervisor"):
        raise InvalidRequest(detail="a create without an image's root", next="`takeback setup` makes the default one")
    account = dict(given["account"])
    account["groups"] = tuple(account.get("groups", ()))
    return Base(
        image=given["image"],
        root=given["root"],
        account=Account(**account),
        workdir=given["workdir"],
        env=dict(given.get("env", {})),
        masked=tuple(given.get("masked", ())),
        scratch=tuple(given.get("scratch", ())),
        seen=tuple(given.get("seen", ())),
        shown=tuple(given.get("shown", ())),
        live=bool(given.get("live")),
        start=tuple(given.get("start", ())),
        one_owner=bool(given.get("one_owner")),
    )


def _no(name: str, value: object, what: str) -> InvalidRequest:
    return InvalidRequest(detail=f"{name}={value!r}", next=f"it must be {what}")


def _between(low: int, high: int) -> Callable[[str, Any], int]:
    def check(name: str, value: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise _no(name, value, f"a whole number from {low} to {high}")
        return value

    return check


def _time_limit(name: str, value: Any) -> int:
    return 0 if value == 0 else _between(60, _HOUR_24)(name, value)


def _idle(name: str, value: Any) -> int:
    seconds = _between(0, _HOUR_24)(name, value)
    return max(seconds, 60) if seconds else 0  # as the hosted service: below a minute is a minute


def _one_of(*words: str) -> Callable[[str, Any], str]:
    def check(name: str, value: Any) -> str:
        if value not in words:
            raise _no(name, value, " or ".join(words))
        return str(value)

    return check


def _flag(name: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise _no(name, value, "true or false")
    return value


def _name(name: str, value: Any) -> str:
    if not isinstance(value, str) or not 0 < len(value) <= 255 or not value.isprintable() or "/" in value:
        raise _no(name, value, "1 to 255 printable characters without /")
    return value


def _labels(name: str, value: Any) -> dict[str, str]:
    labels = _texts(name, value)
    if len(labels) > 32 or any(len(key) > 64 or len(text) > 256 for key, text in labels.items()):
        raise _no(name, f"{len(labels)} labels", "at most 32, names up to 64 and values up to 256 characters")
    return labels


def _env(name: str, value: Any) -> dict[str, str | None]:
    if not isinstance(value, Mapping):
        raise _no(name, value, "a dict of texts")
    for key, text in value.items():
        if not isinstance(key, str) or not _VARIABLE.match(key) or (text is not None and "\0" in str(text)):
            raise _no(name, key, "made of variables: letters, digits and _, values without NUL")
    return {key: None if text is None else str(text) for key, text in value.items()}


def _network(name: str, value: Any) -> dict[str, Any]:
    return networks.rules(value).to_json()


def _texts(name: str, value: Any) -> dict[str, str]:
    if not isinstance(value, Mapping) or not all(isinstance(one, str) for pair in value.items() for one in pair):
        raise _no(name, value, "a dict of texts")
    return dict(value)


_CHECKS: dict[str, Callable[[str, Any], Any]] = {
    "name": _name,
    "labels": _labels,
    "env": _env,
    "vcpu": _between(1, 16),
    "memory_mib": _between(*_MEMORY_MIB),
    "disk_mib": _between(*_DISK_MIB),
    "timeout_seconds": _time_limit,
    "on_lease_end": _one_of("pause", "stop", "delete"),
    "idle_pause_seconds": _idle,
    "auto_wake": _flag,
    "persistent": _flag,
    "get_or_create": _flag,
    "user": _one_of("sandbox", "root"),
    "network": _network,
    "disk": _one_of(*(kind.value for kind in DiskKind)),
}
