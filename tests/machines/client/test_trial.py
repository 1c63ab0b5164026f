"""Steps tried in copies of real machines: one of the two stays, whatever happens."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from takeback.errors import InvalidRequest, KeeperGone, SandboxNotFound, SandboxReplaced, TakebackError, UsageError
from takeback.machines.client import undo
from takeback.machines.client.sandbox import Sandbox
from takeback.machines.client.trial import try_in_copy
from tests.machines.client import leaks
from tests.machines.client.conftest import World

SERVER = "exec python3 -m http.server 8000 --bind 127.0.0.1"
ASK = "python3 -c 'import urllib.request as u; print(u.urlopen(\"http://127.0.0.1:8000/\").status)'"
DATABASE = """
set -e
sqlite3 app.db "create table person (id integer primary key, name text not null, mail text);"
sqlite3 app.db "insert into person (name, mail) values ('Ada', 'ada@x'), ('Bob', null), ('Cy', 'cy@x');"
"""
BAD = """
sqlite3 app.db "create table mail (person integer not null, address text not null);
insert into mail select id, coalesce(mail, '') from person where mail is not null;
delete from person where mail is null; alter table person drop column mail;"
"""
GOOD = """
sqlite3 app.db "create table mail (person integer not null, address text not null);
insert into mail select id, mail from person where mail is not null; alter table person drop column mail;"
"""
VERIFY = """
test "$(sqlite3 app.db 'select count(*) from person')" = 3 && test "$(sqlite3 app.db 'select count(*) from mail')" = 2
"""


@pytest.fixture(params=["layers", pytest.param("memory", marks=pytest.mark.long)])
def disk(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def box(world: World) -> Iterator[Sandbox]:
    with Sandbox.create(client=world.client, name="db", labels={"team": "x"}) as made:
        yield made


def living(world: World) -> list[str]:
    return [one.id for one in Sandbox.list(client=world.client)]


def settled(world: World, count: int, patience: float = 15.0) -> list[str]:
    """Return the living once there are `count`."""
    until = time.monotonic() + patience
    while len(living(world)) != count and time.monotonic() < until:
        time.sleep(0.05)
    return living(world)


def test_a_bad_migration_is_dropped_and_a_good_one_kept_with_the_server_alive(world: World, disk: str) -> None:
    with Sandbox.create(client=world.client, name="db", labels={"team": "x"}, disk=disk) as box:
        assert box.exec(DATABASE).exit_code == 0
        server = box.spawn(SERVER)
        assert box.exec(f"until {ASK}; do sleep 0.1; done").exit_code == 0
        before = box.exec("sqlite3 app.db .dump").stdout

        bad = try_in_copy(box, BAD, VERIFY)
        assert (bad.passed, bad.kept) == (False, box)
        assert [entry["path"] for entry in bad.diff["changed"]] == ["/workspace/app.db"]
        assert box.exec("sqlite3 app.db .dump").stdout == before and living(world) == [box.id]

        good = try_in_copy(box, GOOD, f"{VERIFY.strip()} && {ASK}")
        kept = good.kept
        assert good.passed and kept.id != box.id and living(world) == [kept.id]
        assert (kept.info["name"], kept.info["labels"], kept.info["trialEndsAt"]) == ("db", {"team": "x"}, None)
        assert kept.exec("sqlite3 app.db 'select address from mail'").stdout == "ada@x\ncy@x\n"
        assert kept.process(server.id).state == "running" and "200" in kept.exec(ASK).stdout
        assert good.cost["totalMicros"] >= 0 and good.cost["cpuSeconds"] > 0
        with pytest.raises(SandboxNotFound):
            Sandbox.connect(box.id, client=world.client)


def test_the_copy_reaches_nothing_until_it_has_the_rules_and_previews_of_the_original(world: World) -> None:
    rules = {"internet": False, "allow": ["*.example.org"]}
    with Sandbox.create(client=world.client, network=rules) as box:
        box.spawn(SERVER)
        assert box.exec(f"until {ASK}; do sleep 0.1; done").exit_code == 0
        url = box.previews.create(8000)["url"]
        shown: list[dict[str, Any]] = []
        kept = try_in_copy(box, lambda copy: shown.append(copy.network.get())).kept
        assert kept.id != box.id and (shown[0]["internet"], shown[0]["allow"]) == (False, [])
        assert kept.network.get()["allow"] == ["*.example.org"]
        assert kept.previews.get(8000)["url"] == url
        with urllib.request.urlopen(url) as answer:
            assert answer.status == 200


def test_the_log_has_the_step_and_the_check(box: Sandbox, world: World) -> None:
    trial = try_in_copy(box, "echo stepped; echo oops >&2", "echo checked; exit 3", timeout=30)
    assert not trial.passed and trial.kept is box and living(world) == [box.id]
    for words in ("$ echo stepped", "stepped\n", "oops\n", "checked\n"):
        assert words in trial.log
    failed = try_in_copy(box, "echo stepped; exit 1", "echo checked")
    assert not failed.passed and "checked" not in failed.log


def test_a_step_may_be_words_or_a_function(box: Sandbox, world: World) -> None:
    trial = try_in_copy(box, ["touch", "a b"], lambda copy: copy.files.exists("/workspace/a b"), cwd="/workspace")
    assert trial.passed and trial.kept.files.exists("/workspace/a b")
    with pytest.raises(SandboxReplaced) as gone:
        box.exec("true")
    assert gone.value.fields["heir"] == (trial.kept.info["name"] or trial.kept.id)

    def broken(copy: Sandbox) -> None:
        copy.files.write("/workspace/c", "x")
        raise ZeroDivisionError("no")

    failed = try_in_copy(trial.kept, broken)
    assert not failed.passed and "ZeroDivisionError: no" in failed.log
    assert not trial.kept.files.exists("/workspace/c") and living(world) == [trial.kept.id]
    assert try_in_copy(trial.kept, lambda copy: copy.exec("exit 4")).passed is False


def test_a_step_that_hangs_is_ended(box: Sandbox, world: World) -> None:
    began = time.monotonic()
    trial = try_in_copy(box, "trap '' TERM; echo on; sleep 1000 & wait; sleep 1000", timeout=1)
    assert not trial.passed and "out of time" in trial.log and living(world) == [box.id]

    def hangs(copy: Sandbox) -> None:
        copy.exec("sleep 1000", timeout_ms=600_000)

    assert not try_in_copy(box, hangs, timeout=1).passed
    assert living(world) == [box.id] and time.monotonic() - began < 40


def test_a_copy_that_dies_has_failed(world: World) -> None:
    with Sandbox.create(client=world.client, memory_mib=256) as box:
        box.files.write("/workspace/file", "here")
        trial = try_in_copy(box, "python3 -c 'x = bytearray(2 << 30); print(len(x))'", timeout=60)
        assert not trial.passed and trial.kept is box
        assert box.files.read_text("/workspace/file") == "here" and living(world) == [box.id]


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
def test_ctrl_c_leaves_the_original_alone(box: Sandbox, world: World, error: type[BaseException]) -> None:
    def interrupted(copy: Sandbox) -> None:
        copy.exec("touch /workspace/x")
        raise error

    with pytest.raises(error):
        try_in_copy(box, interrupted)
    assert living(world) == [box.id] and not box.files.exists("/workspace/x")


def test_what_cannot_be_meant_is_said_before_a_copy_is_made(box: Sandbox, world: World) -> None:
    with pytest.raises(UsageError):
        try_in_copy(box, "true", timeout=0)
    with pytest.raises(InvalidRequest):
        try_in_copy(box, [])
    with pytest.raises(InvalidRequest):
        box.fork(lease=0)
    with pytest.raises(InvalidRequest):
        box.replace_with(box)
    assert living(world) == [box.id]


def test_a_lease_ends_a_copy_that_nobody_kept(box: Sandbox, world: World) -> None:
    copy = box.fork(lease=2)
    assert isinstance(copy, Sandbox) and len(living(world)) == 2
    assert settled(world, 1) == [box.id]
    kept = box.fork(lease=3)
    assert isinstance(kept, Sandbox)
    box.replace_with(kept)
    time.sleep(4)
    assert living(world) == [kept.id]


def test_a_killed_program_leaves_no_copy(box: Sandbox, world: World) -> None:
    source = (
        "import sys; from pathlib import Path; from takeback.machines.client.connect import Client\n"
        "from takeback.machines.client.sandbox import Sandbox\n"
        "from takeback.machines.client.trial import try_in_copy\n"
        "box = Sandbox.connect(sys.argv[2], client=Client(Path(sys.argv[1])))\n"
        "try_in_copy(box, 'echo begun; sleep 1000')\n"
    )
    program = subprocess.Popen([sys.executable, "-c", source, str(world.data), box.id])
    both = settled(world, 2, 60)
    copy = Sandbox.connect(next(one for one in both if one != box.id), client=world.client)
    until = time.monotonic() + 60
    while not any("sleep 1000" in str(one) for one in copy.processes()) and time.monotonic() < until:
        time.sleep(0.05)  # from when the step runs, the keeper watches who tries it
    program.send_signal(signal.SIGKILL)
    program.wait()
    assert settled(world, 1) == [box.id]
    assert box.exec("echo well").stdout == "well\n"


STAGED = """
import inspect, sys, time
from pathlib import Path
from takeback.machines.client import trial
from takeback.machines.client.connect import Client
from takeback.machines.client.sandbox import Sandbox

