"""Timelines written by every version so far are read by this one. The golden files are never made again."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from takeback.store.create import FORMAT
from takeback.store.sqlite import SqliteStore
from tests.store.samples import CHECKPOINTS, EVENTS, event

GOLDEN = Path(__file__).parents[1] / "golden"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return Path(shutil.copy(GOLDEN / "timeline-v1.sqlite", tmp_path / "timeline.sqlite"))


def test_a_timeline_of_version_1_is_read_as_it_was_written(path: Path) -> None:
    with SqliteStore(path, create=False) as store:
        assert tuple(store.events()) == EVENTS
        assert tuple(store.checkpoints(newest_first=False)) == CHECKPOINTS
        assert store.get_meta("root") == "/p/\udcff"
        assert store.verify() == ()


def test_a_timeline_of_version_1_can_be_written_on(path: Path) -> None:
    with SqliteStore(path, create=False) as store:
        assert store.append(event("more")).seq == 9
        assert [store.next_number(prefix) for prefix in "csruyk"] == [13, 2, 2, 2, 2, 1]
    with SqliteStore(path, create=False) as store:
        assert [one.text for one in store.events(after_seq=8)] == ["more"]


def test_there_is_a_golden_timeline_of_every_version() -> None:
    assert sorted(one.name for one in GOLDEN.glob("timeline-v*")) == [
        f"timeline-v{n}.sqlite" for n in range(1, FORMAT + 1)
    ]
