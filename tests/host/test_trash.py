"""Folders that are taken away at once and deleted while nobody waits."""

from __future__ import annotations

import os
import time
from pathlib import Path

from takeback.host import trash


def test_a_folder_is_gone_at_once_and_soon_deleted_however_closed_it_is(tmp_path: Path) -> None:
    tree, place = tmp_path / "tree", os.fsencode(tmp_path / "trash")
    (tree / "deep/er").mkdir(parents=True)
    (tree / "deep/er/file").write_text("x")
    (tree / "deep").chmod(0o500)
    assert trash.discard(os.fsencode(tree), place)
    assert not tree.exists()
    end = time.monotonic() + 30
    while os.listdir(place):
        assert time.monotonic() < end, os.listdir(place)
        time.sleep(0.02)


def test_what_a_killed_deletion_left_goes_with_the_next(tmp_path: Path) -> None:
    place = tmp_path / "trash"
    (place / "left/over").mkdir(parents=True)
    trash.clear(os.fsencode(place))
    assert os.listdir(place) == []


def test_what_cannot_be_moved_stays(tmp_path: Path) -> None:
    assert not trash.discard(os.fsencode(tmp_path / "none"), os.fsencode(tmp_path / "trash"))
