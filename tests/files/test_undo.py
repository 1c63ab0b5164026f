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
