"""Rows 11, 18, 25 and 28: commits, the index, refs and the stash; the order of undo and redo.

Does not cover: hooks and signing (see test_rows_processes).
"""

from __future__ import annotations

import re

import pytest

from tests.support import tree
from tests.support.cli import Project
from tests.support.content import make_dirty

row = pytest.mark.row


# Row 11: a commit after the checkpoint.


@row(11)
@pytest.mark.parametrize("message", ["commit -qam by-agent", "commit -q --amend -am amended"])
def test_a_restore_moves_neither_head_nor_branch_and_keeps_the_commit(repo: Project, message: str) -> None:
    kept = repo.checkpoint()
    repo.write("src/app.py", "the agent's work\n")
    repo.git(*message.split())
    refs, head = repo.git("for-each-ref"), repo.git("rev-parse", "HEAD")
    repo.tb("restore", kept)
    assert repo.git("for-each-ref") == refs and repo.git("rev-parse", "HEAD") == head
    assert repo.git("symbolic-ref", "HEAD") == b"refs/heads/main\n"
    assert repo.git("show", "HEAD:src/app.py") == b"the agent's work\n"


@row(11)
def test_a_restore_puts_the_files_back_over_a_later_commit(repo: Project) -> None:
    kept = repo.checkpoint()
    files = repo.tree()
    repo.sh("rm -r keys; echo x > src/app.py; git add -A; git commit -qm work; git switch -q -c other")
    repo.tb("restore", kept)
    assert tree.difference(files, repo.tree()) == []
    assert repo.git("symbolic-ref", "HEAD") == b"refs/heads/other\n"


@row(11)
def test_refs_move_back_only_when_asked_and_the_commit_stays_reachable_in_the_store(repo: Project) -> None:
    make_dirty(repo)
    kept = repo.checkpoint()
    then = repo.moment()
    repo.sh("echo x > src/app.py; git commit -qam work; git tag -d light; git branch -D topic; git branch fresh")
    tip = repo.git("rev-parse", "HEAD").strip().decode()
    done = repo.tb("restore", kept, "--refs")
    assert then.changes() == []
    store = next(repo.home.data.glob("projects/*/store.git"))
    assert tip in repo.home.git(store, "rev-list", "--all").decode().split()
    repo.take_back(done)
    assert repo.git("rev-parse", "HEAD").strip().decode() == tip
    assert repo.git("branch", "--list", "fresh", "topic").split() == [b"fresh"]


# Row 18: staged and unstaged.


def half_staged(project: Project) -> None:
    """One file with a staged and an unstaged hunk, and every other mix of index and tree."""
    make_dirty(project)
    project.write("intent.txt", "to be added\n")
    project.git("add", "-N", "intent.txt")
    project.git("update-index", "--chmod=+x", "CHANGES")
    project.git("rm", "-q", "--cached", "keys/id")
    project.git("update-index", "--assume-unchanged", "data/blob.bin")
    project.git("update-index", "--skip-worktree", "bin/run.sh")


def conflicted(project: Project) -> None:
    """An unfinished merge with a conflict in one file and a clean merge in another."""
    project.sh(
        "git switch -q -c left; echo left > README.md; echo l > l.txt; git add -A src README.md l.txt;"
        "git commit -qm left; git switch -q main; echo right > README.md; git commit -qam right; git merge left; true"
    )
    assert project.exists(".git/MERGE_HEAD")


def picking(project: Project) -> None:
    """An unfinished cherry-pick."""
    project.sh(
        "git switch -q -c left; echo left > README.md; git commit -qam left; git switch -q main;"
        "echo right > README.md; git commit -qam right; git cherry-pick left; true"
    )
    assert project.exists(".git/CHERRY_PICK_HEAD")


def rebasing(project: Project) -> None:
    """An unfinished rebase, stopped at a conflict."""
    project.sh(
        "git switch -q -c left; echo left > README.md; git commit -qam left; echo 2 > two; git add two;"
        "git commit -qm two; git switch -q main; echo right > README.md; git commit -qam right;"
        "git switch -q left; git rebase main; true"
    )
    assert project.exists(".git/rebase-merge")


@row(18)
@pytest.mark.parametrize("prepare", [half_staged, conflicted, picking, rebasing])
@pytest.mark.parametrize(
    "wreck", ["git add -A", "git reset -q", "git rm -rqf --cached .", "rm .git/index", "git stash"]
)
def test_the_index_comes_back_exactly_with_a_restore(repo: Project, prepare: object, wreck: str) -> None:
    prepare(repo)  # type: ignore[operator]
    kept = repo.checkpoint()
    then = repo.moment()
    repo.sh(f"echo damage >> README.md; rm -r docs data; {wreck}; true")
    repo.tb("restore", kept, "--refs")
    assert then.changes() == []


