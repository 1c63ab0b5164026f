"""A checkpoint is only reused for what was looked at."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

import takeback


def test_a_checkpoint_without_state_does_not_pass_for_one_whose_ignored_files_are_older(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", os.fspath(tmp_path / "home"))
    monkeypatch.setenv("TAKEBACK_HOME", os.fspath(tmp_path / "data"))
    root = tmp_path / "project"
    root.mkdir()
    subprocess.run(["git", "init", "-q"], cwd=root, check=True)
    (root / ".gitignore").write_text(".env\n")
    (root / ".env").write_text("old\n")
    with takeback.Project.open(os.fspath(root)) as project:
        first = project.checkpoint()
        (root / ".env").write_text("newer\n")
        second = project.checkpoint(state=False)
        assert second.new and second.id != first.id
        assert not project.checkpoint(state=False).new
        (root / ".env").write_text("newest\n")
        project.restore(second.id)
    assert (root / ".env").read_text() == "newest\n"
