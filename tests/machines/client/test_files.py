"""The files of a real machine, the same for both faces."""

from __future__ import annotations

import io
import os
import tarfile
from pathlib import Path

import pytest

from takeback.errors import (
    FileExists,
    FileNotFound,
    FileRefused,
    InvalidRequest,
    IsADirectory,
    NotADirectory,
    PermissionDenied,
    TakebackError,
)
from tests.machines.client.faces import Face


async def test_bytes_and_text_come_back_as_they_were_written(face: Face) -> None:
    async with await face.create() as box:
        for content in (b"", b"\0\xff\n" * 1000, bytes(range(256)) * 20_000):
            await box.files.write("/workspace/deep/er/file", content)
            assert await box.files.read("/workspace/deep/er/file") == content
        await box.files.write("/workspace/text", "grün\n")
        assert await box.files.read_text("/workspace/text") == "grün\n"
        assert (await box.exec("cat text; stat -c '%a %U' text")).stdout == "grün\n644 runtime\n"


async def test_modes_are_kept_or_set(face: Face) -> None:
    async with await face.create() as box:
        await box.files.write("/workspace/run", "#!/bin/sh\necho ran\n", mode="755")
        await box.files.write("/workspace/run", "#!/bin/sh\necho again\n")
        assert (await box.exec("./run")).stdout == "again\n"
        await box.files.chmod("/workspace/run", 0o600)
        assert (await box.files.stat("/workspace/run"))["mode"] == "0600"
        with pytest.raises(InvalidRequest):
            await box.files.chmod("/workspace/run", "rwx")


async def test_listing_says_what_is_there(face: Face) -> None:
    async with await face.create() as box:
        await box.exec(
            "mkdir -p a/b && echo 12345 > a/b/f.py && ln -s b/f.py a/link && mkfifo a/pipe && touch .hid a/x"
        )
        listed = await box.files.list("/workspace", depth=3)
        shown = [(entry["path"], entry["type"]) for entry in listed]
        assert shown == [
            ("/workspace/.hid", "file"),
            ("/workspace/a", "directory"),
            ("/workspace/a/b", "directory"),
            ("/workspace/a/b/f.py", "file"),
            ("/workspace/a/link", "symlink"),
            ("/workspace/a/pipe", "other"),
            ("/workspace/a/x", "file"),
        ]
        found = next(entry for entry in listed if entry["name"] == "f.py")
        assert (found["size"], found["mode"], found["uid"], found["owner"]) == (6, "0644", 1000, "runtime")
        assert found["modifiedAt"].endswith("Z")
        assert next(entry for entry in listed if entry["name"] == "link")["symlinkTarget"] == "b/f.py"
        assert [entry["name"] for entry in await box.files.list()] == [".hid", "a"]
        assert [entry["name"] for entry in await box.files.list(hidden=False, depth=2, limit=2)] == ["a", "b"]
        assert [entry["path"] for entry in await box.files.glob("**/*.py")] == ["/workspace/a/b/f.py"]
        assert [entry["name"] for entry in await box.files.glob("x")] == ["x"]


async def test_stat_and_exists(face: Face) -> None:
    async with await face.create() as box:
        assert await box.files.stat("/workspace/nothing") == {"exists": False}
        assert await box.files.exists("/etc/passwd") and not await box.files.exists("/etc/nothing")
        found = await box.files.stat("/workspace")
        assert (found["exists"], found["type"], found["path"]) == (True, "directory", "/workspace")


async def test_folders_are_made_moved_and_removed(face: Face) -> None:
    async with await face.create() as box:
        await box.files.mkdir("/workspace/a/b")
        await box.files.mkdir("/workspace/a/b")
        await box.files.write("/workspace/a/f", "f")
        await box.files.rename("/workspace/a/f", "/workspace/g")
        await box.files.write("/workspace/h", "h")
        with pytest.raises(FileExists):
            await box.files.rename("/workspace/g", "/workspace/h")
        await box.files.rename("/workspace/g", "/workspace/h", overwrite=True)
        assert await box.files.read("/workspace/h") == b"f"
        with pytest.raises(TakebackError):
            await box.files.remove("/workspace/a")
        assert await box.files.remove("/workspace/a", recursive=True)
        assert not await box.files.remove("/workspace/a", recursive=True)
        with pytest.raises(TakebackError):
            await box.files.mkdir("/workspace/x/y", parents=False)


