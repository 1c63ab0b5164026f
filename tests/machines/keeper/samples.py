"""A record to begin with."""

from __future__ import annotations

from takeback.machines.model import Account, Base, SandboxRecord, SandboxState

SECOND = 1_000_000_000


def record(**changes: object) -> SandboxRecord:
    values: dict[str, object] = {
        "id": "0b9f9d1e-0000-4000-8000-000000000000",
        "state": SandboxState.RUNNING,
        "engine": "gvisor",
        "base": Base("debian@1", "/images/debian/rootfs", Account("runtime", 1000, 1000), env={"LANG": "de"}),
        "disk": "layers",
        "supervisor": "/supervisor/abc",
        "created_ns": 1_000 * SECOND,
        "env": {"MINE": "1"},
        **changes,
    }
    return SandboxRecord(**values)  # type: ignore[arg-type]
