"""What the engine is told about a base that is somebody's own."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from takeback.machines.engine import DiskKind, MachineSpec
from takeback.machines.engines.gvisor import lower, spec, view

HOST = MachineSpec(
    base=Path("/"),
    disk=DiskKind.MEMORY,
    supervisor=Path("/supervisor"),
    seen=("/usr",),
    shown=("/srv/data",),
    live=True,
)


def options(of: MachineSpec, path: str) -> list[str]:
    mounts = spec.config(of, root=Path("/root"), empty=Path("/empty"))["mounts"]
    return next(list(one["options"]) for one in mounts if one["destination"] == path)


def test_a_named_folder_is_writable_only_where_the_overlay_is_over_it() -> None:
    assert "rw" in options(HOST, "/srv/data") and spec.overlay_flag(HOST) == "all:memory"
    through = replace(HOST, binds=((Path("/volume"), "/volume", True),))
    assert "ro" in options(through, "/srv/data"), "with that flag what is written to it would reach this machine"


def test_a_base_is_given_as_it_is_only_when_nothing_would_be_made_in_it(tmp_path: Path) -> None:
    base = replace(HOST, base=tmp_path, seen=(), shown=())
    assert view.needed(base)
    (tmp_path / ".takeback").mkdir()
    assert not view.needed(base)
    assert view.needed(replace(base, seen=("/usr",)))


def test_a_snapshot_is_another_ones_when_what_is_seen_differs() -> None:
    other = (replace(HOST, seen=("/usr", "/etc")), replace(HOST, shown=()), replace(HOST, masked=("/etc/shadow",)))
    assert len({spec.digest(one) for one in (HOST, *other)}) == 4


def test_a_change_of_a_file_is_seen_by_size_time_and_identity(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("one")
    note = lower.Lower(str(file), lower._place(file.stat()))
    folder = lower.Lower(str(tmp_path), lower._place(tmp_path.stat()))
    assert lower.changed([note, folder]) == ""
    (tmp_path / "beside").write_text("")
    assert lower.changed([note, folder]) == ""
    file.write_text("two!")
    assert lower.changed([note, folder]) == str(file)
    file.unlink()
    assert lower.changed([note]) == str(file)
