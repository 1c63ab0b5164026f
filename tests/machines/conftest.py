"""The supervisor, compiled once a test run, and running ones."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from takeback.machines.layout import MachinesDir
from takeback.machines.supervisor.build import compile_supervisor, supervisor_binary
from takeback.machines.supervisor.sources import STRICT
from tests.support.guest import Guest

# Set by the test that runs all of these against a binary with sanitizers.
OTHER_BINARY = "TAKEBACK_TEST_SUPERVISOR"


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    return True if sys.platform != "linux" else None


@pytest.fixture(scope="session")
def binary(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The supervisor's binary; compiling it gives no warning."""
    if OTHER_BINARY in os.environ:
        return Path(os.environ[OTHER_BINARY])
    top = tmp_path_factory.mktemp("machines")
    compile_supervisor(top / "strict", *STRICT)
    found = supervisor_binary(MachinesDir(top))
    for folder in (found, *found.parents):  # for the tests that run it as another user
        if folder == Path(os.environ.get("TMPDIR", "/tmp")):
            break
        os.chmod(folder, 0o755)
    return found


@pytest.fixture
def guest(binary: Path, tmp_path: Path) -> Iterator[Guest]:
    """A running supervisor; identity is written below `tmp_path`/root."""
    (tmp_path / "root").mkdir()
    (tmp_path / "fifos").mkdir()
    made = Guest(binary, tmp_path / "fifos", TAKEBACK_ROOT=str(tmp_path / "root"))
    yield made
    lived = made.process.poll() is None
    made.stop()
    assert lived or made.process.returncode == 0, f"the supervisor died: {made.process.returncode}"


@pytest.fixture
def guests(binary: Path, tmp_path: Path) -> Iterator[Callable[[], Guest]]:
    """Makes running supervisors."""
    made: list[Guest] = []

    def make() -> Guest:
        folder = tmp_path / f"guest-{len(made)}"
        folder.mkdir()
        made.append(Guest(binary, folder))
        return made[-1]

    yield make
    for one in made:
        one.stop()
