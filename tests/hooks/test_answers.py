"""What is answered when something is wrong: a "no" with a reason before a step, and never a blocked host elsewhere."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from takeback.host import forked, proc
from tests.hooks.support import Agent, bash, raw, send
from tests.support.cli import Project, wait_for

HOSTS = {"claude": "PreToolUse", "codex": "PreToolUse", "gemini": "BeforeTool", "opencode": "before"}


@pytest.mark.parametrize("host", HOSTS)
@pytest.mark.parametrize("feed", [b"", b"{", b"[]", b"null", b"\xff\xfe", b"[" * 100_000])
def test_an_event_that_cannot_be_read_is_a_no(repo: Project, host: str, feed: bytes) -> None:
    answered = raw(repo, host, HOSTS[host], feed)
    assert (answered.code, answered.out) == (2, "")
    assert "takeback pause" in answered.err


@pytest.mark.parametrize("event", ["PostToolUse", "Stop", "UserPromptSubmit", "SessionStart", "Unheard"])
def test_an_event_that_stops_nothing_never_blocks_the_host(repo: Project, event: str) -> None:
    assert raw(repo, "claude", event, b"{").code == 0


@pytest.mark.parametrize(
    "call",
    [
        {},
        {"tool_name": 7, "tool_input": []},
        {"tool_name": "Unheard", "tool_input": {"x": 1}},
        {"tool_name": "Bash"},
        {"tool_name": "Bash", "tool_input": "rm README.md"},
        bash("if then fi ((("),
        bash("rm README.md\0"),
        bash("echo " + "x" * 1_000_000 + " > README.md"),
    ],
)
def test_what_is_not_understood_is_saved_before_or_waits(repo: Project, call: dict[str, object]) -> None:
    answered = send(repo, "claude", "PreToolUse", call)
    assert answered.code in (0, 2)
    assert "no answer" not in answered.err
    if answered.code == 0:
        assert repo.tb("log")["events"][0]["kind"] == "step"


def test_a_folder_that_is_gone_is_a_no_for_what_writes(repo: Project) -> None:
    gone = f"{repo.root}/gone"
    os.mkdir(gone)
    os.rmdir(gone)
    assert send(repo, "claude", "PreToolUse", {**bash("rm x"), "cwd": gone}).code == 2
    assert send(repo, "claude", "PreToolUse", {**bash("ls"), "cwd": gone}).code == 0


def test_in_a_home_directory_reading_works_and_the_rest_says_why(repo: Project) -> None:
    home = str(repo.home.path)
    assert send(repo, "claude", "PreToolUse", {**bash("ls"), "cwd": home}).code == 0
    answered = send(repo, "claude", "PreToolUse", {**bash("touch x"), "cwd": home})
    assert answered.code == 2
    assert "home directory" in answered.err


def test_a_store_that_cannot_be_written_is_a_no_with_the_reason(repo: Project) -> None:
    repo.home.data.write_text("a file where the folder should be")
    answered = Agent(repo).run("rm README.md")
    assert answered.code == 2
    assert str(repo.home.data) in answered.err
    assert repo.exists("README.md")


def test_what_went_wrong_in_a_hook_is_told_by_the_next_session_and_by_doctor(repo: Project) -> None:
    repo.checkpoint()
    settings = repo.home.settings
    repo.home.set("unheard = 1")
    assert Agent(repo).run("rm README.md").code == 2
    settings.unlink()
    assert "takeback doctor" in Agent(repo).send("SessionStart").context
    found = repo.tb("doctor", check=False)
    assert any("unheard" in one["detail"] for one in found["findings"] if not one["ok"])
    repo.tb("doctor", "--fix")
    assert "takeback doctor" not in Agent(repo).send("SessionStart").context


def test_a_child_that_is_killed_or_raises_or_is_late_gives_no_answer_and_says_why() -> None:
    def die(say: object) -> bytes:
        os.kill(os.getpid(), 9)
        return b""

    def fail(say: object) -> bytes:
        raise ValueError("no such luck")

    assert forked.ask(die, 60).why == "it ended by signal 9"
    assert forked.ask(fail, 60).why == "ValueError: no such luck"
    read, write = os.pipe()
    late = forked.ask(lambda say: os.read(read, 1), 0.05)
    assert late.last is None
    assert late.why == "no answer within 0.05 s"
    os.write(write, b"x")  # it goes on, and ends
    os.waitpid(-1, 0)
    os.close(read)
    os.close(write)


def test_a_late_child_holds_none_of_the_hosts_streams() -> None:
    source = (
        "import os, time\nfrom takeback.host import forked\n"
        "heard = forked.ask(lambda say: (say(str(os.getpid()).encode()), time.sleep(300))[1], 0.5)\n"
        "print(heard.said[0].decode())\n"
    )
    done = subprocess.run([sys.executable, "-c", source], capture_output=True, check=True, timeout=60)
    pid = int(done.stdout)
    os.kill(pid, 15)
    wait_for(lambda: proc.start_time(pid) == "")


def test_a_probe_is_answered_and_records_nothing(repo: Project) -> None:
    answered = send(repo, "claude", "PreToolUse", {**bash("rm README.md"), "takeback_probe": "abc123"})
    assert (answered.code, answered.out) == (0, "takeback-hook ran abc123\n")
    assert not repo.home.data.exists()
