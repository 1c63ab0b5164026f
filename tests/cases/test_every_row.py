"""Every row of the table of reported faults about files has a test."""

from __future__ import annotations

import re
from pathlib import Path

ROWS = set(range(1, 33))


def test_every_row_of_the_table_has_a_test() -> None:
    here = Path(__file__).parent
    claimed = {
        int(number)
        for path in [
            *here.glob("test_rows_*.py"),
            here.parent / "tasks" / "test_rows.py",
        ]  # the last three are of tasks
        for number in re.findall(r"@row\((\d+)\)", path.read_text())
    }
    assert claimed == ROWS
