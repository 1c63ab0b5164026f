"""A copy is somebody else: identity, entropy and the time are its own, and what repeats is what the guide says.

Does not cover: TLS itself; what it needs of a clock is the date.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from takeback.machines.client.sandbox import Sandbox
from takeback.machines.client.snapshots import Snapshots
from tests.machines.client.conftest import World

# One process that was running before the copy: its answers show what a copied process sees.
ASKED = """
import os, random, sys, time, uuid
random.seed(7)
print("ready", flush=True)
for line in sys.stdin:
    print(os.getrandom(16).hex(), uuid.uuid4(), random.random(), time.time(), time.monotonic(), flush=True)
"""
HOOK = "#!/bin/sh\necho $TAKEBACK_GENERATION >> /var/generations\n"


@pytest.fixture(params=["layers", pytest.param("memory", marks=pytest.mark.long)])
def box(world: World, request: pytest.FixtureRequest) -> Iterator[Sandbox]:
    with Sandbox.create(client=world.client, disk=request.param) as made:
        yield made
    for one in Snapshots(world.client).list():
        Snapshots(world.client).delete(one["id"])


def asking(box: Sandbox) -> str:
    """Start that process; its id."""
    process = box.spawn(["python3", "-c", ASKED])
    for event in process.output(timeout_seconds=30):
        if "ready" in event.get("data", ""):
            return process.id
    raise AssertionError("it did not start")


def asked(box: Sandbox, process_id: str) -> list[str]:
    """Return its first answer: random bytes, uuid4, random.random, the time, the monotonic time."""
    process = box.process(process_id)
    process.write("\n")
    text = ""
    for event in process.output(timeout_seconds=30):
        text += event.get("data", "")
        if text.count("\n") == 2:
            break
    return text.splitlines()[1].split()


def test_each_copy_has_its_own_machine_id_entropy_and_generation(box: Sandbox) -> None:
    process = asking(box)
    copies = box.fork(2)
    answers = [asked(one, process) for one in (box, *copies)]
    assert len({answer[0] for answer in answers}) == len({answer[1] for answer in answers}) == 3
    fresh = "cat /etc/machine-id; head -c 16 /dev/urandom | od -An -tx1 | tr -d ' '"
    lines = [one.exec(fresh, check=True).stdout.split() for one in (box, *copies)]
    for kind in zip(*lines, strict=True):
        assert len(set(kind)) == 3, kind
    generations = [one.exec("cat /run/takeback/generation", check=True).stdout for one in (box, *copies)]
    later = copies[0].fork()
    assert isinstance(later, Sandbox)
    newest = later.exec("cat /run/takeback/generation", check=True).stdout
    assert generations[1] == generations[2] != generations[0]
    assert int(newest) > int(generations[1]) > int(generations[0])
    for one in (later, *copies):
        one.delete()


def test_what_repeats_in_a_copy_is_what_the_guide_says(box: Sandbox) -> None:
    process = asking(box)
    saved = box.snapshot()
    with (
        Sandbox.create(client=box._client, snapshot=saved["id"]) as one,
        Sandbox.create(client=box._client, snapshot=saved["id"]) as two,
    ):
        first, second = asked(one, process), asked(two, process)
        # A generator that was seeded once goes on alike; whoever needs other numbers reseeds it (the hook, the file).
        assert first[2] == second[2] == asked(box, process)[2]
        assert first[0] != second[0]


def test_the_clock_is_right_after_a_restore_that_came_later(world: World, box: Sandbox) -> None:
    process = asking(box)
    saved = box.snapshot()
    time.sleep(4)
    with Sandbox.create(client=world.client, snapshot=saved["id"]) as copy:
        for one in (copy, box):
            before = time.time()
            running, fresh = float(asked(one, process)[3]), float(one.exec("date +%s.%N", check=True).stdout)
            after = time.time()
            assert before - 0.5 <= running <= after + 0.5
            assert before - 0.5 <= fresh <= after + 0.5
    box.pause()
    time.sleep(2)
    box.wake()
    before = time.time()
    assert before - 0.5 <= float(box.exec("date +%s.%N", check=True).stdout) <= time.time() + 0.5
    box.restore(saved)
    before = time.time()
    assert before - 0.5 <= float(box.exec("date +%s.%N", check=True).stdout) <= time.time() + 0.5


def test_a_file_made_after_the_snapshot_is_not_of_the_future_in_a_copy(box: Sandbox) -> None:
    # What TLS, make and caches see when a clock stood still: "not yet valid".
    saved = box.snapshot()
    time.sleep(2)
    stamp = time.time()
    with Sandbox.create(client=box._client, snapshot=saved["id"]) as copy:
        copy.exec("echo x > made", check=True)
        assert float(copy.exec("stat -c %.Y made", check=True).stdout) >= stamp - 0.5
        assert copy.exec(f"[ $(date +%s) -ge {int(stamp)} ]").exit_code == 0


def test_the_hook_has_run_before_the_copy_is_ours(box: Sandbox) -> None:
    box.exec("sudo mkdir -p /etc/takeback; sudo tee /etc/takeback/on-copy >&2", stdin=HOOK, check=True)
    box.exec("sudo chmod 755 /etc/takeback/on-copy", check=True)
    assert not box.files.exists("/var/generations")
    copies = box.fork(2)
    for copy in copies:
        assert copy.files.read_text("/var/generations") == copy.files.read_text("/run/takeback/generation")
    assert not box.files.exists("/var/generations")
    later = copies[0].fork()
    assert isinstance(later, Sandbox)
    lines = later.files.read_text("/var/generations").split()
    assert len(lines) == 2 and int(lines[1]) > int(lines[0])
    for one in (later, *copies):
        one.delete()


@pytest.mark.long
def test_a_hook_that_hangs_or_fails_does_not_hold_up_a_copy(box: Sandbox) -> None:
    for hook in ("#!/bin/sh\nsleep 1000\n", "#!/bin/sh\nexit 3\n", "no program"):
        box.exec("sudo mkdir -p /etc/takeback; sudo tee /etc/takeback/on-copy >&2", stdin=hook, check=True)
        box.exec("sudo chmod 755 /etc/takeback/on-copy", check=True)
        copy = box.fork()
        assert isinstance(copy, Sandbox)
        assert copy.exec("echo well", check=True).stdout == "well\n"
        copy.delete()
