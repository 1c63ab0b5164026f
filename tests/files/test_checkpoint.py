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


def test_a_checkpoint_of_other_paths_is_another_checkpoint(plain: Project, opened: Open) -> None:
    project = opened(plain)
    project.checkpoint()
    project.checkpoint(paths=["README.md"])
    old = plain.read("src/app.py")
    for kept in (project.checkpoint(paths=["src/app.py"]), project.checkpoint(state=False)):
        plain.write("src/app.py", "wrecked\n")
        project.restore(kept.id)
        assert plain.read("src/app.py") == old
