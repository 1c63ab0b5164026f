"""Children of ours: their environment, their output, and how they are ended.

Does not cover: recorded steps (see `host.command`).
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from takeback.host import process


def test_a_child_sees_only_the_allowed_part_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_DIR", "/elsewhere")
    monkeypatch.setenv("LC_ALL", "xx_YY")
    monkeypatch.setenv("API_TOKEN", "secret")
    out = process.start(["env"], env=process.clean_environment({"EXTRA": "1"})).finish().out.decode()
    seen = dict(line.split("=", 1) for line in out.splitlines())
    assert seen["EXTRA"] == "1" and seen["LC_ALL"] == "C" and seen["PATH"] == os.environ["PATH"]
    assert not {"GIT_DIR", "API_TOKEN"} & seen.keys()


def test_more_than_a_pipe_holds_goes_in_and_out_on_every_stream() -> None:
    code = "import sys; data = sys.stdin.buffer.read(); sys.stdout.buffer.write(data); sys.stderr.buffer.write(data[::-1]); sys.exit(3)"  # noqa: E501
    data = os.urandom(3_000_000)
    done = process.start([sys.executable, "-c", code], env=process.clean_environment(), feed=data).finish()
    assert done == process.Finished(3, data, data[::-1])


def test_a_child_that_does_not_read_its_input_is_no_error() -> None:
    done = process.start(["true"], env=process.clean_environment(), feed=b"x" * 3_000_000).finish()
    assert done.code == 0


def test_without_input_a_child_reads_an_end_at_once() -> None:
    assert process.start(["cat"], env=process.clean_environment()).finish().out == b""


def test_a_program_that_is_not_there_is_said() -> None:
    with pytest.raises(FileNotFoundError):
        process.start(["no-such-program-of-takeback"], env=process.clean_environment())
    with pytest.raises(FileNotFoundError):
        process.pipe(["no-such-program-of-takeback"], env=process.clean_environment())


def test_a_path_with_a_closed_directory_does_not_change_that(tmp_path: Path) -> None:
    # execvp(3) says "permission denied" for the whole PATH when one entry cannot be searched
    closed = {"PATH": f"/proc/1/cwd:{tmp_path}"}
    (tmp_path / "no-execute-bit").touch()
    for start in (process.start, process.pipe):
        with pytest.raises(FileNotFoundError):
            start(["no-execute-bit"], env=closed)
        with pytest.raises(PermissionError):
            start([str(tmp_path / "no-execute-bit")], env=closed)


_CLEANS_UP = """
import os, signal, sys, time
def end(*_):
    os.unlink(sys.argv[1])
    sys.exit(0)
signal.signal(signal.SIGTERM, end)
open(sys.argv[1], "w").close()
print("ready", flush=True)
while True:
    time.sleep(60)
"""


def test_a_child_over_its_time_is_asked_to_end_and_cleans_up(tmp_path: Path) -> None:
    argv = [sys.executable, "-c", _CLEANS_UP, str(tmp_path / "index.lock")]
    child = process.start(argv, env=process.clean_environment(), stdout=subprocess.DEVNULL)
    while not (tmp_path / "index.lock").exists():
        time.sleep(0.01)
    with pytest.raises(subprocess.TimeoutExpired):
        child.finish(0.01)
    assert not (tmp_path / "index.lock").exists()


def test_a_long_lived_child_is_talked_to_and_ended() -> None:
    cat = process.pipe(["cat"], env=process.clean_environment())
    assert cat.stdin is not None and cat.stdout is not None
    cat.stdin.write(b"hello\n")
    cat.stdin.flush()
    assert cat.stdout.readline() == b"hello\n"
    process.end(cat)
    assert cat.returncode is not None
    process.end(cat)


def test_ending_a_child_that_died_with_unwritten_input_is_no_error() -> None:
    child = process.pipe(["true"], env=process.clean_environment())
    child.wait()
    assert child.stdin is not None
    child.stdin.write(b"never read")
    process.end(child)
    assert child.returncode == 0


def test_a_child_that_ignores_the_request_is_never_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "_END_GRACE", 0.05)
    stubborn = process.pipe(
        ["sh", "-c", "trap '' TERM; echo ready; while :; do sleep 1; done"], env={"PATH": os.environ["PATH"]}
    )
    assert stubborn.stdout is not None and stubborn.stdout.readline() == b"ready\n"
    process.end(stubborn)
    assert stubborn.poll() is None
    stubborn.kill()
    stubborn.wait()
