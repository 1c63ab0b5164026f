"""A worktree whose own parts of git the agent broke: the attempt is saved and judged like any other.

Does not cover: a repository that is broken itself.
"""

from __future__ import annotations

import pytest

from tests.support.cli import Project
from tests.tasks.shop import CHECK, events, folder, log, nothing_left, show, task

_COMMON = "R=$(git rev-parse --git-common-dir); D=$PWD"
_BROKEN = {
    "no .git": "rm .git",
    "a repository of its own": "rm .git; git init -q; git add -A; git commit -qm own",
    "a folder": "rm .git; mkdir .git",
    "a link to nothing": "rm .git; ln -s /nowhere .git",
    "the user's repository": f"{_COMMON}; echo gitdir: $R > .git",
    "pruned": f"{_COMMON}; mv .git ../x; git --git-dir=$R worktree prune --expire=now; mv ../x .git",
    "HEAD is junk": "echo junk > $(git rev-parse --git-path HEAD)",
    "HEAD is of no commit": "git checkout -q --orphan none",
    "HEAD is gone": "rm $(git rev-parse --git-path HEAD)",
    "the index is junk": "echo junk > $(git rev-parse --git-path index)",
    "the index is gone": "rm $(git rev-parse --git-path index)",
    "commondir is junk": "echo /nowhere > $(git rev-parse --git-dir)/commondir",
    "its files are elsewhere": "git config extensions.worktreeConfig true; git config --worktree core.worktree /tmp",
}
_ORDINARY = ("a repository of its own", "the index is junk")


@pytest.mark.parametrize(
    "broken", [name if name in _ORDINARY else pytest.param(name, marks=pytest.mark.long) for name in _BROKEN]
)
def test_what_an_agent_does_to_its_worktrees_git_keeps_nothing_from_its_end(shop: Project, broken: str) -> None:
    shop.write("kept.db", "in spite of .gitignore")
    shop.git("add", "-f", "kept.db")
    shop.git("commit", "-qm", "kept")
    before = shop.moment()
    done = task(shop, "x", f"echo 1 > one; {_BROKEN[broken]}", "--attempts", "1", "--allow", "outside", check=False)
    assert done["outcome"] == "landed", done.text
    assert log(shop, "takeback/x") == ["Do x", "kept", "first"]
    assert shop.git("show", "--name-only", "--format=", done["commit"]) == b"one\n"
    assert done["revertible"], done["revert_reason"]
    changed = [one for one in before.changes() if "takeback/x" not in one]
    assert changed == [] or broken == "its files are elsewhere"
    assert b"+1" in (folder(shop, "x") / "attempt-1.diff").read_bytes()
    nothing_left(shop)


_REMOVED = {
    "by rm": "cd /; rm -rf $D",
    "by git": "cd /; git -C $D worktree remove --force $D",
    "and pruned": "cd /; rm -rf $D; git --git-dir=$R worktree prune --expire=now",
    "and a file is there": "cd /; rm -rf $D; touch $D",
}


@pytest.mark.parametrize(
    "how", [name if name == "by git" else pytest.param(name, marks=pytest.mark.long) for name in _REMOVED]
)
def test_an_agent_that_removes_its_worktree_has_failed_and_may_try_again(shop: Project, how: str) -> None:
    before = shop.moment()
    done = task(shop, "x", f"{_COMMON}; echo 1 > one; {_REMOVED[how]}", "--attempts", "2", check=False)
    assert (done.code, done["outcome"]) == (1, "failed"), done.text
    assert [one["outcome"] for one in done["attempts"]] == ["flagged", "flagged"]
    assert "removed the task's tree" in done["reason"]
    assert before.changes() == []
    nothing_left(shop)
    again = f"{_COMMON}; echo $ATTEMPT > one; test $ATTEMPT = 2 || {{ {_REMOVED[how]}; }}"
    done = task(shop, "y", again)
    assert (done["outcome"], show(shop, done["commit"], "one")) == ("landed", b"2\n")


def test_a_worktree_broken_while_takeback_was_ended_is_repaired_by_resume(shop: Project) -> None:
    script = "test -f half && { touch whole; exit; }; touch half; rm .git; git init -q; kill -9 $PPID; sleep 300"
    assert task(shop, "x", script, check=False).code == -9
    done = shop.tb("task", "resume", "x")
    assert shop.git("show", "--name-only", "--format=", done["commit"]).decode().split() == ["half", "whole"]
    nothing_left(shop)


@pytest.mark.parametrize("where", [".", pytest.param("$(git rev-parse --git-common-dir)", marks=pytest.mark.long)])
def test_git_gc_takes_nothing_a_task_needs(shop: Project, where: str) -> None:
    shop.write(".takeback.toml", '[task]\nsetup = "echo made > by-setup"\n')
    shop.git("add", "-A")
    shop.git("commit", "-qm", "settings")
    gc = f"git -C {where} gc -q --prune=now"
    script = f"echo $ATTEMPT > work-$ATTEMPT; {gc}"
    done = task(shop, "x", script, "--verify", f"{gc}; test ! -f work-1 || test -f work-2")
    assert [one["outcome"] for one in done["attempts"]] == ["failed", "passed"], done.text
    assert shop.git("show", "--name-only", "--format=", done["commit"]).decode().split() == ["work-1", "work-2"]
    assert b"refs/worktree" not in shop.git("for-each-ref")


@pytest.mark.long
def test_a_repository_that_lost_the_tree_an_attempt_began_with_fails_it_with_a_reason(shop: Project) -> None:
    shop.write(".takeback.toml", '[task]\nsetup = "echo made > by-setup"\n')
    shop.git("add", "-A")
    shop.git("commit", "-qm", "settings")
    gone = "git update-ref -d $(git for-each-ref --format='%(refname)' refs/worktree); git gc -q --prune=now"
    done = task(shop, "x", f"echo 1 > one; {gone}", "--attempts", "1", check=False)
    assert (done["outcome"], done["flags"]) == ("failed", ["left-out"])
    assert [event["event"] for event in events(shop, "x")][-1] == "ended"


def test_an_agent_without_its_git_finds_no_repository_around_takebacks_data(shop: Project) -> None:
    around = shop.home.path
    shop.home.git(around, "init", "-q")
    commit = "git add -A && git commit -qm own"
    done = task(shop, "x", f"echo 1 > one; rm .git; {commit}; true", "--verify", CHECK)
    assert log(shop, "takeback/x") == ["Do x", "first"] and done["outcome"] == "landed"
    assert shop.home.git(around, "for-each-ref") == b""
