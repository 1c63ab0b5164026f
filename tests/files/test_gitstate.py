"""Saving a repository's own state leaves every file of it as it was."""

from __future__ import annotations

import os

from tests.support import gitstate
from tests.support.cli import Project


def test_loose_objects_keep_their_mtime_when_a_checkpoint_would_write_the_same(repo: Project) -> None:
    repo.write("src/app.py", "other\n")
    repo.git("commit", "-q", "-a", "-m", "its trees are loose objects now")
    for folder, _, names in os.walk(repo.at(".git/objects")):
        for name in names:
            os.utime(os.path.join(folder, name), (1_000_000_000, 1_000_000_000))
    before = gitstate.raw(repo.root)
    repo.checkpoint()
    assert gitstate.raw_difference(before, gitstate.raw(repo.root)) == []


def test_a_pack_that_git_itself_made_younger_stays_so(repo: Project) -> None:
    repo.git("gc", "-q")
    repo.checkpoint()
    folder = repo.at(".git/objects/pack")
    for name in os.listdir(folder):
        os.utime(os.path.join(folder, name), (1_500_000_000, 1_500_000_000))
    repo.write("src/app.py", "other\n")
    repo.git("add", "src/app.py")
    before = gitstate.raw(repo.root)
    repo.checkpoint()
    assert gitstate.raw_difference(before, gitstate.raw(repo.root)) == []


def test_a_name_that_looks_like_an_option_is_only_a_name(repo: Project) -> None:
    repo.write("-r", "")
    repo.write("-x", "x\n")
    repo.git("add", "--", "-r", "-x")
    kept = repo.checkpoint()
    then = repo.moment()
    repo.git("rm", "-q", "--cached", "--", "-r", "-x")
    repo.git("update-index", "--add", "--", "-r")
    repo.git("update-index", "--assume-unchanged", "--", "-r")
    repo.tb("restore", kept)
    assert then.changes() == []
