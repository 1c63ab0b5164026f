"""What keepers of removed data directories left on the machine is removed by any other, and nothing else is."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path

import pytest

from takeback.machines.engines.gvisor import limits, room
from takeback.machines.engines.gvisor.cgroups import Cgroups

HOUR = 3600.0


@pytest.fixture
def memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that stands for /dev/shm."""
    place = tmp_path / "memory"
    place.mkdir()
    monkeypatch.setattr(room, "on_tmpfs", lambda folder: True)
    return place


def scratch(memory: Path, data: Path) -> room.Scratch:
    data.mkdir()
    made = room.Scratch(data)
    made._place = memory
    return made


def aged(folder: Path, seconds: float) -> Path:
    then = time.time() - seconds
    for path in (*folder.iterdir(), folder):
        os.utime(path, (then, then), follow_symlinks=False)
    return folder


def made(one: room.Scratch, name: str) -> Path:
    folder = one.make(name)
    assert folder is not None
    return folder


def test_only_folders_of_data_directories_that_are_gone_are_abandoned(memory: Path, tmp_path: Path) -> None:
    mine, alive, gone = (scratch(memory, tmp_path / name) for name in ("mine", "alive", "gone"))
    folders = [aged(made(one, "copy"), HOUR) for one in (mine, alive, gone)]
    fresh = made(gone, "fresh")
    assert mine.abandoned() == []
    (tmp_path / "other").mkdir()  # now, so that it does not get the number of the one that goes
    shutil.rmtree(tmp_path / "gone")
    assert mine.abandoned() == [folders[2]]
    aged(fresh, HOUR)
    (fresh / "pages.img").write_bytes(b"being written")
    assert mine.abandoned() == [folders[2]]
    # Another directory where the old one was is not the old one.
    os.rename(tmp_path / "other", tmp_path / "gone")
    aged(fresh, HOUR)
    assert mine.abandoned() == sorted([folders[2], fresh])
    assert folders[0] in mine.all() and folders[2] not in mine.all()


def test_a_folder_that_does_not_say_whose_it_is_is_left_for_a_day(memory: Path, tmp_path: Path) -> None:
    mine = scratch(memory, tmp_path / "mine")
    nameless = memory / f"takeback-{os.getuid()}-1-2"
    nameless.mkdir()
    stranger = memory / f"takeback-{os.getuid() + 1}-1-2.copy"
    stranger.mkdir()
    link = memory / f"takeback-{os.getuid()}-1-3.copy"
    link.symlink_to(tmp_path)
    aged(nameless, HOUR)
    assert mine.abandoned() == []
    aged(nameless, 25 * HOUR)
    aged(stranger, 25 * HOUR)
    assert mine.abandoned() == [nameless]


def test_only_old_groups_in_which_nothing_runs_are_removed(tmp_path: Path) -> None:
    found = Cgroups("takeback-0-1-1", None, (("memory", tmp_path),))
    for name in ("takeback-0-1-1/tbmine", "takeback-0-1-2/tbold", "takeback-0-1-3/tbbusy/task", "takeback-0-1-4/tbnew"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "system").mkdir()
    for path in tmp_path.rglob("*"):
        if path.name != "tbnew":
            os.utime(path, (1, 1))
    removed = limits.abandoned(found, "takeback-0-")
    assert sorted(path.name for path in removed) == ["takeback-0-1-2", "tbold"]
    assert (tmp_path / "takeback-0-1-4" / "tbnew").is_dir() and (tmp_path / "takeback-0-1-1" / "tbmine").is_dir()
