"""A full disk: under the private data in every kind of checkpoint and in a restore, and under the project itself.

Does not cover: quotas, which the system reports by another number that is mapped to the same error.
"""

from __future__ import annotations

import os
import random
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.cli import Home, Project
from tests.support.content import damage, fill_repository, make_dirty, new_home
from tests.support.gitstate import raw_difference

from .disk import Disk, mounted
from .killing import doctor_says, leftovers

# From "not even the first object" to "all but the last write".
ROOM = (0, 4096, 16384, 65536, 131072, 262144)
_NOISE = random.Random(7)


def _noise(size: int) -> bytes:
    """Bytes that no compression makes smaller."""
    return _NOISE.randbytes(size)


@pytest.fixture
def disk(home: Home) -> Iterator[Disk]:
    """The private data's filesystem."""
    with mounted(home.data, 24 << 20) as found:
        yield found


def _temps(home: Home) -> list[str]:
    patterns = ("tmp_*", "tmp*", ".tmp-*", "*.lock", "db-*", "merge-*", "ignore-*", "index.copy*", "*.new")
    return sorted({str(path) for pattern in patterns for path in home.data.rglob(pattern)})


def _run_until_it_fits(project: Project, disk: Disk, *args: str) -> int:
    """Run a command with more and more room; each failure must be a clean one. Returns how many failed."""
    failed = 0
    for room in ROOM:
        disk.empty()
        disk.fill(room)
        before, raw = project.moment(), project.git_raw()
        result = project.tb(*args, check=False)
        if result.code == 0:
            break
        failed += 1
        assert result.error == "disk-full", (room, result.text)
        assert before.changes() == [], room
        assert raw_difference(raw, project.git_raw()) == [], room
        assert _temps(project.home) == [], room
    disk.empty()
    return failed


def _takes_back(project: Project, id: str) -> None:
    """The checkpoint `id` is the state now, and all of it."""
    was = project.moment()
    damage(project)
    project.write(".env", "gone wrong\n")
    project.tb("restore", id, "--yes")
    assert was.changes() == []
    findings = [one for one in doctor_says(project) if not one.startswith("disk:")]
    assert findings == []


def test_the_first_checkpoint_says_disk_full_and_works_once_there_is_room(repo: Project, disk: Disk) -> None:
    repo.write("data/noise.bin", _noise(300_000))
    assert _run_until_it_fits(repo, disk, "checkpoint") > 0
    _takes_back(repo, repo.checkpoint())


def test_a_later_checkpoint_says_disk_full_and_the_earlier_one_stays_good(repo: Project, disk: Disk) -> None:
    first = repo.checkpoint()
    was = repo.moment()
    make_dirty(repo)
    repo.write("data/noise.bin", _noise(200_000))
    for number in range(600):
        repo.write(f"many/{number % 7}/{number}.txt", f"{number}\n")
    assert _run_until_it_fits(repo, disk, "checkpoint") > 0
    second = repo.checkpoint()
    now = repo.moment()
    _takes_back(repo, second)
    repo.tb("restore", first, "--yes")
    assert was.files == repo.tree() or was.changes() == []
    repo.tb("restore", second, "--yes")
    assert now.changes() == []


def test_ignored_files_that_did_not_fit_are_saved_by_the_next_checkpoint(repo: Project, disk: Disk) -> None:
    repo.checkpoint()
    repo.write(".env", b"TOKEN=" + _noise(100_000))
    repo.write("build/out/app.o", _noise(100_000))
    assert _run_until_it_fits(repo, disk, "checkpoint") > 0
    _takes_back(repo, repo.checkpoint())


def test_a_database_in_use_that_did_not_fit_is_saved_by_the_next_checkpoint(repo: Project, disk: Disk) -> None:
    db = sqlite3.connect(repo.at("app.db"))
    try:
        db.execute("PRAGMA journal_mode=WAL")
        db.execute("CREATE TABLE t (x)")
        db.commit()
        repo.checkpoint()
        db.execute("INSERT INTO t VALUES (?)", (_noise(200_000),))
        db.commit()
        rows = db.execute("SELECT x FROM t").fetchall()
        assert _run_until_it_fits(repo, disk, "checkpoint") > 0
        id = repo.checkpoint()
    finally:
        db.close()
    repo.tb("restore", id, "app.db", "--yes")
    with sqlite3.connect(repo.at("app.db")) as again:
        assert again.execute("SELECT x FROM t").fetchall() == rows
    again.close()


