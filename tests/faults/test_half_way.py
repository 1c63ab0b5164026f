"""What fails after the first visible change: everything is put back as it was, files, index and refs.

Does not cover: kills (`test_kill`) and full disks (`test_disk_full`).
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.cli import Project
from tests.support.content import damage, make_dirty
from tests.support.immutable import immutable

from .killing import doctor_says, leftovers


@pytest.mark.parametrize("command", ["restore", "undo"])
def test_a_ref_that_somebody_has_locked_puts_everything_back(repo: Project, command: str) -> None:
    first = repo.checkpoint()
    target = repo.moment()
    repo.step(
        "echo x > src/app.py; git add -A; git commit -q -m agent; echo y > src/app.py; git add src; rm -r src/lib; "
        "git branch other; git stash push -q -- README.md; git tag -d light"
    )
    before = repo.moment()
    lock = Path(repo.root) / ".git/refs/heads/main.lock"
    lock.touch()
    args = ("undo", "--yes") if command == "undo" else ("restore", first, "--refs", "--yes")
    result = repo.tb(*args, check=False)
    assert result.code == 1 and "main" in result.text, result.text
    assert "Traceback" not in result.text
    lock.unlink()
    assert before.changes() == []
    assert leftovers(repo) == []
    repo.tb(*args)
    assert target.changes() == []
    assert doctor_says(repo) == []


def test_a_file_that_cannot_be_replaced_puts_everything_back(repo: Project) -> None:
    """A folder in which even root may not rename: its own filesystem attribute says so."""
    id = repo.checkpoint()
    make_dirty(repo)
    damage(repo)
    before = repo.moment()
    with immutable(repo.at("data/windows.txt")) as can:
        if not can:
            pytest.skip("no immutable files here")
        result = repo.tb("restore", id, "--yes", check=False)
        assert result.error == "cannot-write", result.text
        assert before.changes() == []
        assert leftovers(repo) == []
    repo.tb("restore", id, "--yes")
    repo.tb("undo", "--yes")
    assert before.changes() == []
