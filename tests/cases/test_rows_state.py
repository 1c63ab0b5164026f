"""Row 29: ignored files, and SQLite databases while they are written.

Does not cover: budgets of rebuildable trees beyond one example.
"""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.support import tree
from tests.support.cli import PATIENCE, Project, wait_for

row = pytest.mark.row

_WRITER = """
import sqlite3, sys, os, time
path, journal, how, ready = sys.argv[1:5]
db = sqlite3.connect(path, isolation_level=None)
db.execute(f"pragma journal_mode={journal}")
db.execute("pragma wal_autocheckpoint=20")
db.execute("create table if not exists t (n integer primary key, a blob, b blob)")
db.execute("create index if not exists i on t (b)")
def add(n):
    # a and b are the same in every row, so that a torn copy shows
    half = os.urandom(300)
    db.execute("insert into t (a, b) values (?, ?)", (half, half))
for n in range(50):
    add(n)
if how == "open transaction":
    db.execute("begin immediate"); add(0); db.execute("update t set a = 'torn'")
open(ready, "w").close()
if how == "crash":
    os.kill(os.getpid(), 9)
n = 0
while True:
    if how == "writing":
        db.execute("begin")
        for _ in range(5):
            add(n)
        db.execute("delete from t where n % 7 = 0")
        db.execute("commit")
    else:
        time.sleep(0.02)
"""


