"""What an undo decides, path by path, about what came after the step."""

from __future__ import annotations

import os

import pytest

from takeback.errors import Conflict
from tests.files.conftest import Open
from tests.support.cli import Project


def test_a_file_where_the_folder_of_a_path_was_is_a_conflict(plain: Project, opened: Open) -> None:
    project = opened(plain)
    with project.step("delete"):
        os.unlink(plain.at("src/lib/util.py"))
    plain.sh("rm -r src; echo file > src")
    then = plain.tree()
    with pytest.raises(Conflict, match=r"src/lib/util\.py"):
        project.undo()
    assert plain.tree() == then


def test_what_is_ignored_since_the_step_is_not_in_the_checkpoint_after_its_undo(plain: Project, opened: Open) -> None:
    project = opened(plain)
    with project.step("make"):
        plain.write("made.log", "made\n")
    plain.write(".gitignore", "*.log\n")
    project.undo()
    project.restore(project.checkpoint().id)
    assert not plain.exists("made.log")
    after = project.log()[0].after
    assert after is not None
    project.restore(after, to=plain.at("../copy"))
    assert not plain.exists("../copy/made.log")


def test_an_ignored_file_is_undone_where_there_was_none_before(plain: Project, opened: Open) -> None:
    project = opened(plain)
    with project.step("make"):
        plain.write(".gitignore", ".env\n")
        plain.write(".env", "TOKEN=1\n")
    project.undo()
    assert not plain.exists(".env")


def test_a_step_that_only_touched_a_file_deleted_since_is_undone(plain: Project, opened: Open) -> None:
    project = opened(plain)
    with project.step("touch and write"):
        os.utime(plain.at("README.md"))
        plain.write("src/app.py", "other\n")
    os.unlink(plain.at("README.md"))
    project.undo()
    assert not plain.exists("README.md")
    assert plain.read("src/app.py").startswith(b"line_0")


def test_a_tracked_file_that_the_rules_ignore_comes_back_also_without_state(repo: Project, opened: Open) -> None:
    project = opened(repo)
    repo.git("add", "-f", "debug.log")
    with project.step("delete", state=False):
        os.unlink(repo.at("debug.log"))
    project.undo()
    assert repo.read("debug.log") == b"log\n"


def test_a_file_that_a_step_without_state_only_hid_is_not_written_over(plain: Project, opened: Open) -> None:
    project = opened(plain)
    with project.step("hide", state=False):
        plain.write(".gitignore", "README.md\n")
    plain.write("README.md", "written since\n")
    project.undo()
    assert plain.read("README.md") == b"written since\n"
    assert not plain.exists(".gitignore")
