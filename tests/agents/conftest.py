"""The scripted model, and what drives the agent programs against it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.agents.support import Driver, Scripted
from tests.support.cli import Home


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    return True if sys.platform != "linux" else None


@pytest.fixture
def scripted(tmp_path: Path) -> Iterator[Scripted]:
    """A scripted model of this test's own."""
    model = Scripted(tmp_path / "model")
    yield model
    model.stop()


@pytest.fixture
def drive(scripted: Scripted, home: Home) -> Driver:
    """Runs an agent program in the test's home: `drive("claude", repo, "do it [[script:NAME]]")`."""
    return Driver(scripted, home)
