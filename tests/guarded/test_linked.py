"""A linked worktree that loses its `.git`, or its folder in the repository, gets both back and stays what it was."""

from __future__ import annotations

import os

import pytest

from tests.support.cli import Project


@pytest.fixture
def linked(repo: Project) -> Project:
    """A worktree beside the project, on a branch of its own, with something staged."""
    repo.sh("git worktree add -q ../linked -b side && cd ../linked && echo staged > staged.txt && git add staged.txt")
    return Project(repo.home, os.path.join(os.path.dirname(repo.root), "linked"))


def _looks(linked: Project) -> bytes:
    return linked.sh("cat .git; git status -sb; git rev-parse HEAD; git worktree list; find . | sort")


@pytest.mark.parametrize(
    "source",
    [
        "rm .git; rm -r src; exit 4",
        pytest.param("rm -rf ../*/.git/worktrees; rm -r src; exit 4", marks=pytest.mark.long),
        pytest.param("rm -rf ../*/.git/worktrees .git; exit 4", marks=pytest.mark.long),
    ],
)
def test_a_failed_step_that_cut_the_link_goes_back(linked: Project, source: str) -> None:
    before = _looks(linked)
    failed = linked.tb("run", "--", "sh", "-c", source, check=False)
    assert failed.code == 4 and failed["rolled_back"] and failed["not_rolled_back"] == ""
    assert _looks(linked) == before


def test_undo_finds_the_steps_of_a_worktree_without_its_link(linked: Project) -> None:
    before = _looks(linked)
    linked.step("rm .git")
    linked.tb("undo")
    assert _looks(linked) == before


@pytest.mark.long
def test_the_link_goes_and_comes_with_redo_and_undo_and_a_dry_run_leaves_it(linked: Project) -> None:
    before = _looks(linked)
    id = linked.step("rm .git")
    assert linked.tb("undo", "--dry-run")["targets"] == [id]
    assert not linked.exists(".git")
    linked.tb("undo")
    assert linked.tb("redo")["not_undone"] == []
    assert not linked.exists(".git")
    linked.tb("undo")
    assert _looks(linked) == before
