"""What cannot be done is refused before anything stops, and whoever is killed in the middle leaves nothing half done.

Does not cover: two gigabytes of output and floods (`test_load`), the engine's own refusals (`engines`).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from takeback.errors import (
    CannotSave,
    InvalidRequest,
    NameTaken,
    SnapshotDamaged,
    SnapshotMismatch,
    TakebackError,
    UsageError,
)
from takeback.machines.client.sandbox import Sandbox
from takeback.machines.client.snapshots import Snapshots
from takeback.machines.engines.gvisor import header
from tests.machines.client import leaks
from tests.machines.client.conftest import World
from tests.machines.client.test_keeper import kill_keeper
from tests.support.cli import Home

COUNTER = "i=0; while :; do i=$((i+1)); echo $i > /tmp/next; mv /tmp/next /tmp/count; sleep 0.02; done"


@pytest.fixture(params=["layers", pytest.param("memory", marks=pytest.mark.long)])
def disk(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def box(world: World, disk: str) -> Iterator[Sandbox]:
    with Sandbox.create(client=world.client, disk=disk, name="source") as made:
        start(made)
        yield made
    clear(world)


def start(box: Sandbox) -> None:
    box.files.write("/workspace/file", "first")
    box.spawn(COUNTER)
    box.exec("until [ -s /tmp/count ]; do sleep 0.01; done", check=True)


def clear(world: World) -> None:
    for one in Snapshots(world.client).list():
        Snapshots(world.client).delete(one["id"])


def goes_on(box: Sandbox, text: str = "first") -> bool:
    """Whether it has its file, and its process counts."""
    moves = "a=$(cat /tmp/count); until [ $(cat /tmp/count) -gt $a ]; do sleep 0.05; done"
    return box.files.read_text("/workspace/file") == text and box.exec(moves).exit_code == 0


def parts(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file() and path.name != "snapshot.json")


def test_a_snapshot_that_was_cut_or_overwritten_is_refused_and_its_source_goes_on(world: World, box: Sandbox) -> None:
    saved = box.snapshot()
    assert parts(world.directory.snapshot(saved["id"]))
    for path in parts(world.directory.snapshot(saved["id"])):
        whole = path.read_bytes()
        for spoiled in (whole[: len(whole) // 2], os.urandom(len(whole)), b""):
            if spoiled == whole:
                continue
            path.write_bytes(spoiled)
            before = box.exec("cat /tmp/count").stdout
            with pytest.raises(SnapshotDamaged):
                box.restore(saved)
            with pytest.raises(SnapshotDamaged):
                Sandbox.create(client=world.client, snapshot=saved["id"])
            # It was not even touched: what ran in it counted on from there.
            assert int(box.exec("cat /tmp/count").stdout) >= int(before) and goes_on(box)
        path.write_bytes(whole)
    assert len(Sandbox.list(client=world.client, include_stopped=True)) == 1
    with Sandbox.create(client=world.client, snapshot=saved["id"]) as copy:
        assert goes_on(copy)


def test_a_snapshot_of_another_engine_or_spec_is_refused_and_its_source_goes_on(world: World, box: Sandbox) -> None:
    saved = box.snapshot()
    folder = world.directory.snapshot(saved["id"])
    head = header.read(folder)
    for changed in ({"version": "0.0~20990101.0"}, {"engine": "other"}, {"digest": "0" * len(head.digest)}):
        header.write(folder, replace(head, **changed), durable=False)  # type: ignore[arg-type]
        with pytest.raises(SnapshotMismatch):
            box.restore(saved)
        with pytest.raises(SnapshotMismatch):
            Sandbox.create(client=world.client, snapshot=saved["id"])
        assert goes_on(box)
    header.write(folder, head, durable=False)
    box.files.write("/workspace/file", "second")
    box.restore(saved)
    assert goes_on(box)


def test_the_command_line_fails_when_an_image_or_a_restore_is_refused(
    home: Home, gvisor: tuple[str, Mapping[str, Any]], supervisor: Path
) -> None:
    home.extra["PATH"] = f"{gvisor[0]}:{os.environ['PATH']}"

    def tb(*words: str) -> Any:
        return home.tb(home.path, "sandbox", *words, as_json=True, check=False)

    unknown = tb("create", "--image", "no such image")
    assert unknown.code != 0 and unknown.error == "image-not-found", unknown.text
    made = tb("create", "--name", "db", "--image", gvisor[1]["root"])
    assert made.code == 0, made.text
    assert tb("snapshot", "db", "--name", "good").code == 0
    (folder,) = (home.data / "machines" / "snapshots").iterdir()
    whole = {path: path.read_bytes() for path in parts(folder)}
    for path, content in whole.items():
        path.write_bytes(content[: len(content) // 2])
    refused = tb("restore", "db", "good")
    assert refused.code not in (0, 2) and refused.error == "snapshot-damaged", refused.text
    assert tb("exec", "db", "--", "echo", "well")["stdout"] == "well\n"
    for path, content in whole.items():
        path.write_bytes(content)
    assert tb("restore", "db", "good").code == 0
    assert tb("rm", "--yes", "db").code == 0
    assert leaks.settle(home.data)[:2] == ({}, set())


@pytest.fixture
def small(world: World) -> Iterator[World]:
    """A world whose data directory lies on a filesystem of 64 MB."""
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=64m,mode=700", "small", world.data], capture_output=True, check=False
    )
    if done.returncode:
        pytest.skip("may not mount")
    try:
        yield world
    finally:
        leaks.settle(world.data)
        subprocess.run(["umount", "-l", world.data], check=True)


def test_a_full_disk_refuses_copies_and_snapshots_and_leaves_nothing_half(small: World, disk: str) -> None:
    with Sandbox.create(client=small.client, disk=disk) as box:
        start(box)
        box.exec("head -c 30000000 /dev/urandom > /dev/shm/data", check=True)
        filler = small.data / "filler"
        free = os.statvfs(small.data)
        filler.write_bytes(b"x" * max(free.f_bavail * free.f_frsize - (4 << 20), 0))
        before = sorted(os.listdir(small.directory.root / "snapshots")) if has_snapshots(small) else []
        with pytest.raises(CannotSave) as refused:
            box.snapshot()
        assert refused.value.hint_text
        assert goes_on(box)
        after = sorted(os.listdir(small.directory.root / "snapshots")) if has_snapshots(small) else []
        assert after == before and box.snapshots() == []
        # Some of it was taken meanwhile, for what is made ahead; the next file gets the rest.
        filler.write_bytes(b"x" * (free.f_bavail * free.f_frsize - (2 << 20)))
        with pytest.raises(OSError, match="space"):
            (small.data / "more").write_bytes(b"x" * (64 << 20))
        for call in (box.snapshot, box.fork):
            with pytest.raises(TakebackError):
                call()
            assert box.exec("echo well").stdout == "well\n"
        filler.unlink()
        (small.data / "more").unlink()
        assert goes_on(box)
        assert len(Sandbox.list(client=small.client, include_stopped=True)) == 1


def has_snapshots(world: World) -> bool:
    return (world.directory.root / "snapshots").is_dir()


def test_what_is_wrong_is_said_before_anything_is_made(world: World, box: Sandbox) -> None:
    refused: list[tuple[type[TakebackError], Callable[[], object]]] = [
        (InvalidRequest, lambda: Sandbox.create(client=world.client, memory_mib=1)),
        (InvalidRequest, lambda: Sandbox.create(client=world.client, vcpu=0)),
        (NameTaken, lambda: Sandbox.create(client=world.client, name="source")),
        (NameTaken, lambda: box.fork(name="source")),
        (InvalidRequest, lambda: Sandbox.create(client=world.client, name="../outside")),
        (UsageError, lambda: box.files.write("relative/../../x\0y", "x")),
        (UsageError, lambda: box.restore("../../outside")),
        (UsageError, lambda: Sandbox.create(client=world.client, snapshot="../../outside")),
        (UsageError, lambda: Sandbox.connect("../../outside", client=world.client)),
        (UsageError, lambda: box.files.read("/nowhere")),
    ]
    for kind, call in refused:
        with pytest.raises(kind) as caught:
            call()
        assert str(caught.value) and "Traceback" not in str(caught.value)
    assert len(Sandbox.list(client=world.client, include_stopped=True)) == 1 and goes_on(box)


OPERATIONS = pytest.mark.parametrize("operation", ["fork", "snapshot", "restore"])
MOMENTS = pytest.mark.parametrize(
    "moments", [(0.08,), pytest.param((0.0, 0.03, 0.06, 0.1, 0.15, 0.2, 0.3, 0.4), marks=pytest.mark.long)]
)
CALL = """
import json, sys
from pathlib import Path
from takeback.machines.client.connect import Client
from takeback.machines.client.sandbox import Sandbox
client = Client(Path(sys.argv[1]))
box = Sandbox.connect(sys.argv[2], client=client)
print("now", flush=True)
getattr(box, sys.argv[3])(*([sys.argv[4]] if sys.argv[3] == "restore" else []))
"""


def begin(world: World, box: Sandbox, operation: str, snapshot: str) -> subprocess.Popen[bytes]:
    """Another program that begins something; back when it is about to."""
    words = [sys.executable, "-c", CALL, str(world.data), box.id, operation, snapshot]
    program = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    assert program.stdout is not None and program.stdout.readline() == b"now\n"
    return program


def finish(program: subprocess.Popen[bytes]) -> None:
    program.wait(60)
    assert program.stdout is not None
    program.stdout.close()


def wait_for_the_end(world: World) -> None:
    """Wait until nothing more comes of what a killed program had asked for: its keeper finishes that."""

    def there() -> list[str]:
        found = [f"{one.id} {one.state}" for one in Sandbox.list(client=world.client, include_stopped=True)]
        return sorted([*found, *(one["id"] for one in Snapshots(world.client).list())])

    before, since = there(), time.monotonic()
    while time.monotonic() - since < 1.5:
        time.sleep(0.1)
        if (now := there()) != before:
            before, since = now, time.monotonic()


def all_is_found_again(world: World, box: Sandbox) -> None:
    """Every machine there is answers, or is stopped and says why; every snapshot that is ready can be started."""
    kept = 0
    for one in Sandbox.list(client=world.client, include_stopped=True):
        if one.state == "paused":
            one.wake()
        if one.state in ("running", "starting"):
            assert goes_on(one), one.info
            kept += 1
        else:
            assert one.info["lost"] or one.info["stopReason"], one.info
        if one.id != box.id:
            one.delete()
    assert kept >= 1 and box.refresh().state == "running", box.info
    for saved in Snapshots(world.client).list():
        if saved["state"] == "ready":
            with Sandbox.create(client=world.client, snapshot=saved["id"]) as copy:
                assert goes_on(copy)


@OPERATIONS
@MOMENTS
def test_a_keeper_killed_in_the_middle_is_followed_by_one_that_finds_all(
    world: World, box: Sandbox, operation: str, moments: tuple[float, ...]
) -> None:
    saved = box.snapshot()
    for moment in moments:
        program = begin(world, box, operation, saved["id"])
        time.sleep(moment)
        kill_keeper(world)
        finish(program)
        all_is_found_again(world, box)
        for one in Snapshots(world.client).list():
            if one["id"] != saved["id"]:
                Snapshots(world.client).delete(one["id"])


@OPERATIONS
@MOMENTS
def test_a_program_killed_in_the_middle_leaves_everything_whole(
    world: World, box: Sandbox, operation: str, moments: tuple[float, ...]
) -> None:
    saved = box.snapshot()
    for moment in moments:
        program = begin(world, box, operation, saved["id"])
        time.sleep(moment)
        program.kill()
        finish(program)
        wait_for_the_end(world)
        all_is_found_again(world, box)


@pytest.mark.parametrize("moments", [(0.15,), pytest.param((0.0, 0.1, 0.2, 0.3), marks=pytest.mark.long)])
def test_a_fork_leaves_no_snapshot_behind_whoever_is_killed(
    world: World, box: Sandbox, moments: tuple[float, ...]
) -> None:
    for moment in moments:
        program = begin(world, box, "fork", "")
        seen: list[object] = []
        until = time.monotonic() + moment
        while time.monotonic() < until:
            seen += Snapshots(world.client).list()
        kill_keeper(world)
        finish(program)
        assert Snapshots(world.client).list() == seen == []
        for one in Sandbox.list(client=world.client, include_stopped=True):
            if one.id != box.id:
                one.delete()
    folder = world.directory.root / "snapshots"
    assert goes_on(box) and (not folder.is_dir() or os.listdir(folder) == [])


def test_a_clock_that_was_set_back_deletes_nothing_and_stops_nothing(world: World, box: Sandbox) -> None:
    saved = box.snapshot(retention_days=1)
    kill_keeper(world)
    # As if all of it had been written tomorrow: what a machine sees whose clock was a day ahead until now.
    day = 86_400 * 10**9
    for path in (world.directory.root / "sandboxes" / box.id / "sandbox.json",
                 world.directory.snapshot(saved["id"]) / "snapshot.json"):  # fmt: skip
        record = json.loads(path.read_text())
        ahead = {name: value + day for name, value in record.items() if name.endswith("_ns") and value}
        path.write_text(json.dumps(record | ahead))
    assert goes_on(box) and box.refresh().state == "running"
    box.restore(saved)
    assert goes_on(box)
    with Sandbox.create(client=world.client, snapshot=saved["id"]) as copy:
        assert goes_on(copy)
    assert box.cost()["totalMicros"] >= 0
