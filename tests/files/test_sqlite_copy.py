"""Copies of databases that real processes write, hold, lock or left behind when they were killed.

Does not cover: storing and restoring the copies through the command line (see `cases.test_rows_state`).
"""

from __future__ import annotations

import hashlib
import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from takeback.errors import CannotRead, DatabaseInUse
from takeback.files import sqlite_copy as copy
from takeback.host.proc import Holder

needs_root = pytest.mark.skipif(os.getuid() != 0, reason="only root can act as another user")

# Commits 30 rows, then does `how`, says "ready" and lives until its stdin ends.
_WRITER = """
import os, sqlite3, sys
path, mode, locking, how = os.fsencode(sys.argv[1]), *sys.argv[2:5]
db = sqlite3.connect(path, isolation_level=None)
db.execute("pragma locking_mode=" + locking)
db.execute("pragma journal_mode=" + mode)
db.execute("pragma wal_autocheckpoint=0")
db.execute("create table t (n integer primary key, a blob, b blob)")
db.execute("create index i on t (b)")
def add(count):
    for _ in range(count):
        half = os.urandom(400)
        db.execute("insert into t (a, b) values (?, ?)", (half, half))
add(30)
if how == "spilled":  # more pages than the cache holds go to the files before the commit
    db.execute("pragma cache_size=2")
    db.execute("begin immediate")
    db.execute("update t set a = 'torn'")
    add(500)
print("ready", flush=True)
if how == "busy":
    while True:
        db.execute("begin immediate")
        add(5)
        db.execute("delete from t where n % 7 = 0")
        db.execute("commit")
sys.stdin.read()
"""

MODES = ("delete", "truncate", "persist", "wal")
Start = Callable[..., "subprocess.Popen[bytes]"]


@pytest.fixture
def start() -> Iterator[Start]:
    """Start writers that are ended with the test."""
    running: list[subprocess.Popen[bytes]] = []

    def begin(
        path: bytes, mode: str, *, locking: str = "normal", how: str = "idle", uid: int | None = None
    ) -> subprocess.Popen[bytes]:
        # The real interpreter: a virtual environment below /root could not be entered by another user.
        python = sys.executable if uid is None else "/usr/bin/python3"
        writer = subprocess.Popen(
            [python, "-c", _WRITER, path, mode, locking, how],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            user=uid,
            cwd="/",
        )
        running.append(writer)
        assert writer.stdout is not None
        assert writer.stdout.readline() == b"ready\n"
        return writer

    yield begin
    for one in running:
        kill(one)


def kill(writer: subprocess.Popen[bytes]) -> None:
    writer.kill()
    writer.wait()
    for stream in (writer.stdin, writer.stdout):
        if stream is not None:
            stream.close()


@contextmanager
def held(path: bytes) -> Iterator[int]:
    """Let a process that knows nothing of SQLite hold a file open; gives its pid."""
    with open(path, "rb") as file:
        holder = subprocess.Popen(["sleep", "1000"], stdin=file)
    try:
        yield holder.pid
    finally:
        kill(holder)


class Was(NamedTuple):
    mtime_ns: int
    mode: int
    uid: int
    digest: str


def files(path: bytes, *, shm: bool = True) -> dict[bytes, Was]:
    """Return what lies in the directory of a database, read by another process so that no lock of ours is dropped."""
    above = os.path.dirname(path)
    found = {}
    for name in sorted(os.listdir(above)):
        if name.endswith(b"-shm") and not shm:
            continue
        full = os.path.join(above, name)
        seen = os.stat(full)
        digest = subprocess.run(["sha256sum", full], capture_output=True, check=True).stdout
        # a strange name makes sha256sum begin its line with a backslash
        found[name] = Was(seen.st_mtime_ns, seen.st_mode, seen.st_uid, digest.lstrip(b"\\")[:64].decode())
    return found


def rows(path: bytes) -> int:
    """Assert that a database is whole and untorn; return its number of rows."""
    db = sqlite3.connect(path)
    assert db.execute("pragma integrity_check").fetchall() == [("ok",)]
    assert db.execute("select count(*) from t where a <> b").fetchone() == (0,)
    (count,) = db.execute("select count(*) from t").fetchone()
    db.close()
    return int(count)


def journal_mode(path: bytes) -> str:
    db = sqlite3.connect(path)
    (mode,) = db.execute("pragma journal_mode").fetchone()
    db.close()
    return str(mode)


@pytest.fixture
def place(tmp_path: Path) -> bytes:
    (tmp_path / "project").mkdir()
    return os.fsencode(tmp_path / "project")


