"""Every kind of state that a program can have survives each way in which its machine is copied, on every kind of disk.

The kinds are in `tests.machines.states`, which runs inside. Does not cover: those that every engine is tested with
(`engines/state.py`), and programs that are installed (`test_real_programs`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from takeback.host import btrfs
from takeback.machines.client.sandbox import Sandbox
from takeback.machines.client.snapshots import Snapshots
from takeback.machines.engines.gvisor import checks
from tests.machines.client.conftest import World

PROGRAM = Path(__file__).parents[1] / "states"
INSIDE = "/workspace/tests/machines/states"
# More than a disk in layers is copied with: the machine is replaced.
GROW = "head -c 12000000 /dev/urandom > /workspace/big"


@dataclass
class Held:
    """The program in a machine, and in what was copied of it."""

    process: str

    def check(self, moment: str, *boxes: Sandbox) -> None:
        """Have it look at everything, in all these machines at once; no machine may be asked twice with one word."""
        for box in boxes:
            box.process(self.process).write(f"{moment}\n")
        told = [self.told(moment, box) for box in boxes]
        assert told == [f"ok {moment}"] * len(boxes), "\n".join(told)

    def told(self, moment: str, box: Sandbox) -> str:
        text = ""
        for event in box.process(self.process).output(timeout_seconds=60):
            text += str(event.get("data", ""))
            for line in text.splitlines(keepends=True):
                if line.startswith((f"ok {moment}\n", f"bad {moment}:")) and line.endswith("\n"):
                    return line.strip()
        return f"no answer: {text}"


@pytest.fixture(params=["layers-copied", "layers-replaced", "memory"])
def way(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def box(world: World, way: str) -> Iterator[Sandbox]:
    disk, _, how = way.partition("-")
    with Sandbox.create(client=world.client, disk=disk, memory_mib=1024) as made:
        made.exec(GROW if how == "replaced" else "true", check=True)
        yield made
    # What a failed test left.
    for found in Sandbox.list(client=world.client):
        found.delete()
    for one in Snapshots(world.client).list():
        Snapshots(world.client).delete(one["id"])


def held(box: Sandbox, way: str) -> Held:
    """Begin the program."""
    for path in PROGRAM.glob("*.py"):
        box.files.write(f"{INSIDE}/{path.name}", path.read_bytes())
    argv = ["python3", "-B", "-m", "tests.machines.states", way.partition("-")[0]]
    made = Held(box.spawn(argv, cwd="/workspace", user="root").id)
    assert made.told("ready", box) == "ok ready"
    return made


def copied(box: Sandbox, count: int) -> list[Sandbox]:
    made = box.fork(count)
    assert isinstance(made, list)
    return made


def container(world: World, box: Sandbox) -> str:
    """Return which container a machine is."""
    record = checks.read(world.directory.sandbox(box.id))
    assert record is not None and record.current is not None
    return record.current.id


@pytest.mark.parametrize("way", ["layers-copied"], indirect=True)
@pytest.mark.long
def test_every_kind_of_state_is_in_the_source_and_in_a_copy(box: Sandbox, way: str) -> None:
    program = held(box, way)
    (copy,) = copied(box, 1)
    program.check("after", box, copy)
    copy.delete()


@pytest.mark.long
def test_every_kind_of_state_survives_each_way_of_copying(world: World, box: Sandbox, way: str) -> None:
    program = held(box, way)
    program.check("before", box)
    before = container(world, box)
    one, two = copied(box, 2)
    replaced = way == "layers-replaced" and not btrfs.is_subvolume(next(world.directory.layers.iterdir()))
    assert (container(world, box) != before) == replaced
    program.check("after a fork", box, one, two)
    (again,) = copied(one, 1)
    program.check("after a fork of a copy", one, again)
    for copy in (one, two, again):
        copy.delete()

    if replaced:
        box.exec(GROW, check=True)
    taken, later = box.snapshot(), container(world, box)
    assert (later != before) == replaced
    box.pause()
    box.wake()
    program.check("after a snapshot", box)
    with Sandbox.create(client=world.client, snapshot=taken["id"]) as started:
        program.check("from the snapshot", started)
    box.restore(taken)
    program.check("after a restore", box)
    box.restore(box.info["undoSnapshotId"])
    program.check("after a restore was taken back", box)
