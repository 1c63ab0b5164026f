"""What time brings to a sandbox."""

from __future__ import annotations

import pytest

from takeback.machines.keeper.idle import due
from takeback.machines.model import DAY_NS, SandboxState
from tests.machines.keeper.samples import SECOND, record

NOW = 10 * DAY_NS


@pytest.mark.parametrize(
    ("what", "changes", "busy", "idle_for"),
    [
        ("", {}, 0, 299),
        ("pause", {}, 0, 300),
        ("", {}, 1, 3000),
        ("", {"idle_pause_seconds": 0}, 0, 100_000),
        ("", {"state": SandboxState.PAUSED}, 0, 3000),
        ("", {"state": SandboxState.STOPPED, "lease_ns": 1}, 0, 3000),
        ("", {"lease_ns": NOW + 1}, 0, 0),
        ("pause", {"lease_ns": NOW}, 1, 0),
        ("", {"lease_ns": NOW, "state": SandboxState.PAUSED}, 0, 0),
        ("", {"retention_days": 2, "paused_ns": NOW - DAY_NS, "state": SandboxState.PAUSED}, 0, 0),
        ("delete", {"retention_days": 1, "paused_ns": NOW - DAY_NS, "state": SandboxState.PAUSED}, 0, 0),
        ("", {"retention_days": 1, "paused_ns": NOW - DAY_NS}, 0, 0),
        ("stop", {"lease_ns": NOW, "on_lease_end": "stop"}, 1, 0),
        ("delete", {"lease_ns": NOW, "on_lease_end": "delete", "state": SandboxState.PAUSED}, 0, 0),
    ],
)
def test_an_idle_one_pauses_and_a_lease_ends(what: str, changes: dict[str, object], busy: int, idle_for: int) -> None:
    assert due(record(**changes), busy, NOW - idle_for * SECOND, NOW) == what