@pytest.fixture
def into(tmp_path: Path) -> bytes:
    (tmp_path / "private").mkdir()
    return os.fsencode(tmp_path / "private" / "copy")


def test_a_database_is_known_by_its_header_alone(tmp_path: Path) -> None:
    path = tmp_path / "no-extension"
    db = sqlite3.connect(path)
    db.execute("create table t (a)")
    db.close()
    assert copy.looks_like_database(path.read_bytes()[:16])
    assert not copy.looks_like_database(b"SQLite format 3.")
    assert not copy.looks_like_database(b"SQLite")
    assert not copy.looks_like_database(b"")


def test_every_file_of_a_group_leads_to_its_database() -> None:
    assert copy.companions(b"d/a.db") == (b"d/a.db-wal", b"d/a.db-journal", b"d/a.db-shm")
    assert {copy.database_of(name) for name in copy.companions(b"d/a.db")} == {b"d/a.db"}
    assert copy.database_of(b"d/a.db") is None


@pytest.mark.parametrize("mode", MODES)
def test_a_database_nobody_holds_is_planned_byte_for_byte_with_the_companions_that_exist(
    start: Start, place: bytes, mode: str
) -> None:
    path = place + b"/a.db"
    kill(start(path, mode, how="spilled"))
    assert copy.in_use_by([path]) == {}
    plan = copy.plan_copy(path, [])
    assert isinstance(plan, copy.Bytes)
    assert {os.path.basename(name) for name in plan.files} == files(path).keys()
    assert len(plan.files) > 1
    assert plan.before == copy.signature(path)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("locking", ["normal", "exclusive"])
@pytest.mark.parametrize("how", ["idle", "spilled"])
def test_a_copy_of_a_held_database_is_whole_and_the_original_keeps_bytes_and_mtimes(
    start: Start, place: bytes, into: bytes, mode: str, locking: str, how: str
) -> None:
    path = place + b"/a.db"
    writer = start(path, mode, locking=locking, how=how)
    before = files(path)
    found = copy.in_use_by([path])
    assert [one.pid for one in found[path]] == [writer.pid]
    plan = copy.plan_copy(path, found[path])
    assert isinstance(plan, copy.Backup)
    taken = copy.backup(path, into)
    assert files(path) == before
    assert taken.sources[path] == into
    assert {os.path.basename(name) for name in taken.sources.values()} == set(os.listdir(os.path.dirname(into)))
    assert rows(into) == 30
    assert journal_mode(into) == ("wal" if mode == "wal" else "delete")


@pytest.mark.parametrize(
    ("mode", "how"), [("wal", "idle"), ("wal", "spilled"), ("delete", "idle"), ("persist", "idle")]
)
def test_sqlite_makes_the_copy_wherever_a_reader_is_let_in(
    start: Start, place: bytes, into: bytes, mode: str, how: str
) -> None:
    path = place + b"/a.db"
    start(path, mode, how=how)
    taken = copy.backup(path, into)
    assert taken == copy.Taken({path: into}, by_bytes=False)
    assert os.listdir(os.path.dirname(into)) == [b"copy"]
    assert os.stat(into).st_mode & 0o777 == 0o600


def test_bytes_are_copied_with_wal_or_journal_where_no_reader_is_let_in(
    start: Start, place: bytes, into: bytes
) -> None:
    path = place + b"/a.db"
    start(path, "wal", locking="exclusive")
    taken = copy.backup(path, into)
    assert taken == copy.Taken({path: into, path + b"-wal": into + b"-wal"}, by_bytes=True)
    assert rows(into) == 30


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("locking", ["normal", "exclusive"])
@pytest.mark.parametrize("how", ["idle", "spilled"])
def test_what_a_killed_writer_left_is_copied_without_a_change_while_another_process_has_it_open(
    start: Start, place: bytes, into: bytes, mode: str, locking: str, how: str
) -> None:
    path = place + b"/a.db"
    kill(start(path, mode, locking=locking, how=how))
    before = files(path)
    with held(path) as pid:
        assert [one.pid for one in copy.in_use_by([path])[path]] == [pid]
        copy.backup(path, into)
        assert files(path) == before
        assert rows(into) == 30


@pytest.mark.parametrize("mode", MODES)
def test_every_copy_of_a_database_under_constant_writing_is_whole(
    start: Start, place: bytes, into: bytes, mode: str
) -> None:
    path = place + b"/a.db"
    start(path, mode, how="busy")
    for number in range(5):
        target = into + b"%d" % number
        copy.backup(path, target)
        assert rows(target) > 0


