"""What is written beside machines and snapshots, read back."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from takeback.errors import CannotSave, SnapshotDamaged
from takeback.machines.engines.gvisor import checks, header, room
from takeback.machines.engines.gvisor.disk import Disks, _fold
from takeback.machines.engines.gvisor.runsc import last_error

CONTAINER = checks.Container(
    "tb1", "/b", checks.Phase.PAUSED, "1", "systrap", "none", (5, "x:1"), (6, "x:2"), "/s", ("a", "b"), "c"
)


def test_a_record_is_read_as_it_was_written(tmp_path: Path) -> None:
    record = replace(checks.new_record(), current=CONTAINER, others=(CONTAINER,), cpu_before=1.5)
    checks.write(tmp_path, record)
    assert checks.read(tmp_path) == record
    assert record.here()


def test_a_machine_without_a_record_has_none(tmp_path: Path) -> None:
    assert checks.read(tmp_path) is None


@pytest.mark.parametrize("text", [b"", b"{}", b"[]", b'{"format": 99}', b'{"format": 1, "boot": ""}'])
def test_a_record_that_cannot_be_read_is_no_crash(tmp_path: Path, text: bytes) -> None:
    (tmp_path / checks.FILE).write_bytes(text)
    with pytest.raises(ValueError):
        checks.read(tmp_path)


def made(folder: Path, *, lasting: bool = True, size: int = 40 << 20) -> header.Header:
    (folder / "pages.img").write_bytes(os.urandom(1 << 20) * (size >> 20))
    file = header.describe(folder / "pages.img", lasting=lasting)
    head = header.Header("gvisor", "1", "systrap", "none", "d", True, checks.boot_id(), 0.1, (file,), ("a",))
    header.write(folder, head, durable=False)
    return head


def test_a_header_is_read_as_it_was_written(tmp_path: Path) -> None:
    head = made(tmp_path)
    assert header.read(tmp_path) == head


def test_a_file_of_another_boot_is_read_whole(tmp_path: Path) -> None:
    head = replace(made(tmp_path), boot="another")
    assert head.problem(tmp_path) == ""
    with open(tmp_path / "pages.img", "r+b") as file:
        file.seek(20 << 20)
        byte = file.read(1)
        file.seek(20 << 20)
        file.write(bytes([byte[0] ^ 1]))
    assert "content" in head.problem(tmp_path)


def test_a_passing_snapshot_is_only_good_where_it_lies(tmp_path: Path) -> None:
    head = made(tmp_path, lasting=False)
    assert head.problem(tmp_path) == ""
    content = (tmp_path / "pages.img").read_bytes()
    (tmp_path / "pages.img").write_bytes(content)
    assert head.problem(tmp_path) != ""


def test_every_cut_and_every_changed_byte_of_a_header_is_seen(tmp_path: Path) -> None:
    made(tmp_path, size=1 << 20)
    path = tmp_path / header.FILE
    whole = path.read_bytes()
    for at in range(0, len(whole), 7):
        for spoiled in (whole[:at], whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :]):
            path.write_bytes(spoiled)
            with pytest.raises(SnapshotDamaged):
                header.read(tmp_path)


def test_no_room_is_an_error_that_says_how_much(tmp_path: Path) -> None:
    with pytest.raises(CannotSave, match="GiB"):
        room.choose(tmp_path, room.Scratch(tmp_path), 1 << 50)


def test_folding_layers_keeps_what_the_upper_one_says(tmp_path: Path) -> None:
    lower, upper, into = (tmp_path / name for name in ("lower", "upper", "into"))
    for layer, files in ((lower, "a/1 a/2 b f"), (upper, "a/2 a/3 f/x")):
        for name in files.split():
            (layer / name).parent.mkdir(parents=True, exist_ok=True)
            (layer / name).write_text(f"{layer.name} {name}")
    into.mkdir()
    _fold(lower, into)
    try:
        _fold(upper, into)
    except OSError:
        pytest.skip("needs root for the attribute of a folder that replaced a file")
    found = {os.fspath(path.relative_to(into)): path.read_text() for path in into.rglob("*") if path.is_file()}
    assert found == {"a/1": "lower a/1", "a/2": "upper a/2", "a/3": "upper a/3", "b": "lower b", "f/x": "upper f/x"}
    assert (lower / "a/2").read_text() == "lower a/2"


def test_layers_are_made_measured_and_swept(tmp_path: Path) -> None:
    disks = Disks(tmp_path)
    kept, gone = disks.new(), disks.new()
    (disks.place(kept) / "upper" / "f").write_bytes(b"x" * 100_000)
    assert disks.used(kept) >= 100_000
    assert disks.spoiled([kept], ()) == ""
    assert disks.sweep({kept}) == [gone]
    assert "gone" in disks.spoiled([gone], ())


def test_the_newest_error_of_a_log_is_found(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text(
        '{"msg":"old","level":"error"}\n{"msg":"new","level":"error"}\nnonsense\n{"msg":"x","level":"info"}\n'
    )
    assert last_error(log) == "new"
    assert last_error(tmp_path / "none") == ""
