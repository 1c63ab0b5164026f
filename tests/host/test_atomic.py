"""Small files are replaced whole or not at all.

Does not cover: power loss, which no test here can cause.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from takeback.host import atomic


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    if os.getuid() != 0:
        pytest.skip("only root can mount a small disk")
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "none", tmp_path], check=True)
    yield tmp_path
    subprocess.run(["umount", tmp_path], check=True)


@pytest.mark.parametrize("durable", [True, False])
def test_the_new_content_is_there_and_private(tmp_path: Path, durable: bool) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")
    path.chmod(0o644)
    atomic.write_bytes(path, b"new", durable=durable)
    assert path.read_bytes() == b"new"
    assert path.stat().st_mode & 0o777 == 0o600
    assert os.listdir(tmp_path) == ["file"]


@pytest.mark.parametrize("size", [200_000, 1_000_000])
def test_a_full_disk_keeps_the_old_file_and_leaves_no_other(small_disk: Path, size: int) -> None:
    path = small_disk / "file"
    atomic.write_bytes(path, b"old")
    with pytest.raises(OSError, match="No space left"):
        atomic.write_bytes(path, b"n" * size)
    assert path.read_bytes() == b"old"
    assert os.listdir(small_disk) == ["file"]


def test_a_disk_that_was_full_before_keeps_the_old_file(small_disk: Path) -> None:
    path = small_disk / "file"
    atomic.write_bytes(path, b"old")
    with open(small_disk / "fill", "wb", buffering=0) as fill, pytest.raises(OSError, match="No space left"):
        while True:
            fill.write(b"f" * 4096)
    with pytest.raises(OSError, match="No space left"):
        atomic.write_bytes(path, b"new")
    assert path.read_bytes() == b"old"
    assert sorted(os.listdir(small_disk)) == ["file", "fill"]


def test_a_directory_in_the_way_is_an_error_and_stays(tmp_path: Path) -> None:
    (tmp_path / "file" / "inner").mkdir(parents=True)
    with pytest.raises(IsADirectoryError):
        atomic.write_bytes(tmp_path / "file", b"new")
    assert os.listdir(tmp_path) == ["file"]


_WRITE_FOR_EVER = """
import sys
from pathlib import Path
from takeback.host import atomic
print("ready", flush=True)
while True:
    for letter in b"ab":
        atomic.write_bytes(Path(sys.argv[1]), bytes([letter]) * 200_000, durable=False)
"""


def test_readers_see_one_content_or_the_other_also_when_the_writer_is_killed(tmp_path: Path) -> None:
    path = tmp_path / "file"
    whole = {b"a" * 200_000, b"b" * 200_000}
    atomic.write_bytes(path, b"a" * 200_000)
    for _ in range(5):
        writer = subprocess.Popen([sys.executable, "-c", _WRITE_FOR_EVER, path], stdout=subprocess.PIPE)
        assert writer.stdout is not None and writer.stdout.readline() == b"ready\n"
        seen = {path.read_bytes() for _ in range(300)}
        writer.kill()
        writer.communicate()
        assert seen | {path.read_bytes()} <= whole


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="no filesystem here that cannot sync a directory")
def test_a_filesystem_that_cannot_sync_directories_is_no_error() -> None:
    with pytest.raises(OSError):
        fd = os.open("/proc", os.O_RDONLY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)
    atomic.sync_directory(Path("/proc"))
