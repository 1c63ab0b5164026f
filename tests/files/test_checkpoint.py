"""Checkpoints of named paths."""

from __future__ import annotations

from tests.files.conftest import Open
from tests.support.cli import Project


def test_a_named_folder_means_all_that_is_in_it(plain: Project, opened: Open) -> None:
    project = opened(plain)
    project.checkpoint()
    plain.write("src/new.py", "new\n")
    kept = project.checkpoint(paths=[b"src"])
    plain.write("src/new.py", "wrecked\n")
    project.restore(kept.id)
    assert plain.read("src/new.py") == b"new\n"


def test_a_named_path_is_held_and_put_back_though_it_is_ignored(repo: Project, opened: Open) -> None:
    project = opened(repo)
    project.checkpoint()
    old = repo.read("build/out/app.o")
    kept = project.checkpoint(paths=["build/out/app.o"])
    repo.write("build/out/app.o", "wrecked\n")
    repo.write("build/out/other.o", "not named\n")
    then = repo.tree()
    done = project.restore(kept.id)
    assert repo.read("build/out/app.o") == old
    assert repo.read("build/out/other.o") == b"not named\n"
    project.undo(done.id)
    assert repo.tree() == then


def test_a_named_path_that_was_not_there_goes_though_it_is_ignored(repo: Project, opened: Open) -> None:
    project = opened(repo)
    project.checkpoint()
    kept = project.checkpoint(paths=["build/out/new.o"])
    repo.write("build/out/new.o", "new\n")
    repo.write("build/out/other.o", "not named\n")
    then = repo.tree()
    done = project.restore(kept.id)
    assert not repo.exists("build/out/new.o")
    assert repo.exists("build/out/other.o")
    project.undo(done.id)
    assert repo.tree() == then


def test_a_checkpoint_of_other_paths_is_another_checkpoint(plain: Project, opened: Open) -> None:
    project = opened(plain)
    project.checkpoint()
    project.checkpoint(paths=["README.md"])
    old = plain.read("src/app.py")
    for kept in (project.checkpoint(paths=["src/app.py"]), project.checkpoint(state=False)):
        plain.write("src/app.py", "wrecked\n")
        project.restore(kept.id)
        assert plain.read("src/app.py") == old


def test_a_named_ignored_path_is_not_called_deleted_while_it_is_there(repo: Project, opened: Open) -> None:
    project = opened(repo)
    project.checkpoint()
    kept = project.checkpoint(paths=["build/out/app.o"])
    assert project.diff(kept.id)[0] == []
    repo.write("build/out/app.o", "wrecked\n")
    assert [change.path for change in project.diff(kept.id)[0]] == [b"build/out/app.o"]


def test_a_restore_says_that_other_paths_than_the_named_ones_are_as_last_seen(plain: Project, opened: Open) -> None:
    project = opened(plain)
    project.checkpoint()
    kept = project.checkpoint(paths=["README.md"])
    plain.write("src/app.py", "wrecked\n")
    plain.write("README.md", "wrecked\n")
    assert any("only those" in note for note in project.restore(kept.id, dry_run=True).notes)
    assert any("last seen" in note for note in project.restore(kept.id, ["src/app.py"], dry_run=True).notes)
