from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from zlib import crc32

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from takeback.errors import Busy, CannotRead, CannotWrite, Damaged, DiskFull, StoreReadOnly, TakebackError
from takeback.store.create import FORMAT
from takeback.store.sqlite import SqliteStore
from tests.store.samples import CHECKPOINTS, EVENTS, checkpoint, event


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "time line?#%41.sqlite"


@pytest.fixture
def filled(path: Path) -> Path:
    """A closed timeline of some pages."""
    with SqliteStore(path) as store, store.transaction():
        for number in range(400):
            store.append(event(f"event {number} " * 10))
        for one in CHECKPOINTS:
            store.put_checkpoint(one)
    return path


def test_what_was_written_is_there_after_opening_again(path: Path) -> None:
    with SqliteStore(path) as store:
        for one in EVENTS:
            store.append(one)
        store.put_checkpoint(CHECKPOINTS[0])
        store.set_meta("root", "/p")
        store.next_number("r")
    with SqliteStore(path, create=False) as store:
        assert tuple(store.events()) == EVENTS
        assert store.checkpoint("c1") == CHECKPOINTS[0]
        assert store.get_meta("root") == "/p"
        assert store.next_number("r") == 3


def test_a_missing_file_is_damage_where_none_is_to_be_made(path: Path) -> None:
    with pytest.raises(Damaged, match="the file is missing") as caught:
        SqliteStore(path, create=False)
    assert "takeback doctor --rebuild" in caught.value.hint_text
    assert not path.exists()


def test_a_newer_format_can_be_read_but_not_written(filled: Path) -> None:
    with sqlite3.connect(filled) as db:
        db.execute(f"PRAGMA user_version = {FORMAT + 1}")
        db.execute("ALTER TABLE events ADD COLUMN mood TEXT")
        db.execute("UPDATE events SET body = ?, crc = ? WHERE seq = 2", _newer_event())
    db.close()
    content = filled.read_bytes()
    with SqliteStore(filled) as store:
        assert store.read_only
        assert len(list(store.events())) == 399
        assert next(store.checkpoints()) == CHECKPOINTS[2]
        assert store.verify() == ()
        for write in _writes(store):
            with pytest.raises(StoreReadOnly, match="format 2, this one knows 1"):
                write()
    assert filled.read_bytes() == content


def _newer_event() -> tuple[bytes, int]:
    body = b'{"schema":1,"seq":2,"id":"h1","kind":"approval","at_ns":1}'
    return body, crc32(body)


def _writes(store: SqliteStore) -> list[Callable[[], object]]:
    def transaction() -> None:
        with store.transaction():
            pass

    return [
        lambda: store.append(event()),
        lambda: store.put_checkpoint(checkpoint(9)),
        lambda: store.forget_checkpoints(["c1"]),
        lambda: store.next_number("c"),
        lambda: store.set_meta("a", "b"),
        transaction,
    ]


def test_a_newer_event_in_a_file_of_this_format_is_an_error(filled: Path) -> None:
    with sqlite3.connect(filled) as db:
        db.execute("UPDATE events SET body = ?, crc = ? WHERE seq = 2", _newer_event())
    db.close()
    with SqliteStore(filled) as store, pytest.raises(StoreReadOnly):
        list(store.events())


@pytest.mark.parametrize("content", [b"", b"not a database at all" * 50, b"SQLite format 3\0" + b"\0" * 84])
def test_a_file_that_is_no_timeline_is_damaged_and_left_alone(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    with pytest.raises(Damaged) as caught:
        SqliteStore(path)
    assert str(path) in str(caught.value)
    assert "takeback doctor --rebuild" in caught.value.hint_text
    assert path.read_bytes() == content


def test_another_programs_database_is_not_a_timeline(path: Path) -> None:
    with sqlite3.connect(path) as db:
        db.execute("CREATE TABLE events (seq INTEGER PRIMARY KEY, crc, body)")
    db.close()
    with pytest.raises(Damaged, match="it is not a timeline"):
        SqliteStore(path)


def test_a_missing_table_is_damage(filled: Path) -> None:
    with sqlite3.connect(filled) as db:
        db.execute("DROP TABLE checkpoints")
    db.close()
    with SqliteStore(filled) as store:
        with pytest.raises(Damaged, match="no such table"):
            list(store.checkpoints())
        with pytest.raises(Damaged, match="no such table"):
            store.put_checkpoint(checkpoint(1))
        assert any("no such table" in problem for problem in store.verify())


@pytest.mark.parametrize("keep", [1, 99, 100, 4096, 3 * 4096, 0.5, 0.99, -1, -4096])
def test_a_truncated_file_is_damaged(filled: Path, keep: float) -> None:
    size = filled.stat().st_size
    os.truncate(filled, int(keep * size) if 0 < keep < 1 else int(keep) if keep > 0 else size + int(keep))
    with pytest.raises(Damaged) as caught, SqliteStore(filled) as store:
        list(store.events())
        list(store.checkpoints())
    assert "takeback doctor --rebuild" in caught.value.hint_text


@given(at=st.integers(0), bit=st.integers(0, 7))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=150, deadline=None)
def test_a_flipped_bit_never_gives_a_wrong_event_unnoticed(filled: Path, at: int, bit: int) -> None:
    flipped = filled.with_name("flipped.sqlite")
    content = bytearray(filled.read_bytes())
    content[at % len(content)] ^= 1 << bit
    flipped.write_bytes(content)
    with SqliteStore(filled) as store:
        right = {one.seq: one for one in store.events()}
        catalogue = {one.id: one for one in store.checkpoints()}
    try:
        with SqliteStore(flipped) as store:
            for one in store.events():
                assert right[one.seq] == one
            for other in store.checkpoints():
                assert catalogue[other.id] == other
    except TakebackError as exc:
        assert isinstance(exc, Damaged | CannotRead)
    finally:
        for end in ("", "-wal", "-shm"):
            flipped.with_name(flipped.name + end).unlink(missing_ok=True)


