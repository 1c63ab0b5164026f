"""Namespaces that outlive who made them, and are entered by somebody else."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from takeback.host import pid_one, spaces

if sys.platform != "linux":
    pytest.skip("namespaces are Linux's", allow_module_level=True)

NOTE = "import sys, pathlib; from takeback.host import spaces; spaces.write(pathlib.Path(sys.argv[1]))"


@pytest.fixture
def held(tmp_path: Path) -> Iterator[tuple[subprocess.Popen[bytes], Path]]:
    """A pid namespace in which a shell has left a sleep behind, and the file that names it."""
    note = tmp_path / "namespaces.json"
    script = f'setsid sleep 1000 & {sys.executable} -c "{NOTE}" {note}; exit 7'
    argv = ["unshare", "-Urmpf", "--mount-proc", "--", sys.executable, "-IS", pid_one.__file__, "sh", "-c", script]
    source = os.fspath(Path(pid_one.__file__).parents[2])
    process = subprocess.Popen(argv, env={**os.environ, "PYTHONPATH": source}, stderr=subprocess.PIPE)
    until = time.monotonic() + 20
    while not note.exists() and process.poll() is None and time.monotonic() < until:
        time.sleep(0.01)
    if process.poll() is not None:
        assert process.stderr is not None
        pytest.skip(f"no namespaces here: {process.stderr.read().decode()}")
    yield process, note
    process.kill()
    process.wait()
    assert process.stderr is not None
    process.stderr.close()


def sleeping(first: int) -> int:
    # One that ends between its listing and its reading makes cat fail.
    return entered(first, "sh", "-c", "cat /proc/[0-9]*/comm 2>/dev/null; true").split().count("sleep")


def wait_for(first: int, sleepers: int) -> None:
    until = time.monotonic() + 20
    while sleeping(first) != sleepers:
        assert time.monotonic() < until
        time.sleep(0.01)


def entered(first: int, *command: str) -> str:
    argv = ["nsenter", f"--target={first}", "--user", "--mount", "--pid", "--preserve-credentials", "--", *command]
    return subprocess.run(argv, capture_output=True, text=True, check=True).stdout


def test_what_was_left_runs_on_and_is_found_by_whoever_enters(held: tuple[subprocess.Popen[bytes], Path]) -> None:
    process, note = held
    first = spaces.find(note)
    assert first is not None
    wait_for(first, 1)
    # Somebody who entered is no child of PID 1's: it stays for them too.
    other = subprocess.Popen(
        ["nsenter", f"--target={first}", "--user", "--mount", "--pid", "--preserve-credentials", "--", "sleep", "999"]
    )
    wait_for(first, 2)
    entered(first, "pkill", "-f", "sleep 1000")
    wait_for(first, 1)
    entered(first, "pkill", "-f", "sleep 999")
    assert other.wait(20) == -signal.SIGTERM
    assert process.wait(20) == 0  # nobody is in it any more
    assert spaces.find(note) is None


def test_with_pid_1_all_of_it_ends(held: tuple[subprocess.Popen[bytes], Path]) -> None:
    process, note = held
    first = spaces.find(note)
    assert first is not None
    os.kill(first, signal.SIGKILL)
    assert process.wait(20) != 0
    assert spaces.find(note) is None


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"boot": "another", "user": "user:[1]", "mnt": "m", "pid": "p"}'])
def test_a_spoiled_or_old_file_names_none(tmp_path: Path, text: str) -> None:
    (tmp_path / "note").write_text(text)
    assert spaces.find(tmp_path / "note") is None