def test_a_second_backup_of_an_unchanged_database_has_the_same_bytes_and_signature(
    start: Start, place: bytes, into: bytes
) -> None:
    path = place + b"/a.db"
    start(path, "wal")
    first = copy.signature(path)
    copy.backup(path, into)
    assert copy.signature(path) == first
    copy.backup(path, into + b"2")
    digests = {hashlib.sha256(Path(os.fsdecode(name)).read_bytes()).digest() for name in (into, into + b"2")}
    assert len(digests) == 1


@pytest.mark.parametrize("mode", ["wal", "delete"])
def test_a_commit_changes_the_signature(start: Start, place: bytes, mode: str) -> None:
    path = place + b"/a.db"
    start(path, mode)
    before = copy.signature(path)
    other = sqlite3.connect(path)
    other.execute("insert into t (a, b) values (1, 1)")
    other.commit()
    other.close()
    assert copy.signature(path) != before


def test_a_wal_database_opened_but_never_read_gets_no_new_files(start: Start, place: bytes, into: bytes) -> None:
    path = place + b"/a.db"
    kill(start(path, "wal"))
    db = sqlite3.connect(path)
    assert db.execute("select count(*) from t").fetchone() == (30,)
    db.close()
    assert os.listdir(place) == [b"a.db"]
    with held(path):
        before = files(path)
        assert copy.backup(path, into).by_bytes
        assert files(path) == before
    assert rows(into) == 30
    assert journal_mode(into) == "wal"


@pytest.mark.parametrize(
    "name",
    [b"a?mode=rwc&x=1#y%20%41.db", b"caf\xe9 \xff.db", b"new\nline;'\"$HOME.db", b" -wal", b"d" * 200 + b".db"],
    ids=["uri characters", "not utf-8", "shell characters", "spaces", "long"],
)
@pytest.mark.parametrize("mode", ["wal", "delete"])
def test_a_database_may_have_any_name(start: Start, place: bytes, into: bytes, mode: str, name: bytes) -> None:
    path = place + b"/" + name
    start(path, mode)
    before = files(path)
    assert list(copy.in_use_by([path])) == [path]
    assert copy.backup(path, into).by_bytes is False
    assert rows(into) == 30
    assert files(path) == before


def test_a_path_too_long_for_sqlite_is_copied_by_bytes(place: bytes, into: bytes) -> None:
    deep = place + b"/" + b"/".join([b"d" * 100] * 6)
    os.makedirs(deep)
    made = sqlite3.connect(place + b"/short")
    made.execute("create table t (a, b)")
    made.execute("insert into t values (1, 1)")
    made.commit()
    made.close()
    os.rename(place + b"/short", deep + b"/a.db")
    assert copy.backup(deep + b"/a.db", into).by_bytes
    assert rows(into) == 1


def test_a_file_that_only_has_the_header_of_a_database_is_copied_as_it_is(place: bytes, into: bytes) -> None:
    path = place + b"/a.db"
    with open(path, "wb") as file:
        file.write(copy.MAGIC + b"\x01" * 5000)
    assert copy.backup(path, into).by_bytes
    with open(path, "rb") as one, open(into, "rb") as other:
        assert one.read() == other.read()


def test_a_database_that_this_process_has_open_keeps_its_locks(place: bytes, into: bytes) -> None:
    path = place + b"/a.db"
    db = sqlite3.connect(path, isolation_level=None)
    db.execute("create table t (a, b)")
    db.execute("insert into t values (1, 1)")
    db.execute("begin immediate")
    db.execute("insert into t values (2, 2)")
    assert copy.in_use_by([path]) == {path: [Holder(os.getpid(), copy.in_use_by([path])[path][0].command)]}
    copy.backup(path, into)
    other = [sys.executable, "-c", "import sqlite3, sys; sqlite3.connect(sys.argv[1], 0).execute('begin immediate')"]
    tried = subprocess.run([*other, path], capture_output=True)
    assert b"database is locked" in tried.stderr
    db.execute("commit")
    db.close()
    assert rows(into) == 1


def test_a_byte_copy_for_this_very_process_is_reported_with_its_companions(place: bytes, into: bytes) -> None:
    path = place + b"/caf\xe9.db"
    db = sqlite3.connect(path, isolation_level=None)
    db.execute("pragma locking_mode=exclusive")
    db.execute("pragma journal_mode=wal")
    db.execute("create table t (a, b)")
    db.execute("insert into t values (1, 1)")
    taken = copy.backup(path, into)
    assert taken == copy.Taken({path: into, path + b"-wal": into + b"-wal"}, by_bytes=True)
    db.close()
    assert rows(into) == 1