@row(18)
@pytest.mark.parametrize("prepare", [half_staged, conflicted, picking, rebasing])
@pytest.mark.parametrize(
    "wreck",
    ["git add -A", "git reset -q", "git reset -q --hard", "git commit -qam x", "git stash -u", "git checkout -f"],
)
def test_the_index_comes_back_exactly_with_an_undo(repo: Project, prepare: object, wreck: str) -> None:
    prepare(repo)  # type: ignore[operator]
    then = repo.moment()
    repo.step(f"echo damage >> README.md; {wreck}; true")
    repo.tb("undo")
    assert then.changes() == []


@row(18)
def test_a_staged_and_an_unstaged_hunk_of_one_file_stay_apart_when_another_file_is_restored(repo: Project) -> None:
    half_staged(repo)
    kept = repo.checkpoint()
    repo.write("CHANGES", "x\n")
    cached, worktree = repo.git("diff", "--cached", "src/app.py"), repo.git("diff", "src/app.py")
    assert cached and worktree
    repo.tb("restore", kept, "CHANGES")
    assert (repo.git("diff", "--cached", "src/app.py"), repo.git("diff", "src/app.py")) == (cached, worktree)


# Row 25: undo, undo, redo, new work.


def content(project: Project) -> tuple[bool, bool, bool]:
    return project.exists("one"), project.exists("two"), project.exists("three")


@row(25)
def test_undo_and_undo_goes_back_two_and_redo_walks_forward(repo: Project) -> None:
    moments = [repo.moment()]
    for name in ("one", "two", "three"):
        repo.step(f"echo {name} > {name}; echo {name} >> README.md")
        moments.append(repo.moment())
    for back in (2, 1, 0):
        repo.tb("undo")
        assert moments[back].changes() == []
    beyond = repo.tb("undo", check=False)
    assert beyond.code == 1 and beyond.error == "nothing-to-do"
    for forward in (1, 2, 3):
        repo.tb("redo")
        assert tree.difference(tree.without_times(moments[forward].files), tree.without_times(repo.tree())) == []
    assert repo.tb("redo", check=False).error == "nothing-to-do"


@row(25)
def test_new_work_ends_the_redo_line_and_what_it_held_can_still_be_had(repo: Project) -> None:
    repo.step("echo one > one")
    repo.step("echo two > two")
    lost = repo.tb("undo")
    repo.step("echo three > three")
    assert content(repo) == (True, False, True)
    refused = repo.tb("redo", check=False)
    assert refused.code == 1 and refused.error == "nothing-to-do"
    assert content(repo) == (True, False, True)
    repo.tb("undo")
    assert content(repo) == (True, False, False)
    repo.tb("undo")
    assert content(repo) == (False, False, False)
    repo.tb("restore", lost["checkpoint"])
    assert repo.read("two") == b"two\n"


@row(25)
@pytest.mark.long
def test_undo_redo_undo_redo_never_drifts(repo: Project) -> None:
    before = repo.moment()
    repo.step("echo x >> README.md; rm -r keys; mkdir new; git add -A; git commit -qm x")
    after = repo.moment(root_time=False)
    for _ in range(3):
        repo.tb("undo")
        assert before.changes() == []
        repo.tb("redo")
        assert tree.difference(tree.without_times(after.files), tree.without_times(repo.tree(root_time=False))) == []
        assert repo.git_state() == after.git


@row(25)
def test_the_log_keeps_every_event_and_undo_names_no_ghost_paths(repo: Project) -> None:
    step = repo.step("echo x > x")
    repo.tb("undo")
    repo.tb("redo")
    repo.tb("undo")
    text = repo.tb("log").text
    assert step in text
    assert len(re.findall(r'"kind": "undo"', text)) == 2 and len(re.findall(r'"kind": "redo"', text)) == 1
    assert repo.git("status", "--porcelain", "x") == b""
    assert repo.git("ls-files", "x") == b""


@row(25)
def test_a_restore_is_undone_by_undo_and_the_next_undo_goes_on_before_it(repo: Project) -> None:
    repo.step("echo one > one")
    kept = repo.checkpoint()
    repo.step("echo two > two")
    then = repo.moment()
    repo.tb("restore", kept)
    assert content(repo) == (True, False, False)
    repo.tb("undo")
    assert then.changes() == []
    repo.tb("undo")
    assert content(repo) == (True, False, False)
    repo.tb("undo")
    assert content(repo) == (False, False, False)


# Row 28: steps that are git commands.

