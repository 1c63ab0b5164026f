"""Processes are told apart, and who holds or locks a file is found, with real processes.

Does not cover: systems without /proc, but for the reading of `lsof`.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import struct
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from takeback.host import proc


@contextmanager
def running(*argv: str | bytes | Path, opened: Path | None = None) -> Iterator[subprocess.Popen[bytes]]:
    """Run a process for the block; with `opened` as its stdin, or a pipe."""
    stdin = subprocess.PIPE if opened is None else os.open(opened, os.O_RDONLY)
    child = subprocess.Popen(argv, stdin=stdin, stdout=subprocess.PIPE)
    if opened is not None:
        os.close(stdin)
    try:
        yield child
    finally:
        child.kill()
        child.communicate()


def test_a_process_is_alive_until_it_ends_also_while_nobody_waits_for_it() -> None:
    with running("cat") as child:
        seen = proc.ProcessId(child.pid, proc.start_time(child.pid))
        assert seen.alive()
        child.kill()
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)  # now a zombie
        assert not seen.alive()
    assert not seen.alive()


def test_a_later_process_with_the_same_number_is_another_one() -> None:
    me = proc.myself()
    assert me.alive() and me.pid == os.getpid()
    assert not proc.ProcessId(me.pid, me.start + "0").alive()
    with running("cat") as child:
        assert proc.start_time(child.pid) != me.start
    assert proc.start_time(2**30) == ""
    assert not proc.ProcessId(2**30, "").alive()


def test_a_name_with_blanks_and_brackets_does_not_hide_the_start_time(tmp_path: Path) -> None:
    odd = tmp_path / "a ) 1 (b"
    shutil.copy(shutil.which("cat") or "/bin/cat", odd)
    with running(odd) as child:
        assert proc.ProcessId(child.pid, proc.start_time(child.pid)).alive()


def test_a_command_is_shown_on_one_short_line() -> None:
    with running("sh", "-c", "echo; read x # new\nline \x1b[31m" + "y" * 200) as child:
        assert child.stdout is not None and child.stdout.readline() == b"\n"
        shown = proc.command_of(child.pid)
    assert shown.startswith("sh -c echo; read x # new line")
    assert shown.isprintable() and len(shown) == 80
    assert proc.command_of(2**30) == "?"
    assert proc.command_of(0) == "a process that cannot be seen from here"


def test_holders_are_found_under_every_name_of_a_file(tmp_path: Path) -> None:
    held, linked, free = tmp_path / "held", tmp_path / "hard link", tmp_path / "free"
    held.touch()
    free.touch()
    linked.hardlink_to(held)
    asked = [os.fsencode(path) for path in (held, linked, free, tmp_path / "gone")]
    assert proc.holders(asked) == {}
    with running("sleep", "1000", opened=held) as one, running("sleep", "1000", opened=linked) as two:
        found = proc.holders(asked)
        assert found.keys() == set(asked[:2])
        assert [sorted(pids) for pids in found.values()] == [sorted([one.pid, two.pid])] * 2
    assert proc.holders(asked) == {}
    assert proc.holders([]) == {}


def test_this_process_counts_only_when_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "held"
    path.touch()
    name = os.fsencode(path)
    with open(path, "rb") as file:
        status = os.fstat(file.fileno())
        assert (status.st_dev, status.st_ino) in proc.open_here()
        assert proc.holders([name]) == {}
        assert proc.holders([name], include_self=True) == {name: [os.getpid()]}
    assert (status.st_dev, status.st_ino) not in proc.open_here()


@pytest.mark.skipif(shutil.which("lsof") is None, reason="no lsof on this machine")
def test_lsof_gives_the_same_answer_as_proc(tmp_path: Path) -> None:
    paths = [tmp_path / name for name in ("held", "new\nline", "caf\udce9", "free")]
    for path in paths:
        path.touch()
    wanted: dict[tuple[int, int], list[bytes]] = {}
    for path in paths:
        status = path.stat()
        wanted[(status.st_dev, status.st_ino)] = [os.fsencode(path)]
    with ExitStack() as stack:
        pids = [stack.enter_context(running("sleep", "1000", opened=path)).pid for path in paths[:3]]
        found = sorted(proc._scan_lsof(wanted))
        assert found == sorted(zip(map(os.fsencode, paths), pids, strict=False))
        assert found == sorted(proc._scan_proc(wanted))


_LOCK = """
import fcntl, sys
file = open(sys.argv[1], "r+b")
fcntl.lockf(file, fcntl.LOCK_SH if sys.argv[2] == "shared" else fcntl.LOCK_EX, 10, 100)
print("ready", flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize("how", ["shared", "exclusive"])
def test_a_record_lock_of_another_process_is_seen_and_none_is_taken(tmp_path: Path, how: str) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"x")
    with running(sys.executable, "-c", _LOCK, path, how) as child, open(path, "rb") as file:
        assert child.stdout is not None and child.stdout.readline() == b"ready\n"
        assert proc.lock_holder(file.fileno(), 109, 1) == child.pid
        assert proc.lock_holder(file.fileno(), 0, 200) == child.pid
        assert proc.lock_holder(file.fileno(), 0, 100) is None
        assert proc.lock_holder(file.fileno(), 110, 1) is None
        child.kill()
        child.wait()
        assert proc.lock_holder(file.fileno(), 109, 1) is None


def test_ones_own_lock_is_not_reported(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.touch()
    with open(path, "r+b") as file:
        fcntl.lockf(file, fcntl.LOCK_EX, 10, 0)
        assert proc.lock_holder(file.fileno(), 0, 10) is None


def test_a_file_that_is_not_open_has_no_lock() -> None:
    assert proc.lock_holder(10_000, 0, 10) is None


@pytest.mark.skipif(not hasattr(fcntl, "F_OFD_SETLK"), reason="no open-file-description locks")
def test_a_lock_without_a_process_is_reported_as_pid_0(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.touch()
    with open(path, "r+b") as file, open(path, "r+b") as asking:
        fcntl.fcntl(file, fcntl.F_OFD_SETLK, struct.pack("@hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, 0, 1, 0))
        assert proc.lock_holder(asking.fileno(), 0, 1) == 0
