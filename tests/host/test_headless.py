"""An unattended run leaves its output in a file and nothing running, and git is never killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from takeback.host import headless, proc
from takeback.host.headless import Ended, Runner

PATIENCE = 60.0
FAST = Runner(grace=0.3, git_grace=0.5)


@pytest.fixture
def marker() -> Iterator[str]:
    name = f"test-{uuid.uuid4()}"
    yield name
    assert headless._living(name, None) == {}, "the test left processes behind"


@pytest.fixture
def run(tmp_path: Path, marker: str) -> object:
    def run(script: str, runner: Runner = FAST, **more: object) -> Ended:
        return runner.run(
            ("bash", "-c", textwrap.dedent(script)), cwd=str(tmp_path), env=dict(os.environ),
            output=str(tmp_path / "output"), marker=marker, **more,
        )  # fmt: skip

    return run


def until(happened: object, what: str) -> None:
    end = time.monotonic() + PATIENCE
    while not happened():
        assert time.monotonic() < end, what
        time.sleep(0.02)


def pid_in(path: Path) -> proc.ProcessId:
    until(lambda: path.is_file() and path.read_text().strip(), f"nothing in {path}")
    pid = int(path.read_text())
    return proc.ProcessId(pid, proc.start_time(pid))


def test_the_output_is_in_the_file_and_its_end_in_the_answer(run, tmp_path: Path) -> None:
    ended = run("echo out; echo err >&2; exit 3")
    assert (ended.exit, ended.timed_out, ended.out, ended.err, ended.left) == (3, False, b"out\n", b"err\n", ())
    assert (tmp_path / "output").read_bytes() == b"out\n\n--- stderr ---\nerr\n"
    assert [path.name for path in tmp_path.iterdir()] == ["output"]
    assert (tmp_path / "output").stat().st_mode & 0o777 == 0o600


def test_a_program_ended_by_a_signal_has_the_exit_code_of_a_shell(run) -> None:
    assert run("kill -USR1 $$").exit == 128 + signal.SIGUSR1


def test_stdin_holds_the_feed_and_nobody_needs_to_read_it(run) -> None:
    assert run("wc -c", feed=b"x" * 300_000).out == b"300000\n"
    assert run("exit 0", feed=b"x" * 300_000).exit == 0
    assert run("cat | wc -c").out == b"0\n"


def test_the_program_has_no_terminal_and_a_session_of_its_own(run) -> None:
    assert run("echo 2>/dev/null >/dev/tty || ps -o sid= -p $$ | grep -qw $$ && echo own").out == b"own\n"


def test_who_runs_out_of_time_may_put_things_in_order_first(run, tmp_path: Path) -> None:
    ended = run("trap 'touch tidied; exit 0' TERM; while :; do sleep 0.05; done", Runner(grace=PATIENCE), timeout=0.5)
    assert ended.timed_out
    assert (tmp_path / "tidied").exists()


def test_who_does_not_listen_is_killed_with_all_its_children(run) -> None:
    script = "trap '' TERM; (while :; do sleep 1; done) & setsid sleep 1000 & while :; do sleep 1; done"
    ended = run(script, timeout=0.5)
    assert (ended.timed_out, ended.exit, ended.left) == (True, 128 + signal.SIGKILL, ())


def test_what_a_program_leaves_behind_is_ended_also_when_it_left_the_session(run, tmp_path: Path) -> None:
    ended = run("sleep 1000 & setsid sleep 1000 </dev/null & (setsid bash -c 'echo $$ >away; sleep 1000' &) ; exit 0")
    assert (ended.exit, ended.timed_out, ended.left) == (0, False, ())


def test_a_process_with_an_empty_environment_is_found_by_its_session(run) -> None:
    ended = run("env -i sleep 1000 & echo $!")
    assert (ended.exit, ended.left) == (0, ())
    assert proc.start_time(int(ended.out)) == ""


def test_another_run_is_left_alone(run, tmp_path: Path, marker: str) -> None:
    other = subprocess.Popen(["sleep", "1000"], env={**os.environ, headless.MARKER: f"{marker}x another"})
    try:
        assert run("exit 0").left == ()
        assert other.poll() is None
    finally:
        other.kill()
        other.wait()


def test_a_run_inside_a_run_belongs_to_both(run, marker: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(headless.MARKER, "outer")
    assert run(f"echo ${headless.MARKER}").out.decode() == f"outer {marker}\n"


BLOCKED = "import os, signal, sys; signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM]); "


def test_git_is_never_killed_but_named_when_it_stays(run, tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    os.mkfifo(tmp_path / "pipe")
    deaf = f"{BLOCKED}os.execvp('git', ['git', 'cat-file', '--batch'])"
    ended = run(
        f'exec 3<>pipe; {sys.executable} -c "{deaf}" <&3 >/dev/null & echo $! >git.pid; sleep 1000', timeout=0.5
    )
    git = pid_in(tmp_path / "git.pid")
    try:
        assert ended.left == ("git cat-file --batch",)
        assert git.alive()
    finally:
        os.kill(git.pid, signal.SIGKILL)
        until(lambda: not git.alive(), "git did not die")


@pytest.mark.long
def test_git_at_work_gets_the_time_to_remove_its_lock(run, tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    hook = tmp_path / ".git" / "hooks" / "pre-commit"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\ntrap '' TERM\ntouch reached\nwhile :; do sleep 1; done\n")
    hook.chmod(0o755)
    (tmp_path / "f").write_text("x")
    subprocess.run(["git", "-C", str(tmp_path), "add", "f"], check=True)
    deaf = f"{BLOCKED}os.execvp('git', ['git', '-c', 'user.name=a', '-c', 'user.email=a@b', 'commit', '-qam', 'm'])"
    ended = run(f'{sys.executable} -c "{deaf}" & sleep 1000', Runner(grace=0.3, git_grace=PATIENCE), timeout=2)
    assert (tmp_path / "reached").exists()
    assert ended.left == ()
    assert not (tmp_path / ".git" / "index.lock").exists()


OWN = """
import os, sys
from takeback.host.headless import Runner
marker, script, grace = sys.argv[1:]
Runner(grace=float(grace)).run(("bash", "-c", script), cwd=".", env=dict(os.environ), output="o", marker=marker)
"""
STUBBORN = "trap 'touch asked' TERM; echo $$ >agent.pid; while :; do sleep 0.1; done"


def takeback(
    tmp_path: Path, marker: str, script: str = "echo $$ >agent.pid; sleep 1000", grace: float = 0.3
) -> tuple[subprocess.Popen[bytes], proc.ProcessId]:
    running = subprocess.Popen([sys.executable, "-c", OWN, marker, script, str(grace)], cwd=tmp_path)
    return running, pid_in(tmp_path / "agent.pid")


def test_who_ends_us_ends_the_run_first(tmp_path: Path, marker: str) -> None:
    running, agent = takeback(tmp_path, marker)
    running.send_signal(signal.SIGTERM)
    assert running.wait(PATIENCE) == 128 + signal.SIGTERM
    assert not agent.alive()


def test_who_cannot_wait_for_the_end_kills_at_once(tmp_path: Path, marker: str) -> None:
    running, agent = takeback(tmp_path, marker, STUBBORN, 1000)
    running.send_signal(signal.SIGTERM)
    until((tmp_path / "asked").exists, "the agent was not asked to end")
    running.send_signal(signal.SIGTERM)
    assert running.wait(PATIENCE) == 128 + signal.SIGTERM
    until(lambda: not agent.alive(), "the agent lives on")


def test_what_a_killed_takeback_left_can_be_ended(tmp_path: Path, marker: str) -> None:
    running, agent = takeback(tmp_path, marker)
    running.kill()
    running.wait(PATIENCE)
    assert agent.alive()
    assert FAST.end_left(marker) == ()
    assert not agent.alive()


def test_a_program_that_is_not_there_cannot_be_started(tmp_path: Path, marker: str) -> None:
    assert FAST.find("no-such-program", os.environ) is None
    with pytest.raises(FileNotFoundError):
        FAST.run(("no-such-program",), cwd=str(tmp_path), env={}, output=str(tmp_path / "o"), marker=marker)
