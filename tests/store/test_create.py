from __future__ import annotations

import os
from pathlib import Path

import pytest

from takeback.errors import CannotWrite, Damaged
from takeback.store.create import create_if_missing, put_aside
from takeback.store.sqlite import SqliteStore
from tests.store.samples import event


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "timeline.sqlite"


def test_the_file_is_private_whatever_the_umask(path: Path) -> None:
    old = os.umask(0)
    try:
        create_if_missing(path)
    finally:
        os.umask(old)
    assert path.stat().st_mode & 0o777 == 0o600
    assert [one.name for one in path.parent.iterdir()] == [path.name]


def test_what_is_there_is_left_alone(path: Path) -> None:
    path.write_bytes(b"mine")
    create_if_missing(path)
    assert path.read_bytes() == b"mine"


def test_what_a_dead_maker_left_is_no_hindrance_and_is_not_played_in(path: Path) -> None:
    # A log of another file's changes, as it is left when the file is removed under a killed writer.
    with SqliteStore(path) as store:
        store.append(event("of another life"))
        log = path.with_name(path.name + "-wal").read_bytes()
    path.unlink()
    path.with_name(path.name + "-wal").write_bytes(log)
    path.with_name(path.name + ".new").write_bytes(b"half")
    path.with_name(path.name + ".new-wal").write_bytes(log)
    with SqliteStore(path) as store:
        assert list(store.events()) == []
        assert store.verify() == ()
    assert [one.name for one in path.parent.iterdir()] == [path.name]


def test_a_missing_directory_says_what_cannot_be_written(path: Path) -> None:
    with pytest.raises(CannotWrite, match="No such file or directory"):
        create_if_missing(path.parent / "no" / "timeline.sqlite")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_directory_that_may_not_be_written_says_so(path: Path) -> None:
    path.parent.chmod(0o500)
    with pytest.raises(CannotWrite, match="Permission denied"):
        create_if_missing(path)


def test_a_damaged_file_is_put_aside_with_its_log_and_a_new_one_made(path: Path) -> None:
    log = path.with_name(path.name + "-wal")
    for number in (1, 2):
        with SqliteStore(path) as store:
            store.append(event("old"))
        path.write_bytes(b"damaged")
        with pytest.raises(Damaged):
            SqliteStore(path)
        log.write_bytes(b"log")
        aside = put_aside(path)
        assert aside == path.with_name(f"timeline.sqlite.damaged-{number}")
        assert aside.read_bytes() == b"damaged"
        assert aside.with_name(aside.name + "-wal").read_bytes() == b"log"
        with SqliteStore(path) as store:
            assert list(store.events()) == []
    assert put_aside(path.with_name("nothing")) is None
