"""Checkpoints of named paths."""

from __future__ import annotations

import pytest

from takeback import Project as Opened
from tests.support.cli import Project


def test_a_named_folder_means_all_that_is_in_it(plain: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in plain.home.env().items():
        monkeypatch.setenv(name, value)
    with Opened.open(plain.root) as project:
        project.checkpoint()
        plain.write("src/new.py", "new\n")
        kept = project.checkpoint(paths=[b"src"])
        plain.write("src/new.py", "wrecked\n")
        project.restore(kept.id)
    assert plain.read("src/new.py") == b"new\n"
