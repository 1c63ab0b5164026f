"""Records on disk: what was written is read, what is spoiled is named, what is half made is removed."""

from __future__ import annotations

import json
import os
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
    assert [one.name for one in registry.all()] == ["y"]
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
        (one,) = registry.all()
        assert registry.is_spoiled(one.id) and one.id == record().id and "cannot be read" in str(one.lost)
        with pytest.raises(Damaged):
            registry.save(replace(one, name="mended"))
        assert path.read_text() == spoiled
    registry.save(replace(one, stop_reason="deleted"))
    assert [again.stop_reason for again in Registry(MachinesDir(tmp_path)).all()] == ["deleted"]
    registry.remove(one.id)
    assert not path.parent.exists()


def test_a_folder_without_a_record_is_removed_only_when_nothing_is_in_it(tmp_path: Path) -> None:
    registry = Registry(MachinesDir(tmp_path))
    for name in ("empty", "begun", "full"):
        registry.folder(name).mkdir(parents=True)
    (registry.folder("begun") / ".tmp-1").touch()
    (registry.folder("full") / "engine.json").touch()
    assert [one.id for one in registry.all()] == ["full"]
    assert [name for name in ("empty", "begun", "full") if registry.folder(name).exists()] == ["full"]


def test_what_says_that_a_disk_is_kept_reaches_the_disk_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    registry = Registry(MachinesDir(tmp_path))
    registry.add(record())
    synced: list[str] = []
    monkeypatch.setattr("os.fsync", lambda fd: synced.append(os.readlink(f"/proc/self/fd/{fd}")))
    registry.save(record(name="x"))
    assert synced == []
    registry.save(record(kept="kept-1"), durable=True)
    assert [Path(path).name[:5] for path in synced] == [".tmp-", registry.folder(record().id).name[:5]]


def test_a_newer_format_is_refused_and_newer_fields_are_not() -> None:
    document = record().to_json()
    assert SandboxRecord.from_json(document | {"of_tomorrow": 1}) == record()
    with pytest.raises(Damaged):
        SandboxRecord.from_json(document | {"format": FORMAT + 1})
