"""A step keeps its terminal, its output, its exit code, and does not outlive who ran it."""

from __future__ import annotations

import os
import pty
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from takeback.host import command

RUN = (
    "import sys; from takeback.host import command as c; r = c.run({argv!r}, cwd='.', timeout={timeout}); print(r.exit)"
)


def test_output_is_passed_on_and_its_end_kept(tmp_path: Path) -> None:
    with open(tmp_path / "out", "wb") as out:
        ran = command.run(["sh", "-c", "printf 12345; exit 7"], cwd=tmp_path, stdout_fd=out.fileno(), keep=3)
    assert (ran.exit, ran.tail, ran.timed_out) == (7, b"345", False)
    assert (tmp_path / "out").read_bytes() == b"12345"


def test_a_signal_is_told_as_a_shell_tells_it(tmp_path: Path) -> None:
    with open(os.devnull, "wb") as null:
        assert command.run(["sh", "-c", "kill -9 $$"], cwd=tmp_path, stdout_fd=null.fileno()).exit == 137


def test_a_timeout_ends_the_whole_group_with_sigterm_first(tmp_path: Path) -> None:
    script = "trap 'echo asked; exit 0' TERM; sleep 60 & echo $! > child; wait"
    with open(tmp_path / "out", "wb") as out:
        ran = command.run(["sh", "-c", script], cwd=tmp_path, timeout=2.0, stdout_fd=out.fileno())
    assert (ran.exit, ran.timed_out) == (124, True)
    assert b"asked" in ran.tail
    child = int((tmp_path / "child").read_text())
    with pytest.raises(ProcessLookupError):
        for _ in range(200):
            os.kill(child, 0)
            time.sleep(0.02)


@pytest.mark.long
def test_a_timeout_ends_also_what_the_shell_started_and_what_does_not_listen(tmp_path: Path) -> None:
    script = "(trap '' TERM; echo 1 > deaf; while :; do sleep 0.05; done) & echo $! > child; wait"
    with open(os.devnull, "wb") as null:
        ran = command.run(["sh", "-c", script], cwd=tmp_path, timeout=2.0, stdout_fd=null.fileno())
    assert ran.timed_out and (tmp_path / "deaf").exists()
    child = int((tmp_path / "child").read_text())
    with pytest.raises(ProcessLookupError):
        for _ in range(200):
            os.kill(child, 0)
            time.sleep(0.02)


def test_a_process_left_behind_keeps_its_output_and_lives_on(tmp_path: Path) -> None:
    script = "(sleep 0.6; echo late; echo on > alive) & echo now"
    with open(tmp_path / "out", "wb") as out:
        ran = command.run(["sh", "-c", script], cwd=tmp_path, stdout_fd=out.fileno())
    assert ran.tail == b"now\n"
    for _ in range(300):
        if (tmp_path / "alive").exists() and b"late" in (tmp_path / "out").read_bytes():
            break
        time.sleep(0.02)
    assert (tmp_path / "out").read_bytes() == b"now\nlate\n"
    assert (tmp_path / "alive").exists()


@pytest.mark.parametrize("piped", [True, False])
def test_a_command_can_read_the_terminal_also_when_its_output_goes_elsewhere(tmp_path: Path, piped: bool) -> None:
    code = RUN.format(argv=["sh", "-c", "read x; echo got $x > answer"], timeout=20)
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(tmp_path)
        if piped:
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        os.execv(sys.executable, [sys.executable, "-c", code])
    os.write(terminal, b"typed\n")
    for _ in range(400):
        if select.select([terminal], [], [], 0.05)[0]:
            try:
                os.read(terminal, 4096)
            except OSError:
                break
    _, status = os.waitpid(pid, 0)
    os.close(terminal)
    assert os.waitstatus_to_exitcode(status) == 0
    assert (tmp_path / "answer").read_text() == "got typed\n"


def test_ending_us_ends_the_command(tmp_path: Path) -> None:
    code = RUN.format(argv=["sh", "-c", "echo $$ > pid; sleep 60"], timeout=None)
    ours = subprocess.Popen([sys.executable, "-c", code], cwd=tmp_path, stdin=subprocess.DEVNULL)
    while not (tmp_path / "pid").exists() or not (tmp_path / "pid").read_text():
        time.sleep(0.02)
    ours.send_signal(signal.SIGTERM)
    assert ours.wait(30) == 143
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)
