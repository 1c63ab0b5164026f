"""The fingerprints see every kind of difference, and taking one changes nothing."""

from __future__ import annotations

import os

import pytest

from tests.support import gitstate, tree
from tests.support.cli import Project
from tests.support.content import make_dirty

CHANGES = [
    "echo x >> README.md",
    "rm README.md",
    "chmod 4755 bin/run.sh",
    "touch src/app.py",
    "touch -h link-dangling",
    "ln -sfn docs link-to-file",
    "rmdir empty",
    "mkdir another",
    "mkfifo pipe",
    "rm docs/*; ln -s x docs/größe.md",
]

GIT_CHANGES = [
    "git add -A",
    "git update-index --assume-unchanged CHANGES",
    "git update-index --skip-worktree CHANGES",
    "git add -N untracked.txt",
    "git branch new",
    "git branch -D topic",
    "git commit -q --allow-empty -m x",
    "git checkout -q --detach",
    "git stash -q -m words",
    "git symbolic-ref HEAD refs/heads/topic",
    "echo x > .git/MERGE_MSG",
    "git config a.b c",
    "echo x > .git/hooks/pre-push",
    "echo x >> .git/info/exclude",
]


@pytest.mark.parametrize("change", CHANGES)
def test_every_change_of_the_tree_is_seen(plain: Project, change: str) -> None:
    then = plain.moment()
    assert then.changes() == []
    plain.sh(change)
    assert then.changes() != []


@pytest.mark.parametrize("change", GIT_CHANGES)
def test_every_change_of_the_git_state_is_seen(repo: Project, change: str) -> None:
    make_dirty(repo)
    then, raw = repo.git_state(), repo.git_raw()
    repo.sh(change)
    assert gitstate.difference(then, repo.git_state()) != []
    assert gitstate.raw_difference(raw, repo.git_raw()) != []


def test_asking_for_the_git_state_changes_no_byte_of_the_git_directory(repo: Project) -> None:
    make_dirty(repo)
    os.utime(repo.at("CHANGES"))
    raw = repo.git_raw()
    repo.git_state()
    assert gitstate.raw_difference(raw, repo.git_raw()) == []


def test_a_difference_names_the_path_and_what_changed(plain: Project) -> None:
    before = plain.tree()
    plain.sh("chmod 600 src/app.py; rm keys/id; echo > new")
    lines = tree.difference(before, plain.tree())
    assert "b'src/app.py': mode 0644 -> 0600" in lines
    assert "b'keys/id': is gone (was a file)" in lines
    assert "b'new': appeared (file)" in lines