GIT_STEPS = {
    "reset --hard": "git reset -q --hard",
    "reset --hard back": "git reset -q --hard HEAD~2",
    "reset --soft": "git reset -q --soft HEAD~1",
    "reset --mixed": "git reset -q HEAD~1",
    "branch -D": "git branch -q -D topic",
    "branch -f": "git branch -f topic main",
    "branch -m": "git branch -m topic renamed; git branch -m trunk",
    "tag -d": "git tag -d light v1",
    "tag -f": "git tag -f light HEAD~1; git tag -f -a -m other v1 HEAD~1",
    "stash drop": "git stash drop -q",
    "stash drop in the middle": "git stash drop -q stash@{1}",
    "stash clear": "git stash clear",
    "stash pop": "git checkout -qf; git stash pop -q",
    "stash push": "git stash push -q -u -m more",
    "rebase": "git stash -q; git rebase -q --onto HEAD~2 HEAD~1 topic",
    "rebase stopped half-way": "git stash -q; git switch -q topic; echo c > CHANGES; git add CHANGES; git commit -qm c;"
    " git rebase main; true",
    "commit": "git commit -qam work",
    "commit --amend": "git commit -q --amend -am amended",
    "switch": "git stash -q; git switch -q topic",
    "checkout --detach": "git checkout -q --detach",
    "checkout -f": "git checkout -qf topic",
    "checkout -- .": "git checkout -q -- .",
    "checkout --orphan": "git checkout -q --orphan fresh",
    "restore": "git restore --staged --worktree .",
    "clean": "git clean -fdqx",
    "rm": "git rm -rqf src",
    "mv": "git mv bin words",
    "merge": "git stash -q; git merge -q topic -m merged",
    "merge stopped half-way": "git stash -q; git switch -q -c l HEAD~1; echo c > CHANGES; git add CHANGES;"
    " git commit -qm c; git merge main; true",
    "cherry-pick": "git stash -q; git cherry-pick topic",
    "revert": "git stash -q; git revert --no-edit HEAD",
    "update-ref -d": "git update-ref -d refs/heads/topic; git update-ref refs/odd/place HEAD",
    "symbolic-ref": "git symbolic-ref refs/heads/alias refs/heads/topic",
    "note": "git notes add -m noted HEAD",
    "filter-branch": "git stash -q; FILTER_BRANCH_SQUELCH_WARNING=1 git filter-branch -f --msg-filter 'tr a-z A-Z'"
    " main topic >/dev/null 2>&1",
    "expire and prune": "git branch -q -D topic; git stash clear; git reset -q --hard HEAD~1;"
    " git reflog expire --expire=now --all; git gc -q --prune=now",
    "pack-refs": "git pack-refs --all; git branch -q -D topic",
    "config": "git config user.name Somebody; git config --add remote.x.url /there; git config core.filemode false",
    "hooks": "mkdir -p .git/hooks; echo x > .git/hooks/pre-push; echo y >> .git/info/exclude",
    "everything": "git checkout -qf --detach; git for-each-ref --format='delete %(refname)' | git update-ref --stdin",
    "rm -rf .git": "rm -rf .git",
}


def with_stashes(project: Project) -> None:
    """Two stashes with messages, one of them with untracked files, and a dirty tree."""
    project.sh("echo stashed >> README.md; echo u > extra; git stash push -q -u -m 'first, with untracked'")
    project.sh("echo second >> src/app.py; git add src; echo unstaged >> src/app.py; git stash push -q -m second")
    project.git("restore", ".")
    make_dirty(project)


@row(28)
@pytest.mark.parametrize("name", GIT_STEPS)
def test_a_step_that_is_a_git_command_is_taken_back_with_refs_stash_and_index(repo: Project, name: str) -> None:
    with_stashes(repo)
    then = repo.moment()
    repo.step(GIT_STEPS[name])
    assert then.changes() != []
    repo.tb("undo", "--yes")
    assert then.changes() == []


@row(28)
def test_commits_that_were_pruned_come_back_whole(repo: Project) -> None:
    with_stashes(repo)
    then = repo.moment()
    repo.step(GIT_STEPS["expire and prune"])
    repo.tb("undo")
    assert then.changes() == []
    assert repo.git("fsck", "--full", "--strict", "--no-dangling") == b""
    assert repo.git("stash", "show", "-p", "stash@{1}") != b""
    assert b"on topic" in repo.git("log", "--oneline", "topic")


@row(28)
def test_a_branch_that_somebody_moved_on_after_the_step_is_left_and_named(repo: Project) -> None:
    step = repo.step("git branch -f topic main; echo x > x")
    repo.git("branch", "-f", "topic", "main~1")
    moved = repo.git("rev-parse", "topic")
    refused = repo.tb("undo", step, check=False)
    assert refused.code == 1 and "topic" in refused.text
    assert repo.exists("x")
    repo.tb("undo", step, "--partial", check=False)
    assert repo.git("rev-parse", "topic") == moved
    assert not repo.exists("x")
