"""Short tier: one variant of every test here, another of each test; `scripts/test --all` runs them all."""

from __future__ import annotations

import zlib

import pytest


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    variants: dict[str, list[pytest.Item]] = {}
    for item in items:
        if "/cases/" in item.nodeid:
            variants.setdefault(item.nodeid.partition("[")[0], []).append(item)
    for name, found in variants.items():
        kept = zlib.crc32(name.rpartition("::")[2].encode()) % len(found)
        for place, item in enumerate(found):
            if place != kept:
                item.add_marker(pytest.mark.long)
