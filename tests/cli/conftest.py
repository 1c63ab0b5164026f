"""Fixtures of the command line's tests: golden files, and commands without a project behind them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from takeback.cli import options
from tests.cli.golden_file import Golden


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden",
        action="store_true",
        help="write golden files anew; name tests/cli first: pytest tests/cli tests --update-golden",
    )


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Golden:
    return Golden.of(request.config, Path(__file__).parent / "golden")


@pytest.fixture
def opening(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], Any]], None]:
    """Make every command get what a function returns, or raises, in the place of its project."""

    def arrange(make: Callable[[], Any]) -> None:
        @contextmanager
        def opened(face: object, *, strict: bool = True) -> Iterator[Any]:
            yield make()

        monkeypatch.setattr(options, "opened", opened)

    return arrange
