"""Commit hooks that do more than accept or refuse: commits of their own, messages rewritten, programs left running."""

from __future__ import annotations

import os
import signal
import time

import pytest

from tests.support.cli import Project
from tests.tasks.shop import log, nothing_left, task, tip, trailers


def _hook(shop: Project, name: str, source: str) -> None:
    shop.write(f".git/hooks/{name}", f"#!/bin/sh\n{source}\n", mode=0o755)


_MORE = "test -f VERSION && exit; echo 1 > VERSION; git add VERSION; git commit -qm bump"
_MERGE = (
    "test -f .git/merged && exit; git rev-parse -q --verify HEAD^2 && exit; other=$(git commit-tree -m o HEAD^{tree});"
    " git update-ref HEAD $(git commit-tree -m m -p HEAD^ -p $other HEAD^{tree})"
)


@pytest.mark.parametrize("source", [_MORE, pytest.param(_MERGE, marks=pytest.mark.long)], ids=["second", "merge"])
def test_a_hook_that_commits_more_is_a_failed_landing(shop: Project, source: str) -> None:
    _hook(shop, "post-commit", source)
    done = task(shop, "x", "touch a", "--attempts", "1", check=False)
    assert [one["outcome"] for one in done["attempts"]] == ["refused-by-hook"]
    assert "more than the one commit" in done["reason"] and tip(shop, "takeback/x") == ""
    nothing_left(shop)


@pytest.mark.long
def test_a_hook_that_commits_more_here_leaves_the_branch_where_it_was(shop: Project) -> None:
    _hook(shop, "post-commit", _MORE)
    before = tip(shop, "main")
    done = task(shop, "x", "touch a", "--here", "--attempts", "1", check=False)
    assert (done["outcome"], tip(shop, "main"), shop.git("status", "--porcelain")) == ("failed", before, b"")


@pytest.mark.long
def test_a_hook_that_commits_more_when_a_task_is_reverted_changes_nothing(shop: Project) -> None:
    task(shop, "x", "touch a")
    _hook(shop, "post-commit", _MORE)
    before = tip(shop, "takeback/x")
    done = shop.tb("revert", "x", check=False)
    assert (done.code, done.error, tip(shop, "takeback/x")) == (1, "revert-refused", before)
    nothing_left(shop)


_STRIPS = 'head -1 "$1" > m; echo >> m; echo "Checked: yes" >> m; cat m > "$1"; rm m'
_APPENDS = "printf '\\nSeen by a hook.\\n' >> \"$1\""
_FORGES = 'sed -i "s/^Task-Id: .*/Task-Id: other/" "$1"'
_DOUBLES = "printf 'Task-Id: other\\n' >> \"$1\""


@pytest.mark.parametrize(
    ("source", "kept"),
    [
        (_STRIPS, "Checked: yes"),
        pytest.param(_APPENDS, "Seen by a hook.", marks=pytest.mark.long),
        pytest.param(_FORGES, "Do x", marks=pytest.mark.long),
        pytest.param(_DOUBLES, "Do x", marks=pytest.mark.long),
    ],
    ids=["strips", "appends", "forges", "doubles"],
)
def test_a_hook_that_rewrites_the_message_does_not_take_the_tasks_name_away(
    shop: Project, source: str, kept: str
) -> None:
    _hook(shop, "commit-msg", source)
    done = task(shop, "x", "touch a")
    assert log(shop, "takeback/x") == ["Do x", "first"]
    found = trailers(shop, done["commit"])
    assert (found["Task-Id"], found["Task-Attempt"]) == ("x", "1") and found["Task-Checkpoint"]
    message = shop.git("log", "-1", "--format=%B", done["commit"]).decode()
    assert kept in message and message.count("Task-Id") == 1
    # Found also where its commit has another name.
    shop.git("switch", "-q", "takeback/x")
    shop.git("commit", "-q", "--amend", "--no-edit", "--no-verify", "--date=2001-01-01T00:00:00Z")
    assert shop.tb("revert", "x")["outcome"] == "reverted"


def test_what_a_hook_leaves_running_is_not_waited_for(shop: Project) -> None:
    _hook(shop, "pre-commit", f"echo said; sleep 120 & echo $! >> {shop.home.path}/pids")
    began = time.monotonic()
    done = task(shop, "x", "touch a")
    assert shop.tb("revert", done["id"])["outcome"] == "reverted"
    spent = time.monotonic() - began
    for pid in (shop.home.path / "pids").read_text().split():
        os.kill(int(pid), signal.SIGTERM)  # each is there still
    assert spent < 120
