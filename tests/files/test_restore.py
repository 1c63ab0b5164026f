"""Restores of some paths."""

from __future__ import annotations

import pytest

from takeback.errors import OpenFileInUse
from tests.files.conftest import Open
from tests.support.cli import Project


def test_a_path_below_what_is_a_file_now_is_refused_before_the_first_write(plain: Project, opened: Open) -> None:
    project = opened(plain)
    kept = project.checkpoint().id
    plain.write("README.md", "changed\n")
    plain.sh("rm -r src; echo file > src")
    then = plain.tree()
    with pytest.raises(OpenFileInUse, match="src"):
        project.restore(kept, ["README.md", "src/app.py"])
    assert plain.tree() == then


def test_a_folder_that_the_checkpoint_ignored_stays(repo: Project, opened: Open) -> None:
    project = opened(repo)
    kept = project.checkpoint(state=False).id
    project.checkpoint(paths=[b"build/out/app.o"])
    repo.sh("rm -r build/out")
    project.restore(kept)
    assert repo.exists("build")


def test_what_is_ignored_only_now_is_saved_before_it_is_replaced(plain: Project, opened: Open) -> None:
    project = opened(plain)
    kept = project.checkpoint(state=False).id
    plain.write(".gitignore", "README.md\n")
    plain.write("README.md", "written since\n")
    then = plain.tree()
    done = project.restore(kept)
    assert plain.read("README.md").startswith(b"# Project")
    project.undo(done.id)
    assert plain.tree() == then
