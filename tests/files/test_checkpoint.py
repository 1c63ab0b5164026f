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
