"""A project to do tasks in."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.cli import Home, Project
from tests.tasks import shop as shops


@pytest.fixture
def shop(home: Home, tmp_path: Path) -> Project:
    """A small repository with a check that passes, and state that git ignores."""
    return shops.make(home, tmp_path / "shop")
