"""The snapshots of a data directory: found, changed, kept for so long, limited; and what sandboxes cost."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

import pytest

from takeback.errors import FenceConflict, InvalidRequest, SandboxNotFound, SnapshotNotFound, StoredLimit, UsageError
from takeback.machines.client.sandbox import Sandbox
from takeback.machines.client.snapshots import Snapshots
from takeback.machines.cost import Prices
from tests.machines.client.conftest import World
from tests.machines.client.test_keeper import kill_keeper

MIB = 1 << 20


@pytest.fixture
def snapshots(world: World) -> Iterator[Snapshots]:
    made = Snapshots(world.client)
    yield made
    for one in made.list():
        made.delete(one["id"])


@pytest.fixture
def box(world: World, snapshots: Snapshots) -> Iterator[Sandbox]:
    with Sandbox.create(client=world.client, name="one", disk="layers") as made:
        yield made


def test_they_are_found_changed_and_compared(box: Sandbox, snapshots: Snapshots) -> None:
    first = box.snapshot(name="first", labels={"a": "1"})
    second = snapshots.create(box.id, retention_days=3)
    assert [one["id"] for one in snapshots.list()] == [second["id"], first["id"]]
    assert [one["id"] for one in snapshots.list(labels={"a": "1"}, limit=5)] == [first["id"]]
    assert snapshots.list(state="failed") == [] and snapshots.list(sandbox_id="nobody") == []
    assert snapshots.get("first")["id"] == first["id"] and second["parentSnapshotId"] == first["id"]
    changed = snapshots.update(first["id"], name="renamed", labels={"b": "2"}, if_labels={"a": "1"})
    assert (changed["name"], changed["labels"], changed["expiresAt"]) == ("renamed", {"b": "2"}, None)
    with pytest.raises(FenceConflict):
        snapshots.update(first["id"], labels={}, if_labels={"a": "1"})
    with pytest.raises(InvalidRequest):
        snapshots.extend(first["id"], 1000)
    assert snapshots.extend(first["id"], 5)["retentionDays"] == 5
    snapshots.delete(first["id"])
    with pytest.raises(SnapshotNotFound):
        snapshots.get("renamed")


def test_the_tree_says_what_came_from_what(world: World, box: Sandbox, snapshots: Snapshots) -> None:
    first = box.snapshot(name="first")
    second = box.snapshot(name="second")
    box.restore(first)
    third = box.snapshot(name="third")
    with Sandbox.create(client=world.client, snapshot=second["id"], name="started") as other:
        tree = snapshots.tree()
        (root,) = tree.roots
        assert root.id == box.id and [child.id for child in root.children] == [first["id"]]
        below = {child.id: [one.id for one in child.children] for child in root.children[0].children}
        assert below[second["id"]][0] == other.id or other.id in below[second["id"]]
        assert third["id"] in below and "└─ third" in str(tree) and "started" in str(tree)
        assert tree.to_dict()[0]["children"][0]["name"] == "first"


def test_those_whose_days_are_over_go(world: World, box: Sandbox, snapshots: Snapshots) -> None:
    kept, gone = box.snapshot(), box.snapshot(retention_days=1)
    kill_keeper(world)
    path = world.directory.snapshot(gone["id"]) / "snapshot.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "expires_ns": time.time_ns() + 10**9}))
    assert len(snapshots.list()) == 2
    until = time.monotonic() + 15
    while len(snapshots.list()) > 1 and time.monotonic() < until:
        time.sleep(0.1)
    assert [one["id"] for one in snapshots.list()] == [kept["id"]] and not path.parent.exists()
    assert box.exec("echo well").stdout == "well\n"


def test_a_limit_refuses_another_before_anything_stops(world: World, box: Sandbox, snapshots: Snapshots) -> None:
    box.exec("head -c 20000000 /dev/urandom > data")
    first = box.snapshot()
    assert first["storedBytes"] > 20_000_000
    used = snapshots.used()
    assert used["snapshots"] == first["storedBytes"] and used["total"] > used["snapshots"] and used["limit"] == 0
    world.client.stored_limit = used["snapshots"] + 10 * MIB
    ticking = box.exec("date +%s.%N")
    with pytest.raises(StoredLimit) as refused:
        box.snapshot()
    assert "du" in refused.value.hint_text and ticking.exit_code == 0
    with pytest.raises(StoredLimit):
        box.fork(keep_snapshot=True)
    assert len(snapshots.list()) == 1
    world.client.stored_limit = 0
    second = box.snapshot()
    # What both have is there once.
    assert snapshots.used()["snapshots"] < first["storedBytes"] + second["storedBytes"] + 1


def test_cost_is_of_what_was_used_also_after_a_restart_and_when_it_is_gone(
    world: World, box: Sandbox, snapshots: Snapshots
) -> None:
    assert box.exec("timeout 2 sh -c 'while :; do :; done'").exit_code == 124
    first = box.cost()
    assert first["cpuSeconds"] > 0.3 and first["memoryGiBHours"] > 2 * 4 / 3600 * 0.5
    assert first["totalMicros"] == sum(first[f"{kind}Micros"] for kind in ("cpu", "memory", "stored", "sent"))
    dear = box.cost({"cpu_hour": 3_600_000_000})
    assert dear["cpuMicros"] >= first["cpuSeconds"] * 1e6 * 0.99
    assert box.cost(Prices(0, 0, 0, 0))["totalMicros"] == 0
    with pytest.raises(UsageError):
        box.cost({"cpu": 1})
    kill_keeper(world)
    second = box.cost()
    assert second["cpuSeconds"] >= first["cpuSeconds"]

    copy = box.fork()
    assert isinstance(copy, Sandbox)
    copy.exec("timeout 1 sh -c 'while :; do :; done'")
    copy.delete()
    assert copy.cost()["cpuSeconds"] > 0.2
    with pytest.raises(SandboxNotFound):
        Sandbox(world.client, {**copy.info, "id": "nobody"}).cost()


def test_both_faces_have_the_same_methods(world: World) -> None:
    from takeback.machines.client.aio import AsyncSandbox

    def public(cls: Any) -> set[str]:
        return {name for name in dir(cls) if not name.startswith("_")}

    assert public(Sandbox) - public(AsyncSandbox) == set() == public(AsyncSandbox) - public(Sandbox)
