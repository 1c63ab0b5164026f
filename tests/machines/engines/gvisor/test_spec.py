"""What runsc is told about a machine."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from takeback.machines.engine import DiskKind, MachineSpec
from takeback.machines.engines.gvisor import spec

SPEC = MachineSpec(base=Path("/b"), disk=DiskKind.MEMORY, supervisor=Path("/s"))


def mounts(wanted: MachineSpec) -> dict[str, dict[str, object]]:
    config = spec.config(wanted, root=wanted.base, empty=Path("/empty"))
    json.dumps(config)
    return {mount["destination"]: mount for mount in config["mounts"]}


def test_the_supervisor_is_process_one_and_read_only() -> None:
    config = spec.config(SPEC, root=SPEC.base, empty=Path("/empty"))
    assert config["process"]["args"] == ["/.takeback/init"]
    assert mounts(SPEC)["/.takeback"]["options"] == ["rbind", "ro", "nosuid", "nodev"]


def test_temporary_folders_are_open_to_all_and_bounded() -> None:
    found = mounts(replace(SPEC, memory_mib=1000))
    assert "mode=1777" in found["/tmp"]["options"]  # type: ignore[operator]
    assert "mode=0755" in found["/run"]["options"]  # type: ignore[operator]
    assert "size=500m" in found["/dev/shm"]["options"]  # type: ignore[operator]


def test_folders_and_files_are_hidden_each_in_its_way(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").touch()
    found = mounts(replace(SPEC, base=tmp_path, masked=("/folder", "/file", "/nothing")))
    assert [found[path]["type"] for path in ("/folder", "/file", "/nothing")] == ["tmpfs", "bind", "tmpfs"]
    assert found["/file"]["source"] == "/empty"


@pytest.mark.parametrize(
    "change",
    [{"base": Path("/other")}, {"memory_mib": 1}, {"masked": ("/x",)}, {"binds": ((Path("/x"), "/x", False),)}],
)
def test_a_digest_tells_specs_apart(change: dict[str, object]) -> None:
    assert spec.digest(SPEC) != spec.digest(replace(SPEC, **change))  # type: ignore[arg-type]


def test_a_digest_does_not_depend_on_the_hostname() -> None:
    assert spec.digest(SPEC) == spec.digest(replace(SPEC, hostname="other"))


def test_writable_binds_are_not_kept_in_memory() -> None:
    assert spec.overlay_flag(SPEC) == "all:memory"
    assert spec.overlay_flag(replace(SPEC, binds=((Path("/x"), "/x", False),))) == "all:memory"
    assert spec.overlay_flag(replace(SPEC, binds=((Path("/x"), "/x", True),))) == "root:memory"
    assert spec.overlay_flag(replace(SPEC, disk=DiskKind.LAYERS)) == "none"


def test_no_capability_over_the_host_is_asked_for() -> None:
    given = spec.config(SPEC, root=SPEC.base, empty=Path("/e"))["process"]["capabilities"]["bounding"]
    assert not {"CAP_SYS_RESOURCE", "CAP_SYS_MODULE", "CAP_NET_ADMIN", "CAP_NET_RAW", "CAP_SYS_RAWIO"} & set(given)
