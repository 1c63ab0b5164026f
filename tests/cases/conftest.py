"""Short tier: up to two variants of every test here, spread over its list; `scripts/test --all` runs them all."""

from __future__ import annotations

import pytest

_SHORT = 2


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    variants: dict[str, list[pytest.Item]] = {}
    for item in items:
        if "/cases/" in item.nodeid:
            variants.setdefault(item.nodeid.partition("[")[0], []).append(item)
    for found in variants.values():
        kept = {round(number * (len(found) - 1) / (_SHORT - 1)) for number in range(_SHORT)}
        for place, item in enumerate(found):
            if place not in kept:
                item.add_marker(pytest.mark.long)