@contextmanager
def writer(project: Project, path: str, journal: str, how: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run a process that holds the database open, or that crashed while it did."""
    os.makedirs(os.path.dirname(project.at(path)), exist_ok=True)
    ready = project.home.path / "writer-ready"
    process = subprocess.Popen(
        [sys.executable, "-c", _WRITER, project.at(path), journal, how, str(ready)], stdout=subprocess.DEVNULL
    )
    try:
        wait_for(ready.exists)
        if how == "crash":
            process.wait(PATIENCE)
        yield process
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGKILL)
        process.wait(PATIENCE)


def check_database(path: bytes) -> int:
    """Assert that the database is whole and untorn; return its number of rows."""
    with sqlite3.connect(os.fsdecode(path)) as db:
        assert db.execute("pragma integrity_check").fetchall() == [("ok",)]
        assert db.execute("select count(*) from t where a <> b").fetchone() == (0,)
        found = db.execute("select count(*) from t").fetchone()[0]
    db.close()
    return int(found)


@row(29)
@pytest.mark.parametrize("damage", ["echo TOKEN=2 > .env", "rm .env", "chmod 644 .env", "ln -sf README.md .env"])
def test_an_ignored_env_file_is_covered(repo: Project, damage: str) -> None:
    then = repo.moment()
    kept = repo.checkpoint()
    repo.sh(damage)
    repo.tb("restore", kept)
    assert then.changes() == []
    repo.step(damage)
    repo.tb("undo")
    assert then.changes() == []


@row(29)
def test_every_ignored_file_is_covered_and_one_made_later_goes_with_the_step(repo: Project) -> None:
    then = repo.moment()
    repo.step("rm -r build ignored-dir debug.log; mkdir -p build/new; echo n > build/new/n; echo o > other.log")
    repo.tb("undo")
    assert then.changes() == []


@row(29)
def test_a_files_checkpoint_says_that_it_is_one_and_its_restore_leaves_ignored_files_alone(repo: Project) -> None:
    made = repo.tb("checkpoint", "--no-state")
    assert made["kind"] == "files"
    repo.write(".env", "TOKEN=3\n")
    repo.write("build/out/app.o", "rebuilt\n")
    repo.write("src/app.py", "x\n")
    ignored = {path: tree.node(repo.at(path)) for path in (".env", "build/out/app.o", "debug.log")}
    repo.tb("restore", made["id"])
    assert {path: tree.node(repo.at(path)) for path in ignored} == ignored
    assert repo.read("src/app.py").startswith(b"line_0")


@row(29)
def test_a_source_older_than_a_kept_build_output_gets_the_present_time(repo: Project) -> None:
    made = repo.tb("checkpoint", "--no-state")
    old = tree.node(repo.at("src/app.py"))
    repo.write("src/app.py", "x\n")
    repo.write("build/out/app.o", "built from x\n")
    built = os.stat(repo.at("build/out/app.o")).st_mtime_ns
    done = repo.tb("restore", made["id"])
    new = tree.node(repo.at("src/app.py"))
    assert new._replace(mtime_ns=0) == old._replace(mtime_ns=0)
    assert new.mtime_ns >= built
    assert done["notes"], "it does not say so"


@row(29)
@pytest.mark.parametrize("path", ["app.db", "build/app.sqlite3", "build/no-extension"])
@pytest.mark.parametrize("journal", ["wal", "delete", "truncate", "persist"])
def test_the_copy_of_a_database_that_is_being_written_is_whole(repo: Project, journal: str, path: str) -> None:
    with writer(repo, path, journal, "writing"):
        kept = [repo.checkpoint() for _ in range(3)]
    for one in kept:
        there = repo.home.path / f"copy-{one}"
        repo.tb("restore", one, "--to", str(there))
        assert check_database(os.fsencode(there / path)) > 0
    for suffix in ("", "-wal", "-shm", "-journal"):
        if repo.exists(path + suffix):
            os.unlink(repo.at(path + suffix))
    repo.tb("restore", kept[0])
    assert check_database(repo.at(path)) > 0


@row(29)
@pytest.mark.parametrize("journal", ["wal", "delete"])
@pytest.mark.parametrize("how", ["idle", "open transaction", "crash"])
def test_a_checkpoint_leaves_database_wal_and_journal_byte_identical(repo: Project, journal: str, how: str) -> None:
    path = "build/app.db"
    with writer(repo, path, journal, how):
        before = {name: node for name, node in repo.tree().items() if b"app.db" in name and not name.endswith(b"-shm")}
        kept = repo.checkpoint()
        after = {name: node for name, node in repo.tree().items() if b"app.db" in name and not name.endswith(b"-shm")}
        assert tree.difference(before, after) == []
    there = repo.home.path / "copy"
    repo.tb("restore", kept, "--to", str(there))
    assert check_database(os.fsencode(there / path)) == 50


@row(29)
def test_a_crashed_writers_database_and_wal_come_back_byte_for_byte(repo: Project) -> None:
    with writer(repo, "build/app.db", "wal", "crash"):
        pass
    assert repo.exists("build/app.db-wal")
    then = repo.moment(skip={b"build/app.db-shm"})
    kept = repo.checkpoint()
    repo.sh("rm build/app.db*")
    repo.tb("restore", kept)
    assert then.changes() == []
    assert check_database(repo.at("build/app.db")) == 50


@row(29)
@pytest.mark.parametrize("verb", ["restore", "undo"])
def test_a_database_that_a_process_holds_open_is_not_replaced_and_the_process_is_named(
    repo: Project, verb: str
) -> None:
    path = "build/app.db"
    with writer(repo, path, "wal", "crash"):
        pass
    kept = repo.checkpoint()
    step = repo.step("rm -f build/app.db*; echo x > src/app.py")
    (repo.home.path / "writer-ready").unlink()
    with writer(repo, path, "wal", "idle") as holder:
        then = repo.moment(skip={b"build/app.db-shm"})
        refused = repo.tb(verb, kept if verb == "restore" else step, check=False)
        assert refused.code == 1
        assert str(holder.pid) in refused.text or path in refused.text
        if verb == "restore":
            assert refused.error == "database-in-use" and str(holder.pid) in refused.text
        assert then.changes() == []
    repo.tb("restore", kept)
    assert check_database(repo.at(path)) == 50


@row(29)
def test_a_database_nobody_holds_is_copied_byte_for_byte(repo: Project) -> None:
    with sqlite3.connect(os.fsdecode(repo.at("plain.db"))) as db:
        db.execute("create table t (a, b)")
        db.execute("insert into t values (1, 1)")
    db.close()
    repo.write("not-really.db", b"SQLite format 3\0 and then nothing")
    repo.write("empty.db")
    kept = repo.checkpoint()
    then = repo.moment()
    repo.sh("rm *.db")
    repo.tb("restore", kept)
    assert then.changes() == []