def test_a_restore_without_room_for_its_own_checkpoint_changes_nothing(repo: Project, disk: Disk) -> None:
    id = repo.checkpoint()
    target = repo.moment()
    damage(repo)
    repo.write("data/blob.bin", _noise(200_000))
    wrecked = repo.moment()
    disk.fill(0)
    result = repo.tb("restore", id, "--yes", check=False)
    assert result.error == "disk-full", result.text
    assert wrecked.changes() == []
    disk.empty()
    repo.tb("restore", id, "--yes")
    assert target.changes() == []
    assert leftovers(repo) == []  # until now there may be the mark that the scan's index was not saved
    repo.tb("undo", "--yes")
    assert wrecked.changes() == []


@pytest.mark.parametrize("room", [0, 40960, *(pytest.param(one, marks=pytest.mark.long) for one in (8192, 98304))])
def test_a_restore_that_runs_out_of_room_for_private_data_is_done_or_never_happened(
    repo: Project, disk: Disk, room: int
) -> None:
    id = repo.checkpoint()
    target = repo.moment()
    damage(repo)
    wrecked = repo.moment()
    repo.checkpoint()
    disk.fill(room)
    result = repo.tb("restore", id, "--yes", check=False)
    if result.code != 0:
        assert result.error == "disk-full", result.text
    disk.empty()
    repo.checkpoint()
    assert leftovers(repo) == []
    if target.changes():
        assert wrecked.changes() == []
        repo.tb("restore", id, "--yes")
        assert target.changes() == []
    repo.tb("undo", "--yes")
    assert wrecked.changes() == []


@pytest.mark.parametrize("step", ["undo", "redo"])
def test_an_undo_and_a_redo_without_room_change_nothing(repo: Project, disk: Disk, step: str) -> None:
    repo.step("echo wrecked > src/app.py; rm -r src/lib; echo T=2 > .env")
    if step == "redo":
        repo.tb("undo", "--yes")
    before = repo.moment()
    disk.fill(0)
    result = repo.tb(step, "--yes", check=False)
    assert result.error == "disk-full", result.text
    assert before.changes() == []
    disk.empty()
    repo.tb(step, "--yes")
    assert before.changes() != []


@pytest.mark.parametrize("room", [64 << 10, 0])
def test_reading_commands_work_on_a_full_disk(repo: Project, disk: Disk, room: int) -> None:
    id = repo.checkpoint()
    disk.fill(room)
    for args in (("status",), ("log",), ("show", id), ("du",)):
        repo.tb(*args)
    assert any(one.startswith("disk:") for one in doctor_says(repo))


def test_gc_makes_room_on_a_full_disk(repo: Project, disk: Disk) -> None:
    for number in range(6):
        repo.write("data/blob.bin", _noise(900_000))
        repo.checkpoint("-m", str(number))
    last = repo.moment()
    disk.fill(2 << 20)
    free = disk.free
    repo.tb("gc", "--keep", "1")
    assert disk.free > free
    id = repo.checkpoint()
    damage(repo)
    repo.tb("restore", id, "--yes")
    assert last.changes() == []


@pytest.mark.parametrize(
    ("count", "kept", "size"),
    [(6, 3, 900_000), *(pytest.param(*one, marks=pytest.mark.long) for one in ((6, 1, 900_000), (10, 8, 1_000_000)))],
)
def test_gc_makes_room_where_not_a_byte_is_left(repo: Project, disk: Disk, count: int, kept: int, size: int) -> None:
    """The last case has no room either for the new pack that git makes before it removes the old."""
    for number in range(count):
        repo.write("data/blob.bin", _noise(size))
        repo.checkpoint("-m", str(number))
    last = repo.moment()
    disk.fill(0)
    assert disk.free == 0
    result = repo.tb("gc", "--keep", str(kept))
    assert (result["kept"], len(result["removed"])) == (kept, count - kept)
    assert disk.free > size // 2
    assert _temps(repo.home) == []
    disk.empty()
    id = repo.checkpoint()
    damage(repo)
    repo.tb("restore", id, "--yes")
    assert last.changes() == []
    assert [one for one in doctor_says(repo) if not one.startswith("disk:")] == []


