"""A checkpoint of one worktree, put back in another: files and state come, the tie to the repository stays."""

from __future__ import annotations

from tests.support.cli import Project


def test_a_checkpoint_of_a_linked_worktree_is_restored_in_the_main_one(repo: Project) -> None:
    repo.git("worktree", "add", "-q", "--detach", "../linked")
    linked = repo.home.project(repo.root + "/../linked")
    linked.write("new", "1\n")
    linked.write(".env", "TOKEN=linked\n")
    saved = linked.checkpoint()
    before = repo.git_state()
    repo.tb("restore", saved, "--yes")
    assert (repo.read("new"), repo.read(".env")) == (b"1\n", b"TOKEN=linked\n")
    assert repo.git_state()["HEAD"] == before["HEAD"]
    repo.tb("undo")
    assert repo.read(".env") == b"TOKEN=1\n" and not repo.exists("new")
