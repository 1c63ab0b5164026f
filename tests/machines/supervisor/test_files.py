"""`init file OP`: each operation, what it refuses, and the form of its answers."""

from __future__ import annotations

import errno
import os
import pwd
import socket
import stat
import subprocess
from pathlib import Path

import pytest

from takeback.machines.channel.stats import Stat, read_records


class Operations:
    """Runs file operations as processes, as the channel does."""

    def __init__(self, binary: Path) -> None:
        self.binary = binary

    def run(self, *args: object, feed: bytes = b"") -> subprocess.CompletedProcess[bytes]:
        argv = [
            str(self.binary),
            "file",
            *(os.fsencode(str(arg)) if not isinstance(arg, bytes) else arg for arg in args),
        ]
        env = {"ASAN_OPTIONS": "detect_leaks=0"}
        return subprocess.run(argv, input=feed, capture_output=True, env=env, check=False)

    def __call__(self, *args: object, feed: bytes = b"") -> bytes:
        done = self.run(*args, feed=feed)
        assert (done.returncode, done.stderr) == (0, b"")
        return done.stdout

    def fails(self, number: int, *args: object, feed: bytes = b"") -> str:
        done = self.run(*args, feed=feed)
        assert done.returncode == 1
        code, _, path = done.stderr.decode().rstrip("\n").partition(" ")
        assert int(code) == number, done.stderr
        return path


@pytest.fixture
def op(binary: Path) -> Operations:
    return Operations(binary)


def test_read_gives_the_bytes_and_refuses_what_is_no_file(op: Operations, tmp_path: Path) -> None:
    data = os.urandom(1_000_003)
    (tmp_path / "file").write_bytes(data)
    (tmp_path / "link").symlink_to("file")
    os.mkfifo(tmp_path / "fifo")
    assert op("read", tmp_path / "file") == data
    assert op("read", tmp_path / "link") == data
    assert op.fails(errno.EISDIR, "read", tmp_path) == str(tmp_path)
    op.fails(errno.EINVAL, "read", tmp_path / "fifo")
    op.fails(errno.EINVAL, "read", "/dev/zero")
    op.fails(errno.ENOENT, "read", tmp_path / "none")
    op.fails(errno.EINVAL, "read", "relative")


def test_write_replaces_as_a_whole_and_makes_parents(op: Operations, tmp_path: Path) -> None:
    path = tmp_path / "a" / "b" / "file"
    op("write", path, 5, "-", feed=b"hello")
    assert path.read_bytes() == b"hello" and stat.S_IMODE(path.stat().st_mode) == 0o644
    path.chmod(0o750)
    op("write", path, 0, "-", feed=b"")
    assert path.read_bytes() == b"" and stat.S_IMODE(path.stat().st_mode) == 0o750
    op("write", path, 2, "600", feed=b"hi and more that is not asked for")
    assert path.read_bytes() == b"hi" and stat.S_IMODE(path.stat().st_mode) == 0o600
    assert os.listdir(path.parent) == ["file"]


def test_a_write_that_is_cut_off_leaves_the_old_file_and_nothing_else(op: Operations, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"old")
    op.fails(errno.EPIPE, "write", tmp_path / "file", 10, "-", feed=b"half")
    assert (tmp_path / "file").read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["file"]


def test_write_goes_through_a_link_to_its_file_and_refuses_others(op: Operations, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"old")
    (tmp_path / "link").symlink_to("file")
    op("write", tmp_path / "link", 3, "-", feed=b"new")
    assert (tmp_path / "link").is_symlink() and (tmp_path / "file").read_bytes() == b"new"
    op.fails(errno.EISDIR, "write", tmp_path, 0, "-")
    op.fails(errno.EISDIR, "write", f"{tmp_path}/new/", 0, "-")
    op.fails(errno.EINVAL, "write", "/dev/null", 0, "-")
    assert Path("/dev/null").is_char_device()
    op.fails(errno.ENOTDIR, "write", tmp_path / "file" / "below", 0, "-")


def test_stat_follows_links_and_tells_a_dangling_one_as_itself(op: Operations, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"12345")
    os.chmod(tmp_path / "file", 0o4751)
    os.utime(tmp_path / "file", ns=(1, 1_500_000_000_123_456_789))
    (tmp_path / "link").symlink_to("file")
    (tmp_path / "dangling").symlink_to("nowhere")
    (found,) = read_records(op("stat", tmp_path / "link"))
    me = pwd.getpwuid(os.getuid()).pw_name
    assert found.path == os.fsencode(tmp_path / "link")
    assert (found.type, found.size, found.mode, found.owner) == ("f", 5, 0o4751, me)
    assert found.mtime_ns == 1_500_000_000_123_456_789
    (dangling,) = read_records(op("stat", tmp_path / "dangling"))
    assert (dangling.type, dangling.target) == ("l", b"nowhere")
    op.fails(errno.ENOENT, "stat", tmp_path / "none")


def test_a_time_before_1970_is_told_as_one(op: Operations, tmp_path: Path) -> None:
    (tmp_path / "old").write_bytes(b"")
    os.utime(tmp_path / "old", ns=(0, -1_500_000_000))
    (found,) = read_records(op("stat", tmp_path / "old"))
    assert found.mtime_ns == -1_500_000_000


