"""Locks between real processes, one of them killed.

Does not cover: who takes which lock.
"""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from takeback.errors import Busy
from takeback.host import locks

_HOLD = """
import sys
from pathlib import Path
from takeback.host import locks
with locks.held(Path(sys.argv[1]), what="a long restore", wait=0):
    print("ready", flush=True)
    sys.stdin.read()
"""


@contextmanager
def other(path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Run a process that holds the lock; killed at the end if it still runs."""
    holder = subprocess.Popen([sys.executable, "-c", _HOLD, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert holder.stdin is not None and holder.stdout is not None
    try:
        assert holder.stdout.readline() == b"ready\n"
        yield holder
    finally:
        holder.kill()
        holder.wait()
        holder.stdin.close()
        holder.stdout.close()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "lock"


def test_busy_names_the_process_and_what_it_does(path: Path) -> None:
    with other(path) as holder:
        assert locks.is_held(path)
        with pytest.raises(Busy) as busy, locks.held(path, what="test", wait=0):
            pass
        assert f"process {holder.pid} (a long restore)" in str(busy.value)


def test_the_lock_of_a_killed_process_is_free_and_not_blamed_on_it(path: Path) -> None:
    with other(path) as holder:
        holder.kill()
        holder.wait()
        assert not locks.is_held(path)
        assert json.loads(path.read_bytes())["pid"] == holder.pid
        with locks.held(path, what="test", wait=0):
            assert locks.owner(path) == f"process {os.getpid()} (test)"


def test_a_dead_owners_note_is_not_taken_for_the_present_holder(path: Path) -> None:
    with other(path) as holder:
        holder.kill()
        holder.wait()
    with open(path, "rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        with pytest.raises(Busy, match="an unknown process"), locks.held(path, what="test", wait=0):
            pass


def test_a_lock_that_is_let_go_while_another_waits_is_taken(path: Path) -> None:
    with other(path) as holder:
        assert holder.stdin is not None
        waiter = subprocess.Popen(
            [sys.executable, "-c", _HOLD.replace("wait=0", "wait=300"), path],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert waiter.stdin is not None and waiter.stdout is not None
        holder.stdin.close()
        assert waiter.stdout.readline() == b"ready\n"
        assert locks.owner(path) == f"process {waiter.pid} (a long restore)"
        waiter.communicate()
        assert waiter.returncode == 0


def test_an_error_in_the_block_frees_the_lock_and_clears_the_note(path: Path) -> None:
    with pytest.raises(KeyError), locks.held(path, what="test", wait=0):
        raise KeyError
    assert not locks.is_held(path)
    assert path.read_bytes() == b""


def test_a_child_process_does_not_keep_the_lock(path: Path) -> None:
    with locks.held(path, what="test", wait=0):
        child = subprocess.Popen(["sleep", "1000"], close_fds=False)
    try:
        assert not locks.is_held(path)
    finally:
        child.kill()
        child.wait()


def test_two_who_ask_at_the_same_time_do_not_see_each_other(path: Path) -> None:
    path.touch()
    with open(path, "rb") as asking:
        fcntl.flock(asking, fcntl.LOCK_SH)
        assert not locks.is_held(path)


def test_a_lock_nobody_made_is_not_held(path: Path) -> None:
    assert not locks.is_held(path)
    assert not path.exists()
    assert locks.owner(path) == "an unknown process"


@pytest.mark.skipif(os.getuid() != 0, reason="only root can mount a small disk")
def test_on_a_full_disk_the_lock_still_works(tmp_path: Path) -> None:
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16k", "none", tmp_path], check=True)
    try:
        path = tmp_path / "lock"
        path.touch()
        with open(tmp_path / "fill", "wb", buffering=0) as fill, pytest.raises(OSError, match="No space left"):
            while True:
                fill.write(b"f" * 4096)
        with locks.held(path, what="gc", wait=0):
            assert path.read_bytes() == b""
            assert locks.is_held(path)
        assert not locks.is_held(path)
    finally:
        subprocess.run(["umount", tmp_path], check=True)


def test_the_next_owner_is_told_whether_the_last_one_died(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with locks.held(path, what="test", wait=0) as died:
        assert not died
    with locks.held(path, what="test", wait=0) as died:
        assert not died
    with other(path):
        pass
    with locks.held(path, what="test", wait=0) as died:
        assert died
    with locks.held(path, what="test", wait=0) as died:
        assert not died
