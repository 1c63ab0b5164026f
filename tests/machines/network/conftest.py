"""One supervisor, compiled once for all tests of the network."""

from __future__ import annotations

from pathlib import Path

import pytest

from takeback.errors import SupervisorMissing
from takeback.machines.supervisor import sources
from takeback.machines.supervisor.build import compile_supervisor


@pytest.fixture(scope="session")
def init(tmp_path_factory: pytest.TempPathFactory) -> Path:
    try:
        return compile_supervisor(tmp_path_factory.mktemp("supervisor") / "init", *sources.STRICT)
    except SupervisorMissing as error:
        pytest.skip(str(error))
