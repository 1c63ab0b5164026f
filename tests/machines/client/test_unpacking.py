"""Our own check of a tar's members holds where tarfile has none."""

from __future__ import annotations

import tarfile
from pathlib import Path

import pytest

from takeback.errors import FileRefused
from takeback.machines.client.unpacking import checked


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
