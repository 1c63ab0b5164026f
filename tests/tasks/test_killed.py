"""kill -9 of takeback at every step of a task, then `task resume`: nothing lands twice, no evidence is lost.

Does not cover: the loss of power, which also loses writes that were made.
"""

from __future__ import annotations

import os
import random
import time
from pathlib import Path

import pytest

from tests.faults.killing import Killer, World
from tests.support.cli import PATIENCE, Account, Project
from tests.support.content import new_home
from tests.tasks import shop as shops
from tests.tasks.shop import events, folder, log, nothing_left, show, task, tip

_KILL = "kill -9 $PPID; sleep 0.2"
# Goes by the tree, so that it comes to the same however often it was cut short.
_SCRIPT = (
    "echo junk >> log.db; if test -f tried; then rm -f broken; echo done > result; else touch broken; echo > tried; fi"
)


def evidence_is_there(project: Project, id: str) -> None:
    (store,) = project.home.data.glob("projects/*/store.git")
    refs = project.home.git(store, "for-each-ref", "--format=%(refname)").decode().split()
    saved = [event for event in events(project, id) if event["event"] == "saved"]
    assert len({event["ref"] for event in saved}) == len(saved)
    for event in saved:
        assert event["ref"] in refs and Path(event["diff"]).is_file()


def test_killed_while_the_agent_runs_its_work_is_saved_and_the_attempt_given_back(shop: Project) -> None:
    before = shop.moment()
    script = f"if test -f half; then cat half; touch whole; else echo half > half; sleep 300 & {_KILL}; sleep 300; fi"
    assert task(shop, "x", script, "--attempts", "1", check=False).code == -9
    assert [one["outcome"] for one in shop.tb("tasks")["tasks"]] == ["interrupted"]
    assert shop.tb("undo", "--task", "x", check=False).code == 1
    assert "takeback task resume x" in task(shop, "x", "true", check=False)["error"]["hint"]
    done = shop.tb("task", "resume", "x")
    assert done["outcome"] == "landed"
    assert [(one["outcome"], one["refunded"]) for one in done["attempts"]] == [("interrupted", True), ("passed", False)]
    assert show(shop, done["commit"], "half") == b"half\n"
    assert [one for one in before.changes() if "takeback/x" not in one] == []
    evidence_is_there(shop, "x")
    nothing_left(shop)
    left = [path for path in Path("/proc").glob("[0-9]*/environ") if _mentions(path, str(folder(shop, "x")))]
    assert left == []


def _mentions(path: Path, text: str) -> bool:
    try:
        return text.encode() in path.read_bytes()
    except OSError:
        return False


def test_killed_while_a_check_runs_the_saved_attempt_is_judged_again(shop: Project) -> None:
    check = f"test ! -f work || test -f ../../killed || {{ touch ../../killed; {_KILL}; }}"
    assert task(shop, "x", "touch work", "--verify", check, "--attempts", "1", check=False).code == -9
    done = shop.tb("task", "resume", "x")
    assert (done["outcome"], [one["outcome"] for one in done["attempts"]]) == ("landed", ["passed"])
    assert log(shop, "takeback/x") == ["Do x", "first"]


def test_killed_by_a_commit_hook_it_lands_once(shop: Project) -> None:
    marker = shop.home.path / "killed"
    kill = "kill -9 $(ps -o ppid= -p $PPID)"
    hook = f"#!/bin/sh\ntest -f {marker} || {{ touch {marker}; {kill}; sleep 0.3; }}\n"
    shop.write(".git/hooks/pre-commit", hook, mode=0o755)
    assert task(shop, "x", "touch work", check=False).code == -9
    done = shop.tb("task", "resume", "x")
    assert (done["outcome"], log(shop, "takeback/x")) == ("landed", ["Do x", "first"])
    nothing_left(shop)


@pytest.mark.long
def test_a_task_that_is_worked_on_cannot_be_resumed_by_another(shop: Project) -> None:
    other = f"{shop.home.python[0]} -m takeback --project {shop.root} task resume x --json > said; true"
    done = task(shop, "x", f"cd ../..; {other}", "--attempts", "1", check=False)
    assert done["outcome"] == "failed"  # it changed nothing
    assert '"kind": "busy"' in (folder(shop, "x") / "said").read_text()


def test_here_killed_half_way_the_tree_goes_back_exactly(shop: Project) -> None:
    before = shop.moment()
    script = (
        f"test -f ../killed || {{ touch ../killed; echo x > app.py; echo y > .env; {_KILL}; sleep 9; }}; touch broken"
    )
    assert task(shop, "x", script, "--here", "--attempts", "1", check=False).code == -9
    done = shop.tb("task", "resume", "x", check=False)
    assert [one["outcome"] for one in done["attempts"]] == ["interrupted", "failed"]
    assert before.changes() == []


@pytest.mark.long
def test_interrupted_by_a_person_the_agent_is_ended_and_the_task_goes_on_later(shop: Project) -> None:
    script = "test -f ready && { touch done; exit; }; touch ready; kill -INT $PPID; sleep 300"
    done = task(shop, "x", script, check=False)
    assert done.code == 130 and "takeback task resume" in done.text
    assert shop.tb("task", "resume", "x")["outcome"] == "landed"


@pytest.fixture
def world(tmp_path: Path) -> World:
    top = tmp_path / "world"
    top.mkdir()
    home = new_home(top / "home", Account(os.environ.get("USER", "somebody"), top / "home"))
    return World(home, shops.make(home, top / "shop"), top, tmp_path / "saved")


@pytest.mark.long
@pytest.mark.parametrize("here", [False, True])
def test_killed_at_any_write_and_resumed_it_lands_once(world: World, tmp_path: Path, here: bool) -> None:
    project = world.project
    killer = Killer(world.home, tmp_path)
    where = ("--here",) if here else ()
    words = ("task", "run", "--id", "x", "--prompt", "Do x", "--verify", shops.CHECK, *where, "--", "sh", "-c", _SCRIPT)
    branch = "main" if here else "takeback/x"
    world.save()
    killer.count(project, *words)
    points = killer.different()
    assert len(points) > 100
    before_env = b"TOKEN=1\n"
    for at in random.Random(1).sample(points, 25):
        world.again()
        where_killed = killer.kill(project, at, *words)
        _quiet(world.top)
        again = project.tb("task", "resume", "x", check=False)
        if again.error == "unknown-id":  # it died before there was a task
            again = project.tb(*words)
        elif again.error == "nothing-to-do":
            again = project.tb("show", "t:x")
        assert again["outcome"] == "landed", (at, where_killed, again.text)
        assert log(project, branch) == ["Do x", "first"], (at, where_killed)
        changed = project.git("show", "--name-only", "--format=", branch).decode().split()
        assert changed == ["result", "tried"], (at, where_killed)
        assert project.read(".env") == before_env
        evidence_is_there(project, "x")
        nothing_left(project)
        assert project.tb("revert", "x")["outcome"] == "reverted"
        assert tip(project, branch)


def _quiet(top: Path) -> None:
    """Wait for processes that a killed takeback left at work below a folder; git is to finish alone."""
    until = time.monotonic() + PATIENCE
    while any(_below(path, str(top)) for path in Path("/proc").glob("[0-9]*/cwd")):
        assert time.monotonic() < until
        time.sleep(0.01)


def _below(path: Path, top: str) -> bool:
    try:
        return os.readlink(path).startswith(top)
    except OSError:
        return False