def test_list_is_sorted_parents_first_and_follows_no_link(op: Operations, tmp_path: Path) -> None:
    (tmp_path / "b" / "inner" / "deep").mkdir(parents=True)
    (tmp_path / "a").write_bytes(b"")
    os.mkfifo(tmp_path / "c")
    (tmp_path / "d").symlink_to("b")
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(tmp_path / "e"))
    (tmp_path / os.fsdecode(b"\xff\n")).write_bytes(b"")

    def names(depth: int) -> list[tuple[bytes, str]]:
        return [(one.path, one.type) for one in read_records(op("list", tmp_path, depth))]

    level = [(b"a", "f"), (b"b", "d"), (b"c", "p"), (b"d", "l"), (b"e", "s"), (b"\xff\n", "f")]
    assert names(1) == level
    assert names(2) == [*level[:2], (b"b/inner", "d"), *level[2:]]
    assert (b"b/inner/deep", "d") in names(9) and names(0) == []
    op.fails(errno.ENOTDIR, "list", tmp_path / "a", 1)
    op.fails(errno.ENOENT, "list", tmp_path / "none", 1)


def test_several_folders_are_listed_with_whole_paths_and_what_is_none_is_left_out(
    op: Operations, tmp_path: Path
) -> None:
    (tmp_path / "b" / "inner" / "deep").mkdir(parents=True)
    (tmp_path / "a").write_bytes(b"")
    (tmp_path / "d").symlink_to("b")
    asked = [tmp_path / "b/inner", tmp_path / "none", tmp_path / "a", tmp_path / "d", tmp_path / "b"]

    def names(depth: int) -> list[str]:
        return [os.fsdecode(one.path) for one in read_records(op("list-each", *asked, depth))]

    assert names(1) == [f"{tmp_path}/b/inner/deep", f"{tmp_path}/b/inner"]
    assert names(2) == [f"{tmp_path}/b/inner/deep", f"{tmp_path}/b/inner", f"{tmp_path}/b/inner/deep"]
    assert {os.fsdecode(one.path) for one in read_records(op("list-each", "/", 1))} >= {"/etc", "/usr"}


def test_mkdir_with_and_without_parents(op: Operations, tmp_path: Path) -> None:
    op.fails(errno.ENOENT, "mkdir", tmp_path / "a" / "b", 0)
    op("mkdir", tmp_path / "a" / "b", 1)
    op("mkdir", tmp_path / "a" / "b", 1)
    op.fails(errno.EEXIST, "mkdir", tmp_path / "a", 0)
    op("mkdir", tmp_path / "c", 0)
    assert (tmp_path / "a" / "b").is_dir() and (tmp_path / "c").is_dir()
    (tmp_path / "file").write_bytes(b"")
    op.fails(errno.ENOTDIR, "mkdir", tmp_path / "file", 1)


def test_remove_says_whether_it_was_there_and_never_follows(op: Operations, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "precious").write_bytes(b"")
    tree = tmp_path / "tree"
    (tree / "a" / "b").mkdir(parents=True)
    (tree / "a" / "out").symlink_to(outside)
    (tmp_path / "link").symlink_to(outside)
    assert op("remove", tmp_path / "none", 0) == b"0"
    op.fails(errno.ENOTEMPTY, "remove", tree, 0)
    assert op("remove", tree, 1) == b"1"
    assert op("remove", f"{tmp_path}/link/", 1) == b"1"
    assert not tree.exists() and not (tmp_path / "link").is_symlink()
    assert os.listdir(outside) == ["precious"]
    assert op("remove", outside / "precious", 0) == b"1"
    assert op("remove", outside, 0) == b"1"


@pytest.mark.long
def test_a_deep_tree_can_be_listed_packed_and_removed(op: Operations, tmp_path: Path) -> None:
    top = os.open(tmp_path, os.O_RDONLY)
    for _ in range(1500):
        os.mkdir("d", dir_fd=top)
        inner = os.open("d", os.O_RDONLY, dir_fd=top)
        os.close(top)
        top = inner
    os.close(top)
    assert len(read_records(op("list", tmp_path, 10_000))) == 1500
    packed = op("pack", tmp_path / "d")
    assert op("remove", tmp_path / "d", 1) == b"1"
    op("unpack", tmp_path / "d", feed=packed)
    assert len(read_records(op("list", tmp_path, 10_000))) == 1500
    op("remove", tmp_path / "d", 1)
    assert os.listdir(tmp_path) == []


def test_rename_overwrites_only_when_told(op: Operations, tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"a")
    (tmp_path / "b").write_bytes(b"b")
    assert op.fails(errno.EEXIST, "rename", tmp_path / "a", tmp_path / "b", 0) == str(tmp_path / "b")
    op("rename", tmp_path / "a", tmp_path / "b", 1)
    op("rename", tmp_path / "b", tmp_path / "c", 0)
    assert os.listdir(tmp_path) == ["c"] and (tmp_path / "c").read_bytes() == b"a"
    op.fails(errno.ENOENT, "rename", tmp_path / "none", tmp_path / "d", 0)


def test_chmod_and_what_is_no_operation(op: Operations, tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"a")
    op("chmod", tmp_path / "a", "4711")
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o4711
    op.fails(errno.EINVAL, "chmod", tmp_path / "a", "9")
    op.fails(errno.EINVAL, "chmod", tmp_path / "a", "-1")
    op.fails(errno.ENOSYS, "explode", tmp_path)
    op.fails(errno.ENOSYS, "read", tmp_path, "more")


def test_a_record_of_another_version_with_unknown_fields_can_be_read() -> None:
    body = b"\x01\x01\0\0\0a" + b"\x02\x01\0\0\0f" + b"\x63\x03\0\0\0new"
    assert read_records(len(body).to_bytes(4, "little") + body) == [Stat(b"a", "f", 0, 0, 0, 0, 0, b"", "", "")]
