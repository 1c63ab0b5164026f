"""Saves that fail early, lie in memory, or copy the disk; and a record that cannot be read."""

from __future__ import annotations

import os
import threading
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from takeback.errors import CannotSave, EngineFailed
from takeback.machines.engine import DiskKind, Machine, MachineSpec, Stdio
from takeback.machines.engines.gvisor import checks, header, room, snapshots
from takeback.machines.engines.gvisor.engine import GVisor
from takeback.machines.engines.gvisor.forks import Forks
from takeback.machines.layout import MachinesDir

CURRENT = checks.Container("tb1", "/b", checks.Phase.RUNNING, "1", "systrap", "none", layers=("a",), upper="b")
RECORD = replace(checks.new_record(), current=CURRENT)


def machine(folder: Path) -> Machine:
    spec = MachineSpec(
        base=folder, disk=DiskKind.LAYERS, supervisor=folder, vcpu=1, memory_mib=64, disk_mib=64, hostname="h"
    )
    return Machine("m", folder, spec, Stdio(folder / "in", folder / "out"))


def save(folder: Path, containers: Any = None, disks: Any = None) -> snapshots.Save:
    return snapshots.Save(containers, disks, machine(folder), folder, room.Scratch(folder))


def test_a_fork_without_room_leaves_no_thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def choose(*asked: object) -> None:
        raise CannotSave(why="full", next="wait")

    before = set(threading.enumerate())
    monkeypatch.setattr(snapshots.containers, "memory_file", lambda current: 0)
    monkeypatch.setattr(room, "choose", choose)
    loaded: list[object] = []
    copies = Forks([machine(tmp_path)] * 3, None, lambda *asked: loaded.append(asked))
    with pytest.raises(CannotSave, match="full"):
        save(tmp_path).run(RECORD, memory=True, answers=None, copies=copies)
    assert set(threading.enumerate()) <= before and not loaded


def test_a_save_that_is_kept_in_memory_may_be_linked(tmp_path: Path) -> None:
    (tmp_path / "pages.img").write_bytes(os.urandom(1000))
    disks = SimpleNamespace(summaries=lambda layers: (), folder=tmp_path)
    place = room.Place(tmp_path, staged=False, in_memory=True)
    head = save(tmp_path, disks=disks)._finish(CURRENT, place, (), 0.0, memory=True)
    assert [file.name for file in head.files] == ["pages.img"] and head.files[0].sums
    os.link(tmp_path / "pages.img", tmp_path / "another")
    assert header.read(tmp_path).problem(tmp_path) == ""


def test_a_disk_that_is_copied_needs_no_replacement(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*asked: object) -> None:
        raise AssertionError

    monkeypatch.setattr(snapshots, "Replacement", refuse)
    done: list[str] = []
    containers = SimpleNamespace(
        pause=lambda current: done.append("pause"),
        save=lambda current, folder, used: done.append("save"),
        resume=lambda current: done.append("resume"),
    )
    disks = SimpleNamespace(copies_at_once=lambda upper: True, copy=lambda upper: done.append("copy") or "copied")
    place = room.Place(tmp_path, staged=False, in_memory=False)
    layers, _ = save(tmp_path, containers, disks)._layers(RECORD, place, 0, None, None)
    assert (layers, done) == (("a", "copied"), ["pause", "save", "copy", "resume"])
    assert checks.read(tmp_path) == RECORD


def test_a_record_that_cannot_be_read_is_not_no_disk(tmp_path: Path) -> None:
    data = MachinesDir(tmp_path / "data")
    data.root.mkdir()
    engine = GVisor(Path("/none"), data)
    one = machine(tmp_path)
    assert engine.keep(one, tmp_path) is None
    (tmp_path / checks.FILE).write_text("{")
    with pytest.raises(EngineFailed, match="cannot be read"):
        engine.keep(one, tmp_path)
