"""Records on disk: what was written is read, what is spoiled is named, what is half made is removed."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from takeback.errors import Damaged
from takeback.machines.keeper.registry import Registry
from takeback.machines.layout import MachinesDir
from takeback.machines.model import FORMAT, SandboxRecord
from tests.machines.keeper.samples import record


def test_a_record_is_read_as_it_was_written(tmp_path: Path) -> None:
    registry = Registry(MachinesDir(tmp_path))
    made = record(name="x", labels={"a": "b"}, lost="why", lease_ns=5)
    registry.add(made)
    assert list(registry.all()) == [made]
    registry.save(replace(made, name="y"))
    assert [one.name for one in registry.all() if isinstance(one, SandboxRecord)] == ["y"]
    assert (registry.folder(made.id) / "sandbox.json").stat().st_mode & 0o777 == 0o600
    registry.remove(made.id)
    registry.remove(made.id)
    assert list(registry.all()) == []


def test_a_spoiled_record_is_named_and_left(tmp_path: Path) -> None:
    registry = Registry(MachinesDir(tmp_path))
    registry.add(record())
    path = registry.folder(record().id) / "sandbox.json"
    for spoiled in ("", "[]", "{", '{"format": 1}', json.dumps(record().to_json() | {"state": "dancing"})):
        path.write_text(spoiled)
        assert [one[0] for one in registry.all() if isinstance(one, tuple)] == [record().id]
    path.unlink()
    assert list(registry.all()) == [] and not path.parent.exists()


def test_a_newer_format_is_refused_and_newer_fields_are_not() -> None:
    document = record().to_json()
    assert SandboxRecord.from_json(document | {"of_tomorrow": 1}) == record()
    with pytest.raises(Damaged):
        SandboxRecord.from_json(document | {"format": FORMAT + 1})
