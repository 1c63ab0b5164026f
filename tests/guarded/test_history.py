"""Steps that drop what no ref names: reflogs and unnamed commits come back with an undo."""

from __future__ import annotations

import pytest

from tests.support.cli import Project


def lose_a_commit(repo: Project) -> str:
    """Make a commit that only the reflog names, as a person's last resort; gives its id."""
    repo.git("add", "-A")
    repo.git("commit", "-q", "-m", "only in the reflog")
    lost = repo.git("rev-parse", "HEAD").decode().strip()
    repo.git("reset", "-q", "--hard", "HEAD~1")
    return lost


@pytest.mark.parametrize(
    "source",
    [
        "git reflog expire --expire=now --all && git gc -q --prune=now",
        "rm -rf .git",
        "rm -rf .git/logs && git prune --expire=now",
    ],
)
def test_a_commit_that_only_the_reflog_named_comes_back(repo: Project, source: str) -> None:
    lost = lose_a_commit(repo)
    reflog = repo.git("reflog", "show", "--format=%H %gs", "HEAD")
    done = repo.tb("run", "--", source)
    assert done["class"] == "machine" and done["checkpoint"] == "state"
    assert repo.git("cat-file", "-t", lost, check=False) == b""
    said = repo.tb("undo")
    assert any("reflogs" in note for note in said["notes"])
    assert repo.git("cat-file", "-t", lost) == b"commit\n"
    assert repo.git("reflog", "show", "--format=%H %gs", "HEAD").endswith(reflog)
    assert repo.git("log", "-1", "--format=%s", lost) == b"only in the reflog\n"
    repo.git("fsck", "--strict")


def test_a_commit_that_nothing_named_comes_back(repo: Project) -> None:
    tree = repo.git("rev-parse", "HEAD^{tree}").decode().strip()
    lost = repo.git("commit-tree", "-m", "nameless", tree).decode().strip()
    repo.tb("run", "--", "git gc -q --prune=now")
    assert repo.git("cat-file", "-t", lost, check=False) == b""
    repo.tb("undo")
    assert repo.git("cat-file", "-t", lost) == b"commit\n"


def test_where_nothing_was_dropped_nothing_is_said(repo: Project) -> None:
    repo.tb("run", "--", "git gc -q")
    assert not any("reflogs" in note for note in repo.tb("undo")["notes"])


def test_the_like_in_another_repository_is_not_covered_and_held(repo: Project) -> None:
    other = repo.home.project(repo.home.path / "other")
    other.write("a", "a\n")
    other.git("init", "-q")
    done = repo.tb("run", "--", f"git -C {other.root} gc --prune=now", check=False)
    assert done.code == 126
