"""What a diff says of real machines, with their files in layers and in memory."""

from __future__ import annotations

from typing import Any

import pytest

from takeback.errors import SnapshotNotFound
from takeback.machines.client.snapshots import Snapshots
from tests.machines.client.conftest import World
from tests.machines.client.faces import Face

STEP = """
set -e
cd /workspace
echo new > added
echo longer > grown
printf 'b' > same-size
rm gone
rm -r tree/old
mkdir -p tree/fresh/deep && echo x > tree/fresh/deep/file
chmod 600 mode
ln -sfn other link
rm -r opaque && mkdir opaque && echo 2 > opaque/two
printf x > "$(printf 'raw\\377name')"
echo ignored > /tmp/nowhere
"""
BEFORE = """
set -e
cd /workspace
printf a > same-size; echo x > grown; echo x > gone; echo x > mode; ln -s one link; echo same > touched
mkdir -p tree/old/deep opaque; echo 12345 > tree/old/deep/file; echo 1 > opaque/one
"""


# Anywhere in the image, before and after a copy is made.
EARLIER = """
set -e
echo '# more' >> /etc/bash.bashrc
mkdir -p /opt/made/deep /usr/share/perl5/Debconf/deep
echo 1 > /opt/made/deep/file
rm -r /usr/share/zsh
rm -r /usr/share/menu; echo a file > /usr/share/menu
"""
ANYWHERE = """
set -e
echo '# and more' >> /etc/bash.bashrc
echo 2 > /usr/share/perl5/Debconf/deep/new
echo '# changed' >> /usr/share/perl5/Error.pm
chmod 700 /usr/share/dict
rm -r /usr/share/terminfo; mkdir /usr/share/terminfo; echo x > /usr/share/terminfo/x
rm -r /usr/share/pixmaps; ln -s misc /usr/share/pixmaps
rm -r /usr/share/python3
rm /usr/share/menu; mkdir -p /usr/share/menu/now/a; echo x > /usr/share/menu/now/a/folder
mv /usr/share/perl /usr/share/perl-moved
cp -a /usr/share/common-licenses /opt/made/deep/copied
mkdir /usr/share/zsh
"""


@pytest.fixture(params=["layers", "memory"])
def disk(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def paths(diff: dict[str, Any], kind: str) -> dict[str, tuple[int | None, int | None]]:
    top = "/workspace/"
    return {
        entry["path"].removeprefix(top): (entry["size"], entry["oldSize"])
        for entry in diff[kind]
        if entry["path"].startswith(top) and entry["type"] != "directory"
    }


def check(diff: dict[str, Any]) -> None:
    assert paths(diff, "added") == {
        "added": (4, None),
        "tree/fresh/deep/file": (2, None),
        "opaque/two": (2, None),
        "raw\udcffname": (1, None),
    }
    assert paths(diff, "changed") == {"grown": (7, 2), "same-size": (1, 1), "mode": (2, 2), "link": (0, 0)}
    assert paths(diff, "deleted") == {"gone": (None, 2), "tree/old/deep/file": (None, 6), "opaque/one": (None, 2)}
    names = [entry["path"] for kind in ("added", "changed", "deleted") for entry in diff[kind]]
    assert not [name for name in names if name.startswith(("/tmp", "/run", "/proc", "/etc/machine-id"))]
    assert "/workspace/tree/old" in names and "/workspace/tree" not in names
    assert diff["totals"] == {kind: len(diff[kind]) for kind in ("added", "changed", "deleted")}
    assert diff["bytes"] == sum(entry["size"] for kind in ("added", "changed") for entry in diff[kind])


async def test_a_diff_names_what_a_step_did_and_nothing_else(face: Face, disk: str) -> None:
    async with await face.create(disk=disk) as box:
        assert (await box.exec(BEFORE)).exit_code == 0
        async with await box.fork(lease=600) as copy:
            assert (await copy.exec(STEP)).exit_code == 0
            check(await copy.diff())
            check(await copy.diff(box.id))
            back = await box.diff(copy.id)
            assert paths(back, "deleted").keys() == paths(await copy.diff(), "added").keys()
            nothing = await box.diff()
            assert {"gone", "grown", "tree/old/deep/file"} <= paths(nothing, "added").keys()


@pytest.mark.long
async def test_files_in_memory_and_in_layers_tell_the_same_of_any_change(one: Face) -> None:
    told: list[list[Any]] = []
    for disk in ("layers", "memory"):
        async with await one.create(disk=disk, user="root") as box:
            assert (await box.exec(EARLIER)).exit_code == 0
            before = await box.snapshot()
            async with await box.fork(lease=600) as copy:
                assert (await copy.exec(ANYWHERE)).exit_code == 0
                diffs = [
                    await copy.diff(),
                    await copy.diff(box.id),
                    await box.diff(copy.id),
                    await box.diff(before["id"]),
                ]
                diffs += [await box.diff(), await copy.diff(before["id"])]
            told.append([{kind: _told(diff[kind]) for kind in ("added", "changed", "deleted")} for diff in diffs])
            await box.delete_snapshot(before["id"])
    layers, memory = told
    assert len(layers[0]["added"]) > 100 and len(layers[0]["deleted"]) > 100 and layers[3]["added"] == set()
    assert ("/usr/share/dict", "directory", None, None) in layers[0]["changed"]
    assert memory == layers


def _told(entries: list[dict[str, Any]]) -> set[tuple[str, str, int | None, int | None]]:
    """Entries without the sizes of folders."""
    return {
        (one["path"], one["type"], *((None, None) if one["type"] == "directory" else (one["size"], one["oldSize"])))
        for one in entries
    }


async def test_two_snapshots_and_a_restored_machine_are_compared(face: Face, world: World, disk: str) -> None:
    snapshots = Snapshots(world.client)
    async with await face.create(disk=disk) as box:
        await box.exec(BEFORE)
        first = await box.snapshot()
        await box.exec(STEP)
        check(await box.diff(first["id"]))
        check(await box.diff(first))
        second = await box.snapshot()
        check(snapshots.diff(second["id"], first["id"]))
        check(snapshots.diff(second["id"]))
        await box.restore(first)
        assert (await box.diff())["totals"] == {"added": 0, "changed": 0, "deleted": 0}
        assert paths(await box.diff(second), "added").keys() == {"gone", "tree/old/deep/file", "opaque/one"}
        with pytest.raises(SnapshotNotFound):
            await box.diff("nothing")
        for one in snapshots.list():
            snapshots.delete(one["id"])


async def test_what_was_only_read_touched_or_written_alike_is_no_change(one: Face) -> None:
    async with await one.create(disk="layers") as box:
        await box.exec("echo same > /workspace/touched; mkdir /workspace/dir")
        async with await box.fork() as copy:
            await copy.exec(
                "cat touched; touch touched dir; echo same > touched; sudo touch /etc/passwd; chmod 644 touched"
            )
            assert (await copy.diff())["totals"] == {"added": 0, "changed": 0, "deleted": 0}


@pytest.mark.long
async def test_a_tree_of_ten_thousand_files_is_compared(one: Face) -> None:
    async with await one.create(disk="layers") as box:
        made = "for d in $(seq 100); do mkdir d$d; (cd d$d; for f in $(seq 100); do echo > $f; done); done"
        assert (await box.exec(made)).exit_code == 0
        async with await box.fork() as copy:
            await copy.exec("rm -r d7; echo more > d8/1")
            diff = await copy.diff()
            assert diff["totals"] == {"added": 0, "changed": 1, "deleted": 101}
            whole = await box.diff()
            assert whole["totals"]["added"] == 10_100
