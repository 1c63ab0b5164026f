"""Our own check of a tar's members holds where tarfile has none, or one that can be led outside."""

from __future__ import annotations

import io
import os
import tarfile
from pathlib import Path

import pytest

from takeback.errors import FileRefused
from takeback.machines.client.unpacking import checked, unpack


def member(name: str, kind: bytes = tarfile.REGTYPE, to: str = "", mode: int = 0o644) -> tarfile.TarInfo:
    made = tarfile.TarInfo(name)
    made.type, made.linkname, made.mode, made.uid = kind, to, mode, 0
    return made


@pytest.mark.parametrize(
    "members",
    [
        [member("../x")],
        [member("a/../../x")],
        [member("l", tarfile.SYMTYPE, "/etc")],
        [member("l", tarfile.SYMTYPE, "..")],
        [member("a/l", tarfile.SYMTYPE, "../../x")],
        [member("h", tarfile.LNKTYPE, "../x")],
        [member("l", tarfile.SYMTYPE, "a"), member("l/x")],
        [member("l", tarfile.SYMTYPE, "a"), member("l/b/x")],
        [member("l/x"), member("l", tarfile.SYMTYPE, "a")],
        [member("l", tarfile.SYMTYPE, "a"), member("l")],
        [member("l", tarfile.SYMTYPE, "a"), member("h", tarfile.LNKTYPE, "l/x")],
        [member("l", tarfile.SYMTYPE, "a"), member("h", tarfile.LNKTYPE, "l")],
        [member("l", tarfile.SYMTYPE, "."), member("m", tarfile.SYMTYPE, "l/l/../..")],
    ],
)
def test_what_leads_outside_is_refused(members: list[tarfile.TarInfo], tmp_path: Path) -> None:
    (tmp_path / "target").mkdir()
    with pytest.raises(FileRefused):
        checked(members, tmp_path / "target")


def test_what_stays_inside_loses_only_rights(tmp_path: Path) -> None:
    members = [
        member("/etc/x"),
        member("a/b", mode=0o6777),
        member("a/l", tarfile.SYMTYPE, "../etc/x"),
        member("h", tarfile.LNKTYPE, "a/b"),
    ]
    checked(members, tmp_path)
    assert [one.name for one in members] == ["etc/x", "a/b", "a/l", "h"]
    assert members[1].mode == 0o755


def test_a_link_back_out_of_one_that_lies_there_is_refused(tmp_path: Path) -> None:
    (tmp_path / "l").symlink_to(".")
    with pytest.raises(FileRefused):
        checked([member("m", tarfile.SYMTYPE, "l/l/../..")], tmp_path)


def test_links_to_and_through_links_are_kept(tmp_path: Path) -> None:
    members = [
        member("v1/bin/x"),
        member("now", tarfile.SYMTYPE, "v1"),
        member("bin/x", tarfile.SYMTYPE, "../now/bin/x"),
    ]
    checked(members, tmp_path)
    assert members[2].linkname == "../now/bin/x"


def test_links_too_long_to_follow_reach_no_file_outside(tmp_path: Path) -> None:
    """Links whose real path is over PATH_MAX are taken by the text by os.path.realpath, and so by tarfile's filter."""
    victim = tmp_path / "outside" / "victim"
    victim.parent.mkdir()
    victim.write_text("mine")
    steps, long = "abcdefghijklmnop", "d" * 247
    held, path = io.BytesIO(), ""
    with tarfile.open(fileobj=held, mode="w") as tar:
        for step in steps:
            tar.addfile(member(os.path.join(path, long), tarfile.DIRTYPE, mode=0o755))
            tar.addfile(member(os.path.join(path, step), tarfile.SYMTYPE, long))
            path = os.path.join(path, long)
        deep = "/".join(steps) + "/" + "l" * 254
        tar.addfile(member(deep, tarfile.SYMTYPE, "../" * len(steps)))
        tar.addfile(member("escape", tarfile.SYMTYPE, f"{deep}/../outside"))
        tar.addfile(member("h", tarfile.LNKTYPE, "escape/victim"))
        bad = member("h")
        bad.size = 3
        tar.addfile(bad, io.BytesIO(b"bad"))
    held.seek(0)
    with pytest.raises(FileRefused):
        unpack(held, tmp_path / "target")
    assert victim.read_text() == "mine"
    assert not (tmp_path / "target").exists()
