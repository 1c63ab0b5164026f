"""Where the projects of property tests are made."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture
def top() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="tb-property-") as folder:
        yield Path(os.path.realpath(folder))