def test_verify_names_each_damaged_event(filled: Path) -> None:
    with sqlite3.connect(filled) as db:
        db.execute("UPDATE events SET body = replace(body, 'event 4', 'event 5') WHERE seq IN (5, 41)")
        db.execute("UPDATE events SET seq = 1000 WHERE seq = 70")
        db.execute("UPDATE checkpoints SET crc = 0 WHERE number = 10")
        db.execute("UPDATE checkpoints SET number = 11 WHERE number = 2")
    db.close()
    with SqliteStore(filled) as store:
        problems = store.verify()
        assert [problem.split("damaged: ")[-1] for problem in problems] == [
            "event 5 is not what was written",
            "event 41 is not what was written",
            "event 1000: it is event 70",
            "checkpoint c10 is not what was written",
            "checkpoint c11: it is c2",
        ]
        with pytest.raises(Damaged, match="event 5 is not what was written"):
            list(store.events())
        assert store.append(event()).seq == 1001


def test_a_damaged_tree_that_leads_in_circles_is_left(filled: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with SqliteStore(filled) as store:
        rows = store._all("SELECT seq, crc, body FROM events WHERE seq IN (7, 8)")
        monkeypatch.setattr(store, "_all", lambda *query: rows)
        with pytest.raises(Damaged, match="event 7 comes after event 8"):
            list(store.events())


def test_another_writer_is_waited_for_and_then_named_busy(filled: Path) -> None:
    with SqliteStore(filled, wait=0.05) as one, SqliteStore(filled, wait=0.05) as other:
        with one.transaction():
            one.append(event("first"))
            with pytest.raises(Busy):
                other.append(event("second"))
            assert other.last_seq == 400
        assert other.append(event("second")).seq == 402


def test_errors_of_the_callers_own_database_are_not_the_stores(filled: Path) -> None:
    with SqliteStore(filled) as store, pytest.raises(sqlite3.OperationalError), store.transaction():
        store.append(event("lost"))
        raise sqlite3.OperationalError("database disk image is malformed")
    with SqliteStore(filled) as store:
        assert store.last_seq == 400


def test_the_log_file_is_private_too(path: Path) -> None:
    old = os.umask(0)
    try:
        with SqliteStore(path) as store:
            store.append(event())
            found = {one.name.removeprefix(path.name): one.stat().st_mode & 0o777 for one in path.parent.iterdir()}
    finally:
        os.umask(old)
    assert found == {"": 0o600, "-wal": 0o600, "-shm": 0o600}


def test_nothing_but_the_file_is_left_after_closing(filled: Path) -> None:
    with SqliteStore(filled) as store:
        store.append(event())
        list(store.events())
    assert [one.name for one in filled.parent.iterdir()] == [filled.name]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everything")
def test_a_file_that_may_not_be_written_says_so(filled: Path) -> None:
    filled.chmod(0o400)
    with SqliteStore(filled) as store:
        assert store.last_seq == 400
        with pytest.raises(CannotWrite):
            store.append(event())


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A filesystem of one megabyte."""
    where = tmp_path / "disk"
    where.mkdir()
    if os.geteuid() != 0 or shutil.which("mount") is None:
        pytest.skip("only root can mount a small filesystem")
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", where], capture_output=True).returncode:
        pytest.skip("mounting is not allowed here")
    try:
        yield where
    finally:
        subprocess.run(["umount", where], check=True)


def test_a_full_disk_says_so_and_loses_nothing(small_disk: Path) -> None:
    path = small_disk / "timeline.sqlite"
    ballast = small_disk / "ballast"
    ballast.write_bytes(b"x" * 300_000)
    written = 0
    with SqliteStore(path) as store:
        with pytest.raises(DiskFull, match="no space left on the disk"):
            while True:
                store.append(event(f"{written} " + "x" * 1000))
                written += 1
        assert written > 10
        with pytest.raises(DiskFull), store.transaction():
            store.append(event("y" * 100_000))
            store.append(event("y" * 100_000))
        assert [one.text.split()[0] for one in store.events()] == [str(number) for number in range(written)]
    ballast.unlink()
    with SqliteStore(path) as store:
        assert store.append(event("after")).seq == written + 1
        assert store.verify() == ()


def test_what_follows_a_full_disk_in_the_same_transaction_is_not_written(small_disk: Path) -> None:
    path = small_disk / "timeline.sqlite"
    with SqliteStore(path) as store:
        store.append(event("kept"))
        with pytest.raises(DiskFull), store.transaction():
            with pytest.raises(DiskFull):
                store.append(event("y" * 3_000_000))
            store.append(event("after the failure"))
            store.append(event("y" * 3_000_000))
        assert [one.text for one in store.events()] == ["kept"]


def test_no_room_to_make_the_file_says_so_and_leaves_none(small_disk: Path) -> None:
    (small_disk / "ballast").write_bytes(b"x" * (1024 * 1024 - 8192))
    with pytest.raises(DiskFull):
        SqliteStore(small_disk / "timeline.sqlite")
    assert [one.name for one in small_disk.iterdir()] == ["ballast"]
