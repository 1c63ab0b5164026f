"""Projects opened in this process, for tests of one module."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from takeback import Project as Opened
from tests.support.cli import Project

Open = Callable[[Project], Opened]


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> Iterator[Open]:
    """A function that opens a project with its home's environment; closed after the test."""
    with ExitStack() as stack:

        def open_(project: Project) -> Opened:
            for name, value in project.home.env().items():
                monkeypatch.setenv(name, value)
            return stack.enter_context(Opened.open(project.root))

        yield open_
