"""`takeback sandbox fork|try|diff|snapshot|restore|snapshots|cost`, `takeback chain ...` and `du` on real machines."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.cli.terminal import on_terminal
from tests.machines.client import leaks
from tests.support.cli import Home, Result

Run = Callable[..., Result]


@pytest.fixture
def machines(home: Home, gvisor: tuple[str, Mapping[str, Any]], supervisor: Path) -> Iterator[Home]:
    """A home where runsc is found, and where nothing is left afterwards."""
    home.extra["PATH"] = f"{gvisor[0]}:{os.environ['PATH']}"
    home.extra["ROOTFS"] = gvisor[1]["root"]
    leaks.put_supervisor(supervisor, home.data)
    yield home
    assert leaks.settle(home.data) == ({}, set(), set())


@pytest.fixture
def tb(machines: Home) -> Run:
    def run(*words: str, as_json: bool = True, **more: Any) -> Result:
        return machines.tb(machines.path, *words, as_json=as_json, check=False, **more)

    return run


@pytest.fixture
def db(tb: Run, machines: Home) -> Iterator[str]:
    """A sandbox with the name db; its id."""
    made = tb("sandbox", "create", "--name", "db", "--image", machines.extra["ROOTFS"])
    assert made.code == 0, made.text
    yield made["sandbox"]["id"]
    for box in tb("sandbox", "ls", "--all")["sandboxes"]:
        tb("sandbox", "rm", "--yes", box["id"])
    for one in tb("sandbox", "snapshots")["snapshots"]:
        tb("sandbox", "snapshots", "rm", one["id"])


def read(tb: Run, path: str) -> str:
    return str(tb("sandbox", "exec", "db", "cat", path)["stdout"])


def test_a_sandbox_without_a_snapshot_says_how_to_make_one(tb: Run, db: str) -> None:
    refused = tb("sandbox", "restore", "db")
    assert (refused.code, refused["error"]["message"]) == (1, "sandbox db has no snapshot yet")
    assert refused["error"]["hint"] == "`takeback sandbox snapshot db` makes one"


@pytest.mark.long
def test_a_snapshot_starts_another_sandbox_also_when_its_own_is_gone(tb: Run, db: str) -> None:
    tb("sandbox", "exec", "db", "echo kept > file")
    tb("sandbox", "snapshot", "--name", "good", "db")
    tb("sandbox", "rm", "--yes", "db")
    made = tb("sandbox", "create", "--snapshot", "good", "--name", "again")
    assert made.code == 0, made.text
    assert tb("sandbox", "exec", "again", "cat", "file")["stdout"] == "kept\n"
    assert tb("sandbox", "create", "--snapshot", "none").error == "snapshot-not-found"


def test_a_step_is_tried_and_the_printed_command_takes_it_back(tb: Run, db: str) -> None:
    tb("sandbox", "exec", "db", "echo old > file; echo x > gone")
    failed = tb("sandbox", "try", "--verify", "echo checked; false", "db", "--", "sh", "-c", "echo new > file")
    assert (failed.code, failed["passed"], failed["sandbox"]["id"]) == (1, False, db)
    assert "checked" in failed["log"] and failed["undo_with"] is None and read(tb, "file") == "old\n"
    assert tb("sandbox", "snapshots")["snapshots"] == []

    step = "echo new > file; rm gone; touch \"$(printf 'a\\377')\""
    passed = tb("sandbox", "try", "--verify", "grep new file", "db", step)
    assert (passed.code, passed["passed"]) == (0, True) and passed["sandbox"]["id"] != db
    assert [entry["path"] for entry in passed["diff"]["changed"]] == ["/workspace/file"]
    assert [entry["path_b64"] for entry in passed["diff"]["added"]] == ["L3dvcmtzcGFjZS9h/w=="]
    assert passed["cost"]["totalMicros"] >= 0 and read(tb, "file") == "new\n"
    back = tb(*passed["undo_with"].split()[1:])
    assert back.code == 0 and read(tb, "file") == "old\n"
    assert tb(*back["undo_with"].split()[1:]).code == 0 and read(tb, "file") == "new\n"
    assert [one["name"] for one in tb("sandbox", "ls")["sandboxes"]] == ["db"]
    plain = tb("sandbox", "try", "db", "echo seen", as_json=False)
    assert b"seen\n" in plain.out and b"Take this back with: takeback sandbox restore db " in plain.err


def test_snapshots_are_taken_drawn_compared_and_removed(tb: Run, db: str) -> None:
    taken = tb("sandbox", "snapshot", "db", "--name", "before", "--days", "7")["snapshot"]
    tb("sandbox", "exec", "db", "echo one > file")
    assert tb("sandbox", "diff", "db", as_json=False).out.decode().splitlines()[0] == "A        4 B  /workspace/file"
    assert tb("sandbox", "diff", "before", "db")["totals"] == {"added": 0, "changed": 0, "deleted": 1}
    copy = tb("sandbox", "fork", "db", "--name", "copy", "--offline")["sandboxes"][0]
    assert copy["name"] == "copy"
    tree = tb("sandbox", "snapshots", "tree", as_json=False).out.decode()
    assert "before" in tree and "copy" in tree and "└─ " in tree
    assert tb("sandbox", "snapshots", "list", "copy")["snapshots"] == []
    assert tb("sandbox", "restore", "db")["snapshot"] == taken["id"]
    assert tb("sandbox", "cost", "db")["cost"]["cpuSeconds"] > 0
    assert "total" in tb("sandbox", "cost", "db", as_json=False).text
    machines = tb("du")["machines"]
    assert machines["snapshots"] > 0 and machines["snapshotCount"] == 2 and machines["total"] > machines["snapshots"]
    assert tb("sandbox", "snapshots", "rm", "before")["removed"] == [taken["id"]]
    assert tb("sandbox", "restore", "db", "before").error == "snapshot-not-found"
    assert tb("sandbox", "snapshots", "rm").code == 2


@pytest.mark.long
def test_a_limit_refuses_a_snapshot_before_anything_stops(tb: Run, machines: Home, db: str) -> None:
    settings = Path(machines.extra.get("XDG_CONFIG_HOME", machines.path)) / "takeback" / "config.toml"
    settings.parent.mkdir(parents=True, exist_ok=True)
    settings.write_text('[machines]\nstored = "1k"\n[prices]\ncpu_hour = 3600000000\n')
    env = {"XDG_CONFIG_HOME": str(settings.parent.parent)}
    refused = tb("sandbox", "snapshot", "db", env=env)
    assert refused.error == "stored-limit" and tb("sandbox", "snapshots")["snapshots"] == []
    cost = tb("sandbox", "cost", "db", env=env)["cost"]
    assert cost["cpuMicros"] == pytest.approx(cost["cpuSeconds"] * 1e6, rel=0.01)
    assert tb("du", env=env)["machines"]["limit"] == 1024
    settings.write_text("[machines]\nstorage = 1\n")
    assert tb("sandbox", "ls", env=env).error == "bad-setting"


def test_a_chain_is_remembered_shown_and_gone_back_in(tb: Run, machines: Home, db: str) -> None:
    for number in (1, 2, 3):
        tb("sandbox", "exec", "db", f"echo {number} >> steps")
        made = tb("chain", "remember", "db", f"step {number}")
        assert (made.code, made["step"]["number"], made["step"]["here"]) == (0, number, True)
    back = tb("chain", "back", "db", "1")
    assert back["step"]["step"] == "step 1" and read(tb, "steps") == "1\n"
    assert tb("chain", "show", "db", as_json=False).out.decode() == "1 step 1  <- here\n2 step 2\n3 step 3\n"
    assert tb(*back["undo_with"].split()[1:]).code == 0 and read(tb, "steps") == "1\n2\n3\n"
    assert [step["here"] for step in tb("chain", "show", "db")["steps"]] == [False, False, True]
    assert tb("chain", "back", "db", "step 2").code == 0 and read(tb, "steps") == "1\n2\n"
    assert tb("chain", "back", "db", "9").error == "step-not-found"
    assert len(tb("chain", "drop", "db", "2")["removed"]) == 1
    code, shown = on_terminal(machines, machines.path, "chain", "remember", "db", "from a terminal", answer=b"")
    assert code == 0 and "Go back to it with: takeback chain back db 4" in shown and " s\n4 from" in shown
    assert len(tb("chain", "drop", "--yes", "db")["removed"]) == 3
    assert tb("chain", "drop", "db").error == "nothing-to-do"
    assert tb("chain", "shw", "db").code == 2


@pytest.mark.long
def test_what_cannot_be_saved_first_is_given_up_only_when_asked_to(tb: Run, db: str, machines: Home) -> None:
    tb("sandbox", "exec", "db", "echo old > file")
    tb("sandbox", "snapshot", "db", "--name", "good")
    hold = "echo new > file; (exec 3>held; rm held; exec setsid sleep 1000) >/dev/null 2>&1 & sleep 0.2"
    assert tb("sandbox", "exec", "db", hold).code == 0
    refused = tb("sandbox", "restore", "db", "good")
    assert (refused.code, refused["error"]["kind"]) == (1, "cannot-save-first")
    assert "--no-undo" in refused["error"]["hint"] and read(tb, "file") == "new\n"
    done = tb("sandbox", "restore", "--no-undo", "db", "good")
    assert (done.code, done["undo_with"]) == (0, None) and read(tb, "file") == "old\n"

    for path in (machines.data / "machines" / "sandboxes").rglob("engine.json"):
        os.kill(json.loads(path.read_bytes())["current"]["sandbox"][0], signal.SIGKILL)
    until = time.monotonic() + 20
    while tb("sandbox", "ls")["sandboxes"][0]["state"] != "stopped":
        assert time.monotonic() < until
    assert tb("sandbox", "wake", "db")["sandboxes"][0]["state"] == "running" and read(tb, "file") == "old\n"
