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


def _packed(repo: Project) -> int:
    """How many objects the store has in packs, each as often as it is there."""
    (store,) = repo.home.data.glob("projects/*/store.git")
    counts = dict(line.split(": ") for line in repo.home.git(store, "count-objects", "-v").decode().splitlines())
    return int(counts["in-pack"])


def test_history_that_the_store_has_is_not_saved_again_for_another_worktree(repo: Project) -> None:
    for number in range(300):
        repo.write(f"folder/{number}", f"{number}\n")
    repo.git("add", "-A")
    repo.git("commit", "-qm", "many")
    repo.checkpoint()
    before = _packed(repo)
    assert before >= 300
    repo.git("worktree", "add", "-q", "--detach", "../linked")
    repo.git("commit", "-q", "--allow-empty", "-m", "later")
    linked = repo.home.project(repo.root + "/../linked")
    linked.write("new", "1\n")
    saved = linked.checkpoint()
    assert _packed(repo) < before + 300
    linked.sh("rm -rf folder new")
    linked.tb("restore", saved, "--yes")
    assert linked.read("new") == b"1\n" and linked.read("folder/299") == b"299\n"
