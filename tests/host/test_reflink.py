"""Block-sharing copies, on real filesystems that have them and on one that has not.

Does not cover: macOS, where `clone` is always False.
"""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from takeback.host import reflink

_MAKE = {"xfs": ["mkfs.xfs", "-q", "-m", "reflink=1"], "btrfs": ["mkfs.btrfs", "-q"]}
_SIZE = 320 * 1024 * 1024  # the smallest XFS is 300 MiB; the file is sparse


def _run(*argv: str | Path) -> bytes:
    return subprocess.run(argv, check=True, capture_output=True).stdout


@pytest.fixture(params=sorted(_MAKE))
def cow(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    """A freshly made filesystem that can share blocks, mounted from a file."""
    make = _MAKE[request.param]
    if os.getuid() != 0:
        pytest.skip("only root can mount a filesystem")
    if shutil.which(make[0]) is None:
        pytest.skip(f"no {make[0]} on this machine")
    if not os.path.exists("/dev/loop-control"):
        pytest.skip("no loop devices on this machine")
    image, at = tmp_path / "image", tmp_path / "mounted"
    with open(image, "wb") as file:
        file.truncate(_SIZE)
    _run(*make, image)
    at.mkdir()
    device = _run("losetup", "--find", "--show", image).decode().strip()
    try:
        _run("mount", "-t", request.param, device, at)
        try:
            yield at
        finally:
            _run("umount", at)
    finally:
        _run("losetup", "--detach", device)
        image.unlink()


@pytest.fixture
def other(tmp_path: Path) -> Iterator[Path]:
    """A second filesystem."""
    if os.getuid() != 0:
        pytest.skip("only root can mount a filesystem")
    at = tmp_path / "tmpfs"
    at.mkdir()
    _run("mount", "-t", "tmpfs", "-o", "size=16m", "none", at)
    yield at
    _run("umount", at)


def cloned(source: Path, target: Path) -> bool:
    with open(source, "rb") as one, open(target, "wb") as two:
        return reflink.clone(one.fileno(), two.fileno())


def test_a_clone_has_the_bytes_but_takes_no_room_of_its_own(cow: Path) -> None:
    size = 64 * 1024 * 1024
    (cow / "a").write_bytes(os.urandom(size) + b"tail")
    _run("sync", "-f", cow)
    before = os.statvfs(cow)
    assert cloned(cow / "a", cow / "b")
    _run("sync", "-f", cow)
    after = os.statvfs(cow)
    assert (cow / "b").read_bytes() == (cow / "a").read_bytes()
    assert (before.f_bfree - after.f_bfree) * before.f_frsize < size / 4


def test_a_change_of_the_original_leaves_the_clone_as_it_was(cow: Path) -> None:
    (cow / "a").write_bytes(b"old" * 100_000)
    assert cloned(cow / "a", cow / "b")
    with open(cow / "a", "r+b") as file:
        file.write(b"new" * 1000)
    assert (cow / "b").read_bytes() == b"old" * 100_000


def test_an_empty_file_and_an_unwritten_one_are_cloned(cow: Path) -> None:
    (cow / "empty").write_bytes(b"")
    assert cloned(cow / "empty", cow / "b")
    assert (cow / "b").read_bytes() == b""
    with open(cow / "a", "wb") as fresh, open(cow / "c", "wb") as target:
        fresh.write(b"still in memory" * 1000)
        fresh.flush()
        with open(cow / "a", "rb") as source:
            assert reflink.clone(source.fileno(), target.fileno())
    assert (cow / "c").read_bytes() == b"still in memory" * 1000


def test_the_probe_says_what_the_filesystem_can(cow: Path, other: Path) -> None:
    (cow / "sub").mkdir()
    assert reflink.supported(os.fsencode(cow), os.fsencode(cow / "sub"))
    assert not reflink.supported(os.fsencode(cow), os.fsencode(other))
    assert not reflink.supported(os.fsencode(other), os.fsencode(cow))
    assert not reflink.supported(os.fsencode(other), os.fsencode(other))


def test_the_probe_is_not_seen_in_the_directory(cow: Path) -> None:
    before = os.stat(cow)
    assert reflink.supported(os.fsencode(cow), os.fsencode(cow))
    after = os.stat(cow)
    assert os.listdir(cow) == []
    assert (after.st_mtime_ns, after.st_ctime_ns) == (before.st_mtime_ns, before.st_ctime_ns)


def test_another_filesystem_is_no_clone_and_the_target_stays_empty(cow: Path, other: Path) -> None:
    (cow / "a").write_bytes(b"x" * 5000)
    assert not cloned(cow / "a", other / "b")
    assert not cloned(cow / "a", Path("/dev/null"))
    assert (other / "b").read_bytes() == b""


def test_a_filesystem_without_shared_blocks_is_no_clone(other: Path) -> None:
    (other / "a").write_bytes(b"x" * 5000)
    assert not cloned(other / "a", other / "b")


def test_a_directory_that_is_not_there_or_cannot_be_written_has_no_support(tmp_path: Path) -> None:
    assert not reflink.supported(os.fsencode(tmp_path), os.fsencode(tmp_path / "gone"))
    assert not reflink.supported(b"/proc", os.fsencode(tmp_path))


def test_a_mistake_of_the_caller_is_an_error(cow: Path) -> None:
    (cow / "a").write_bytes(b"x")
    with open(cow / "a", "rb") as source, open(cow / "a", "rb") as not_writable, pytest.raises(OSError) as raised:
        reflink.clone(source.fileno(), not_writable.fileno())
    assert raised.value.errno == errno.EBADF


def test_a_full_disk_is_an_error_or_no_clone_but_never_a_clone_without_the_bytes(cow: Path) -> None:
    (cow / "a").write_bytes(os.urandom(1024 * 1024))
    with open(cow / "fill", "wb", buffering=0) as fill, pytest.raises(OSError, match="No space left"):
        while True:
            fill.write(b"f" * (8 * 1024 * 1024))
            os.fsync(fill.fileno())
    try:
        if cloned(cow / "a", cow / "b"):
            assert (cow / "b").read_bytes() == (cow / "a").read_bytes()
    except OSError as error:
        assert error.errno == errno.ENOSPC
