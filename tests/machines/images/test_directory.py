"""A directory of the user's as an image: never written to, and clear words where it lacks something."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from takeback.errors import FileNotFound, InvalidRequest, UnknownImage
from takeback.machines.images.directory import Directory
from tests.machines.client.conftest import World
from tests.machines.images.conftest import sandbox
from tests.support import oci


@pytest.fixture
def bare(tmp_path: Path, supervisor: Path) -> Path:
    """A system of one static program, without a shell."""
    (tmp_path / "bare" / "bin").mkdir(parents=True)
    (tmp_path / "bare").chmod(0o755)
    shutil.copy(supervisor / "init", tmp_path / "bare" / "bin" / "program")
    return tmp_path / "bare"


@pytest.mark.parametrize("disk", ["memory", "layers"])
def test_it_is_never_written_to_and_its_lack_of_a_shell_is_said(world: World, bare: Path, disk: str) -> None:
    before = sorted((str(one), one.lstat().st_mtime_ns) for one in [bare, *bare.rglob("*")])
    with sandbox(world, Directory(str(bare)).find(), disk=disk) as box:
        done = box.exec("echo x")
        assert done.exit_code == 127 and "sh: No such file or directory" in done.stderr
        assert box.exec(["/bin/program", "--nonsense"]).exit_code not in (126, 127)
        with pytest.raises(FileNotFound):
            box.spawn(["/bin/none"])
        box.files.write("/new", "x")
        assert box.files.read_text("/new") == "x"
    assert sorted((str(one), one.lstat().st_mtime_ns) for one in [bare, *bare.rglob("*")]) == before


def test_what_was_probably_meant_is_said(tmp_path: Path) -> None:
    layout = oci.Layout(tmp_path / "layout")
    with pytest.raises(UnknownImage, match=f"say oci:{layout.path}"):
        Directory(str(layout.path)).find()
    (tmp_path / "bundle" / "rootfs").mkdir(parents=True)
    with pytest.raises(UnknownImage, match="may be in"):
        Directory(str(tmp_path / "bundle")).find()
    with pytest.raises(UnknownImage, match="the image `host`"):
        Directory("/").find()


@pytest.mark.parametrize(
    ("field", "value", "least", "most"),
    [
        ("memory_mib", 127, 128, 65536), ("memory_mib", 65537, 128, 65536), ("disk_mib", 3071, 3072, 409600),
        ("disk_mib", 409601, 3072, 409600), ("vcpu", 0, 1, 16), ("vcpu", 17, 1, 16), ("vcpu", 1.5, 1, 16),
        ("memory_mib", "1024", 128, 65536), ("memory_mib", True, 128, 65536), ("disk_mib", -1, 3072, 409600),
    ],
)  # fmt: skip
def test_sizes_out_of_range_are_refused_with_the_range_and_nothing_starts(
    world: World, bare: Path, field: str, value: object, least: int, most: int
) -> None:
    with pytest.raises(InvalidRequest, match=f"{field}=") as error:
        sandbox(world, Directory(str(bare)).find(), **{field: value})
    assert f"from {least} to {most}" in error.value.hint_text
    assert not list((world.directory.root / "sandboxes").glob("*"))