async def test_errors_name_the_path(face: Face) -> None:
    async with await face.create() as box:
        for error, call in (
            (FileNotFound, box.files.read("/workspace/none")),
            (IsADirectory, box.files.read("/workspace")),
            (NotADirectory, box.files.list("/etc/passwd")),
            (PermissionDenied, box.files.read("/etc/shadow")),
            (PermissionDenied, box.files.write("/etc/new", "x")),
            (FileNotFound, box.files.download("/workspace/none", "/tmp/never")),
            (InvalidRequest, box.files.read("relative")),
            (InvalidRequest, box.files.list("/", limit=-1)),
            (InvalidRequest, box.files.write("/workspace/x", "x", mode=True)),
            (TypeError, box.files.write("/workspace/x", 5)),  # no five zeros
        ):
            with pytest.raises(error) as caught:
                await call
            assert "/" in str(caught.value) or error in (InvalidRequest, TypeError)
        with pytest.raises(FileNotFound):
            [data async for data in box.files.read_stream("/workspace/none")]
        assert not Path("/tmp/never").exists()


async def test_large_files_go_up_and_down_in_pieces(face: Face, tmp_path: Path) -> None:
    async with await face.create() as box:
        source = tmp_path / "large"
        source.write_bytes(os.urandom(1 << 20) * 64)
        os.chmod(source, 0o755)
        await box.files.upload(source, "/workspace/large")
        assert (await box.files.stat("/workspace/large"))["mode"] == "0755"
        await box.files.download("/workspace/large", tmp_path / "back")
        assert (tmp_path / "back").read_bytes() == source.read_bytes()
        size = 0
        async for data in box.files.read_stream("/workspace/large"):
            size += len(data)
            assert len(data) <= 1 << 20
        assert size == 64 << 20
        assert sorted(os.listdir(tmp_path)) == ["back", "large"]


@pytest.mark.long
async def test_a_download_to_a_fifo_is_written_into_it_and_not_put_in_its_place(face: Face, tmp_path: Path) -> None:
    """With rights, the same call with /dev/null made an ordinary file of it."""
    async with await face.create() as box:
        os.mkfifo(tmp_path / "fifo")
        reader = os.open(tmp_path / "fifo", os.O_RDONLY | os.O_NONBLOCK)
        try:
            await box.files.write("/workspace/file", "text")
            await box.files.download("/workspace/file", tmp_path / "fifo")
            assert os.read(reader, 100) == b"text"
        finally:
            os.close(reader)
        assert (tmp_path / "fifo").is_fifo()
        assert os.listdir(tmp_path) == ["fifo"]


async def test_folders_go_up_and_down_whole(face: Face, tmp_path: Path) -> None:
    async with await face.create() as box:
        source = tmp_path / "tree"
        (source / "sub").mkdir(parents=True)
        (source / "sub" / "file").write_text("text")
        (source / "link").symlink_to("sub/file")
        (source / ("n" * 200)).write_bytes(b"")
        await box.files.upload(source, "/workspace/tree")
        assert (await box.exec("cat tree/link; stat -c %U tree/sub")).stdout == "textruntime\n"
        await box.files.download("/workspace/tree", tmp_path / "back")
        assert (tmp_path / "back" / "sub" / "file").read_text() == "text"
        assert os.readlink(tmp_path / "back" / "link") == "sub/file"
        names = tarfile.open(fileobj=io.BytesIO(await box.files.archive("/workspace/tree", gzip=False))).getnames()
        assert any(name.endswith("sub/file") for name in names)


async def test_nothing_is_written_outside_the_target_of_a_download(face: Face, tmp_path: Path) -> None:
    async with await face.create() as box:
        await box.exec("mkdir t && ln -s /etc t/out && ln -s ../.. t/up && echo x > t/file")
        with pytest.raises(FileRefused) as caught:
            await box.files.download("/workspace/t", tmp_path / "t")
        assert "out" in str(caught.value)
        assert os.listdir(tmp_path) == []


async def test_an_upload_that_fails_leaves_the_old_file(face: Face) -> None:
    async with await face.create() as box:
        await box.files.write("/workspace/file", "old")
        await box.exec("mkdir dir")
        with pytest.raises(IsADirectory):
            await box.files.write("/workspace/dir", bytes(3_000_000))
        assert await box.files.read("/workspace/file") == b"old"
        assert (await box.exec("ls -A . dir")).stdout.split() == [".:", "dir", "file", "dir:"]
