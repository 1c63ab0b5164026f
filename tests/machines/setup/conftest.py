"""Fixtures of the set-up's tests."""

from __future__ import annotations

import pytest

from takeback.machines.setup import Ready
from tests.support import machines


@pytest.fixture(scope="session")
def ready() -> Ready:
    """The real engine and the real image."""
    if machines.why_not():
        pytest.skip(machines.why_not())
    return machines.ready()