data, name, stage, last = Path(sys.argv[1]), sys.argv[2], sys.argv[3], float(sys.argv[4])
owner = trial if stage == "fork" else trial.Candidate
trial._SPARE_S = -2  # so that a copy that is left to its lease lives for 4 seconds


def now():
    print("now", flush=True)


def after():
    if last:
        now()
    time.sleep(last)


def marked(real):
    def call(*arguments, **named):
        now()
        answer = real(*arguments, **named)
        after()
        return answer

    def steps(*arguments, **named):
        now()
        answer = yield from real(*arguments, **named)
        after()
        return answer

    # What waits is a generator: the call alone would do nothing.
    return steps if inspect.isgeneratorfunction(real) else call


def verify(copy):
    if stage == "verify":
        now()
        copy.exec("sleep 1000")


if stage != "verify":
    setattr(owner, stage, marked(getattr(owner, stage)))
box = next(one for one in Sandbox.list(client=Client(data)) if one.info["name"] == name)
trial.try_in_copy(box, "echo tried >> tried", verify, timeout=3)
"""
STAGES = ["fork", "verify", "measured", "keep"]
# Seconds until the signal, and for how long the call lasts longer than it would: in the middle of it, at once, later in
# it, and just after it (it says itself when that is).
MOMENTS = [(0.02, 0.0), (0.0, 0.0), (0.004, 0.0), (0.08, 0.0), (0.0, 30.0)]


@pytest.mark.parametrize("moments", [MOMENTS[:1], pytest.param(MOMENTS[1:], marks=pytest.mark.long)])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_whenever_a_program_is_interrupted_or_killed_one_of_the_two_is_left(
    box: Sandbox, world: World, number: signal.Signals, moments: list[tuple[float, float]]
) -> None:
    box.files.write("/workspace/tried", "")
    kept, named = 0, box
    for stage, (after, last) in itertools.product(STAGES, moments):
        before = named.id
        program = subprocess.Popen(
            [sys.executable, "-c", STAGED, str(world.data), "db", stage, str(last)],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # who runs the tests may ignore it
        )  # fmt: skip
        with program:
            assert program.stdout is not None and program.stdout.readline() == b"now\n"
            if last and stage != "verify":
                assert program.stdout.readline() == b"now\n"
            time.sleep(after)
            program.send_signal(number)
            complained = program.communicate(timeout=60)[1]
        (left,) = settled(world, 1, 30)
        (named,) = Sandbox.list(client=world.client, name="db")
        assert named.id == left and named.info["trialEndsAt"] is None, (stage, after, complained)
        kept += left != before
        assert named.exec("cat tried").stdout == "tried\n" * kept, (stage, after, complained)
        if stage in ("fork", "verify"):
            assert left == before
        if last:
            assert (stage == "keep") == (left != before)
            assert number != signal.SIGINT or b"KeyboardInterrupt" in complained
    named.delete()


def test_a_block_deletes_what_took_the_place_also_when_ctrl_c_came_before_the_answer(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(KeyboardInterrupt), Sandbox.create(client=world.client) as made:
        real = undo.replace

        def interrupted(sandbox: str, copy: str) -> Any:
            yield from real(sandbox, copy)
            raise KeyboardInterrupt  # it was done, and this program does not know

        monkeypatch.setattr(undo, "replace", interrupted)
        try:
            try_in_copy(made, "echo x > file")
        except KeyboardInterrupt:
            assert made.heir is not None and living(world) == [made.heir.id]
            assert made.heir.files.read_text("/workspace/file") == "x\n"
            raise
    assert living(world) == []


@pytest.mark.parametrize("after", [0.0, 0.002, 0.005, 0.01, 0.03])
def test_a_keeper_killed_while_a_copy_takes_the_place_leaves_one_of_the_two(
    box: Sandbox, world: World, after: float
) -> None:
    copy = box.fork(lease=600)
    assert isinstance(copy, Sandbox)
    (keeper,) = leaks.keepers(world.data)
    killer = subprocess.Popen(["sh", "-c", f"sleep {after}; kill -9 {keeper}"])
    try:
        box.replace_with(copy)
        replaced = True
    except (KeeperGone, TakebackError):
        replaced = False
    killer.wait()
    while Path(f"/proc/{keeper}").exists():
        time.sleep(0.01)
    named = Sandbox.list(client=world.client, name="db")
    assert len(named) == 1
    if replaced:
        assert named[0].id == copy.id
    if named[0].id == copy.id:
        assert living(world) == [copy.id]
    else:
        assert sorted(living(world)) == sorted([box.id, copy.id])
    assert named[0].exec("echo well").stdout == "well\n"
    copy.delete()


@pytest.mark.long
def test_the_program_may_be_killed_together_with_the_keeper(box: Sandbox, world: World) -> None:
    copy = box.fork(lease=4)
    assert isinstance(copy, Sandbox)
    for keeper in leaks.keepers(world.data):
        os.kill(keeper, signal.SIGKILL)
    time.sleep(0.2)
    assert settled(world, 1, 30) == [box.id]
