"""A progress bar is drawn only for a person, and only on stderr."""

from __future__ import annotations

import os
import sys

import pytest

from takeback.cli.output import Face
from takeback.cli.progress import reporting
from tests.cli.terminal import read_all, start_on_terminal
from tests.support.cli import Home

SCRIPT = """
import sys
from takeback.cli import progress
from takeback.cli.output import Face
progress._DELAY = float(sys.argv[1])
with progress.reporting(Face()) as report:
    for done in range(1, 4):
        report("reading [files]", done, 3)
print("rich" in sys.modules)
"""


def on_a_terminal(home: Home, delay: str) -> tuple[str, str]:
    """Return what came to stdout, and to stderr, which is a terminal."""
    environment = home.env({"TERM": "xterm", "COLUMNS": "100"})
    process, master = start_on_terminal([sys.executable, "-c", SCRIPT, delay], environment)
    seen = read_all(master)
    os.close(master)
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 0, seen
    return out.decode(), seen.decode()


def test_long_work_has_a_bar_on_a_terminal(home: Home) -> None:
    out, err = on_a_terminal(home, "0")
    assert "reading [files]" in err
    assert "3/3" in err
    assert out == "True\n"


def test_short_work_has_none_and_does_not_import_what_draws_it(home: Home) -> None:
    assert on_a_terminal(home, "1000") == ("False\n", "")


@pytest.mark.parametrize("face", [Face(), Face(json=True), Face(quiet=True)])
def test_without_a_terminal_nothing_is_reported_to(face: Face) -> None:
    with reporting(face) as report:
        assert report is None
