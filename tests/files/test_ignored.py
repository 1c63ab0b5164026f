"""Ignored files that change their kind between two walks."""

from __future__ import annotations

from tests.files.conftest import Open
from tests.support.cli import Project


def test_a_file_is_saved_where_an_ignored_folder_was(repo: Project, opened: Open) -> None:
    project = opened(repo)
    project.checkpoint()
    repo.sh("rm build/out/app.o; mkdir build/out/app.o; echo x > build/out/app.o/inner")
    project.checkpoint()
    repo.sh("rm -r build/out/app.o; echo file > build/out/app.o")
    kept = project.checkpoint().id
    repo.sh("rm build/out/app.o")
    project.restore(kept)
    assert repo.read("build/out/app.o") == b"file\n"
