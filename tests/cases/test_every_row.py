"""Every row of the table of reported faults about files has a test."""

from __future__ import annotations

import re
from pathlib import Path

# Rows 30 to 32 are about tasks.
ROWS = set(range(1, 30))


def test_every_row_of_the_table_has_a_test() -> None:
    here = Path(__file__).parent
    claimed = {
        int(number) for path in here.glob("test_rows_*.py") for number in re.findall(r"@row\((\d+)\)", path.read_text())
    }
    assert claimed == ROWS