def test_room_for_gc_is_set_aside_while_there_is_plenty(repo: Project, disk: Disk) -> None:
    reserve = disk.path / "reserve"
    disk.fill(5 << 20)
    repo.checkpoint()
    assert not reserve.exists()
    disk.empty()
    repo.checkpoint()
    assert os.stat(reserve).st_blocks * 512 == os.stat(reserve).st_size == 1 << 20
    disk.fill(0)
    repo.tb("gc")
    assert not reserve.exists()


@pytest.fixture
def small_project(tmp_path: Path, home: Home) -> Iterator[tuple[Disk, Project]]:
    """A project that lies on a tiny filesystem."""
    with mounted(tmp_path / "small", 24 << 20) as found:
        yield found, fill_repository(home, found.path / "project")


def test_a_restore_that_does_not_fit_beside_the_project_is_refused_before_the_first_change(
    small_project: tuple[Disk, Project],
) -> None:
    disk, project = small_project
    for number in range(4):
        project.write(f"data/big{number}", _noise(1 << 20))
    id = project.checkpoint()
    target = project.moment()
    for number in range(4):
        os.unlink(project.at(f"data/big{number}"))
    damage(project)
    wrecked = project.moment()
    disk.fill(2 << 20)
    inode = os.stat(project.at("src/app.py")).st_ino
    result = project.tb("restore", id, "--yes", check=False)
    assert result.error == "disk-full", result.text
    assert wrecked.changes() == []
    assert os.stat(project.at("src/app.py")).st_ino == inode
    assert leftovers(project) == []
    disk.empty()
    project.tb("restore", id, "--yes")
    assert target.changes() == []


def test_many_small_files_that_fill_the_last_blocks_are_met_while_staging(small_project: tuple[Disk, Project]) -> None:
    disk, project = small_project
    for number in range(300):
        project.write(f"many/{number}", f"{number}\n")
    id = project.checkpoint()
    target = project.moment()
    project.sh("rm -r many; echo wrecked > src/app.py; rm src/lib/util.py; mkdir other")
    wrecked = project.moment()
    # Their bytes fit, their blocks do not.
    disk.fill(400 << 10)
    result = project.tb("restore", id, "--yes", check=False)
    assert result.error == "disk-full", result.text
    assert wrecked.changes() == []
    assert leftovers(project) == []
    disk.empty()
    project.tb("restore", id, "--yes")
    assert target.changes() == []
    project.tb("undo", "--yes")
    assert wrecked.changes() == []


def test_a_restore_into_a_folder_on_a_full_disk_leaves_no_half_of_it(tmp_path: Path, repo: Project) -> None:
    repo.write("data/noise.bin", _noise(2 << 20))
    id = repo.checkpoint()
    with mounted(tmp_path / "small", 1 << 20) as small:
        target = small.path / "copy"
        result = repo.tb("restore", id, "--to", str(target), check=False)
        assert result.error == "disk-full", result.text
        assert not target.exists()


def test_a_small_home_of_temporary_files_is_no_obstacle(tmp_path: Path) -> None:
    """Nothing big goes through TMPDIR, which is often a small filesystem in memory."""
    from tests.support.cli import Account

    home = new_home(tmp_path / "home", Account("somebody", tmp_path / "home"))
    home.temp.rmdir()
    with mounted(home.temp, 64 << 10):
        repo = fill_repository(home, tmp_path / "project")
        repo.write("data/noise.bin", _noise(1 << 20))
        db = sqlite3.connect(repo.at("app.db"))
        db.execute("CREATE TABLE t (x)")
        db.execute("INSERT INTO t VALUES (?)", (_noise(400_000),))
        db.commit()
        db.close()
        id = repo.checkpoint()
        was = repo.moment()
        damage(repo)
        repo.tb("restore", id, "--yes")
        assert was.changes() == []
