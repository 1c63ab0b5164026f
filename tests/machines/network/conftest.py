"""The supervisor that all tests of the network run."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture
def init(binary: Path) -> Path:
    return binary