def test_replacing_a_held_database_is_refused_with_the_name_of_the_process(start: Start, place: bytes) -> None:
    path = place + b"/a.db"
    writer = start(path, "delete")
    free = place + b"/free.db"
    kill(start(free, "delete"))
    copy.refuse_if_in_use([free])
    with pytest.raises(DatabaseInUse) as refused:
        copy.refuse_if_in_use([free, path])
    assert refused.value.fields["pid"] == writer.pid
    assert "a.db" in str(refused.value) and sys.executable in str(refused.value)
    kill(writer)
    copy.refuse_if_in_use([free, path])


def test_a_process_that_only_holds_a_companion_counts(start: Start, place: bytes) -> None:
    path = place + b"/a.db"
    kill(start(path, "wal"))
    with held(path + b"-wal") as pid:
        assert [one.pid for one in copy.in_use_by([path])[path]] == [pid]


# What an ordinary user sees: asks in_use_by in a process of its own.
_ASK = """
import os, sys
from takeback.files import sqlite_copy
os.setgroups([]); os.setgid(int(sys.argv[1])); os.setuid(int(sys.argv[1]))
for path, found in sqlite_copy.in_use_by([os.fsencode(name) for name in sys.argv[2:]]).items():
    print(os.fsdecode(path), [one.pid for one in found])
"""


@pytest.fixture
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[bytes]:
    """A directory that every user may enter and write; pytest's own are closed to others."""
    top = Path("/tmp") / f"tb-shared-{os.getpid()}"
    top.mkdir()
    top.chmod(0o777)
    yield os.fsencode(top)
    subprocess.run(["rm", "-r", top], check=True)


def asked_as(uid: int, *paths: bytes) -> str:
    done = subprocess.run([sys.executable, "-c", _ASK, str(uid), *paths], capture_output=True, check=True, cwd="/")
    return done.stdout.decode()


@needs_root
@pytest.mark.parametrize(("mode", "how"), [("wal", "idle"), ("delete", "spilled")])
def test_a_process_of_another_user_is_seen_by_its_locks(start: Start, shared: bytes, mode: str, how: str) -> None:
    path = shared + b"/a.db"
    writer = start(path, mode, how=how, uid=12345)
    assert asked_as(54321, path) == f"{os.fsdecode(path)} [{writer.pid}]\n"
    kill(writer)
    assert asked_as(54321, path) == ""


@needs_root
@pytest.mark.parametrize("mode", MODES)
def test_root_copies_another_users_database_and_changes_no_owner(
    start: Start, shared: bytes, into: bytes, mode: str
) -> None:
    path = shared + b"/a.db"
    start(path, mode, uid=12345)
    before = files(path)
    assert {was.uid for was in before.values()} == {12345}
    assert copy.backup(path, into).by_bytes is False
    assert files(path) == before
    assert rows(into) == 30


@needs_root
def test_root_gives_no_wal_to_another_owner(start: Start, shared: bytes, into: bytes) -> None:
    path = shared + b"/a.db"
    start(path, "wal", uid=12345)
    os.chown(path + b"-wal", 54321, 0)
    before = files(path)
    assert copy.backup(path, into).by_bytes
    assert files(path) == before
    assert rows(into) == 30


def test_a_database_that_is_gone_or_no_file_is_named_and_leaves_nothing(place: bytes, into: bytes) -> None:
    os.mkfifo(place + b"/fifo")
    os.symlink(b"nowhere", place + b"/link")
    for name in (b"gone", b"fifo", b"link", b""):
        with pytest.raises(CannotRead):
            copy.backup(place + b"/" + name, into)
        assert os.listdir(os.path.dirname(into)) == []


def test_a_copy_never_overwrites_what_is_there(start: Start, place: bytes, into: bytes) -> None:
    path = place + b"/a.db"
    start(path, "delete")
    for suffix in (b"", b"-wal"):
        with open(into + suffix, "wb") as file:
            file.write(b"precious")
        with pytest.raises(FileExistsError):
            copy.backup(path, into)
        with open(into + suffix, "rb") as file:
            assert file.read() == b"precious"
        os.unlink(into + suffix)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[bytes]:
    if os.getuid() != 0:
        pytest.skip("only root can mount a small disk")
    at = tmp_path / "small"
    at.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "none", at], check=True)
    yield os.fsencode(at)
    subprocess.run(["umount", at], check=True)


@pytest.mark.parametrize("locking", ["normal", "exclusive"])
def test_a_full_disk_is_an_error_and_leaves_no_part_of_a_copy(
    start: Start, place: bytes, small_disk: bytes, locking: str
) -> None:
    path = place + b"/a.db"
    start(path, "delete", locking=locking, how="spilled")
    with pytest.raises(OSError, match="No space left"):
        copy.backup(path, small_disk + b"/copy")
    assert os.listdir(small_disk) == []
