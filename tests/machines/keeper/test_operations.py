"""What the keeper answers to."""

from __future__ import annotations

from types import ModuleType

from takeback.machines import keeper
from takeback.machines.keeper import __main__ as main


def test_no_two_slices_bring_an_operation_of_one_name() -> None:
    tables = [
        part.OPERATIONS
        for part in vars(main).values()
        if isinstance(part, ModuleType) and part.__package__ == keeper.__name__ and hasattr(part, "OPERATIONS")
    ]
    assert len(tables) > 10 and sum(map(len, tables)) == len(main.OPERATIONS)
