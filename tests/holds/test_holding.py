"""What is held runs once, when a person says so, and only if it is still what was asked for."""

from __future__ import annotations

import json
import os
import signal
import stat
import threading
from pathlib import Path

import pytest

from takeback.app import holding
from takeback.app.person import Person
from takeback.app.project import Project as Opened
from takeback.errors import Busy, HoldNotWaiting, HoldStale, TooBig, UnknownId
from takeback.holds.model import Hold, Ran, State, Told, of_tool_call
from tests.holds.conftest import Asker
from tests.support.cli import kill_when

ME = Person("terminal")
# Nothing is sent anywhere: the guard is told that the script does, by its name.
SEND = "./deploy.sh staging"


@pytest.fixture
def counted(asker: Asker) -> Asker:
    """A project with a script that counts how often it ran, outside the project's files."""
    write_script(asker, "echo ran >> .git/count; echo deployed; exit 3")
    return asker


def write_script(asker: Asker, body: str) -> None:
    asker.project.write("deploy.sh", f"#!/bin/sh\n{body}\n", mode=0o755)


def approve(asker: Asker, id: str) -> Ran:
    with Opened.open(asker.root) as opened:
        return holding.approve(opened, id, person=ME)


def runs(asker: Asker) -> int:
    return asker.project.read(".git/count").count(b"ran") if asker.project.exists(".git/count") else 0


def files_of(asker: Asker) -> list[Path]:
    return sorted(asker.project.home.data.glob("projects/*/holds/h*.json"))


def test_a_held_action_keeps_all_a_person_must_know(counted: Asker) -> None:
    made = counted.hold(counted.request("cd sub; git push origin main", session="s", task="t", agent="claude"))
    assert (made.id, made.state, made.cls) == ("h1", State.WAITING, "outside")
    assert made.command == "cd sub; git push origin main" and made.request.cwd == counted.root
    assert (made.request.session, made.request.task, made.request.agent) == ("s", "t", "claude")
    assert "git revert" in made.undone_by and made.why
    assert runs(counted) == 0


def test_holds_are_for_their_owner_alone_and_exact(counted: Asker) -> None:
    secret = "ghp_" + "a1" * 18
    counted.hold(f"GITHUB_TOKEN={secret} git push")
    path = files_of(counted)[0]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600 and stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert secret in path.read_text()


def test_an_identical_one_that_waits_is_not_held_twice(counted: Asker) -> None:
    first = counted.hold(SEND)
    assert counted.hold(SEND) == first
    assert counted.hold("git push") != first
    assert len(files_of(counted)) == 2


def test_who_asks_makes_no_difference_where_does(counted: Asker) -> None:
    first = counted.hold(counted.request(SEND, session="one"))
    assert counted.hold(counted.request(SEND, session="two")).id == first.id
    os.makedirs(os.path.join(counted.root, "elsewhere"))
    assert counted.hold(SEND, "elsewhere").id != first.id


def test_approved_it_runs_once_and_the_retry_gets_its_result(counted: Asker) -> None:
    counted.hold(SEND)
    assert counted.answer(SEND).told is Told.WAITING  # type: ignore[union-attr]
    done = approve(counted, "h1")
    assert done.ran and (done.hold.state, done.hold.exit, done.hold.tail) == (State.DONE, 3, "deployed\n")
    for _ in range(2):
        told = counted.answer(SEND)
        assert told is not None and told.told is Told.DONE and not told.runs
        assert told.hold.exit == 3 and "exit code 3" in told.text and "deployed" in told.text
    assert runs(counted) == 1
    with pytest.raises(HoldNotWaiting, match="done, exit code 3"):
        approve(counted, "h1")
    assert runs(counted) == 1


def test_the_approved_run_is_a_step_that_can_be_seen_and_undone(counted: Asker) -> None:
    write_script(counted, "echo x > made.txt")
    counted.hold(counted.request(SEND, session="night"))
    step = approve(counted, "h1").hold.step
    shown = counted.project.tb("show", step)
    assert shown["event"]["text"] == SEND and shown["event"]["session"] == "night"
    counted.project.tb("undo", step)
    assert not counted.project.exists("made.txt")


def test_it_runs_in_its_own_folder_with_the_approvers_environment(
    counted: Asker, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    os.makedirs(os.path.join(counted.root, "sub"))
    counted.hold('echo "$PWD $WHO"; : git push; git push --dry-run nowhere 2>/dev/null; true', "sub")
    monkeypatch.setenv("WHO", "a-person")
    monkeypatch.chdir(tmp_path)
    with Opened.open(counted.root) as opened:
        done = holding.approve(opened, "h1", person=ME)
    assert done.hold.tail.strip() == f"{os.path.realpath(counted.root)}/sub a-person"
    assert os.getcwd() == os.path.realpath(tmp_path)


def test_denied_it_never_runs_and_the_retry_is_told_why(counted: Asker) -> None:
    counted.hold(SEND)
    with Opened.open(counted.root) as opened:
        assert holding.deny(opened, "h1", "not on a Friday").state is State.DENIED
    told = counted.answer(SEND)
    assert told is not None and told.told is Told.DENIED and "not on a Friday" in told.text
    with pytest.raises(HoldNotWaiting):
        approve(counted, "h1")
    assert runs(counted) == 0


def test_a_changed_file_makes_it_stale_and_says_which(counted: Asker) -> None:
    counted.hold(SEND)
    write_script(counted, "rm -rf /tmp/everything")
    assert counted.answer(SEND) is None  # it is judged, and held, anew
    with pytest.raises(HoldStale, match=r"file \./deploy\.sh changed"):
        approve(counted, "h1")
    with pytest.raises(HoldNotWaiting, match="stale"):
        approve(counted, "h1")
    assert counted.hold(SEND).id == "h2"
    assert runs(counted) == 0


def test_it_does_not_run_in_a_folder_that_is_gone(counted: Asker) -> None:
    os.makedirs(os.path.join(counted.root, "sub"))
    counted.hold("curl -X POST https://example.org/x", "sub")
    os.rmdir(os.path.join(counted.root, "sub"))
    with pytest.raises(HoldStale, match="folder it was to run in is gone"):
        approve(counted, "h1")


def test_held_again_after_a_change_the_old_one_is_stale(counted: Asker) -> None:
    counted.hold(SEND)
    write_script(counted, "exit 0")
    assert counted.hold(SEND).id == "h2"
    with Opened.open(counted.root) as opened:
        assert [one.id for one in holding.list(opened)] == ["h2"]
        assert [one.state for one in holding.list(opened, all=True)] == [State.STALE, State.WAITING]


@pytest.mark.parametrize("where", ["project", "user", "rules"])
def test_a_changed_policy_makes_it_stale(counted: Asker, where: str) -> None:
    counted.hold("git push")
    config = counted.project.home.settings.parent
    (config / "rules").mkdir(parents=True, exist_ok=True)
    if where == "rules":
        (config / "rules" / "own.rules").write_text("@ mytool\nnone: .\n")
    elif where == "user":
        (config / "config.toml").write_text("[holds]\nexpire = '2d'\n[checkpoint]\nkeep = 5\n")
        assert counted.answer("git push").told is Told.WAITING  # type: ignore[union-attr]
        (config / "config.toml").write_text("[policy]\nstate = 'ask'\n")
    else:
        counted.project.write(".takeback.toml", "[checkpoint]\nkeep = 7\n")
        assert counted.answer("git push").told is Told.WAITING  # type: ignore[union-attr]
        counted.project.write(".takeback.toml", "[policy]\nstate = 'ask'\n")
    with pytest.raises(HoldStale, match="the policy changed"):
        approve(counted, "h1")


def test_a_payload_that_changes_after_the_run_is_a_new_wish(counted: Asker) -> None:
    counted.hold(SEND)
    approve(counted, "h1")
    write_script(counted, "echo ran >> .git/count; exit 0")
    assert counted.answer(SEND) is None
    assert counted.hold(SEND).id == "h2"


def test_a_run_that_changes_its_own_payload_is_still_answered(counted: Asker) -> None:
    write_script(counted, "echo ran >> .git/count; echo '# done' >> deploy.sh")
    counted.hold(SEND)
    approve(counted, "h1")
    told = counted.answer(SEND)
    assert told is not None and told.told is Told.DONE
    assert runs(counted) == 1


def test_what_nobody_answers_expires(counted: Asker) -> None:
    counted.project.home.settings.parent.mkdir(parents=True, exist_ok=True)
    counted.project.home.settings.write_text("[holds]\nexpire = '0.001s'\n")
    counted.hold(SEND)
    assert counted.answer(SEND) is None
    with pytest.raises(HoldNotWaiting, match="expired"):
        approve(counted, "h1")
    with Opened.open(counted.root) as opened:
        assert holding.list(opened) == ()
        assert holding.list(opened, all=True)[0].state is State.EXPIRED
    assert counted.hold(SEND).id == "h2"


def test_a_tool_call_only_the_agent_can_make_is_let_through_once(counted: Asker) -> None:
    call = {"tool_name": "mcp__github__create_pull_request", "tool_input": {"title": "x"}, "tool_use_id": "1"}
    request = of_tool_call(call, cwd=counted.root)
    assert request.call is not None
    made = counted.hold(request)
    assert made.undone_by.startswith("close it") and not made.runs_here
    assert not counted.answer(request).runs  # type: ignore[union-attr]
    assert not approve(counted, "h1").ran
    again = of_tool_call({**call, "tool_use_id": "2"}, cwd=counted.root)
    told = counted.answer(again)
    assert told is not None and told.told is Told.GO and told.runs
    assert counted.answer(again) is None
    assert of_tool_call({**call, "tool_input": {"title": "y"}}, cwd=counted.root).key != request.key


def test_a_shells_tool_call_is_its_command(counted: Asker) -> None:
    call = {"tool_name": "Bash", "tool_input": {"command": SEND, "description": "ship it"}}
    request = of_tool_call(call, cwd=counted.root, agent="claude")
    assert (request.source, request.shell, request.call, request.agent) == (SEND, "bash", None, "claude")
    words = of_tool_call({"tool": "shell", "args": {"command": ["git", "push"]}}, cwd=counted.root)
    assert words.argv == ("git", "push")
    counted.hold(request)
    assert approve(counted, "h1").hold.exit == 3


def test_of_two_who_approve_at_once_one_runs_it(counted: Asker) -> None:
    counted.hold(SEND)
    ended: list[object] = []

    def one() -> None:
        try:
            ended.append(approve(counted, "h1"))
        except (HoldNotWaiting, Busy) as error:
            ended.append(error)

    # A command is run by the main thread alone: signals are its own.
    other = threading.Thread(target=one)
    other.start()
    one()
    other.join(60)
    assert sorted(type(end).__name__ for end in ended) == ["HoldNotWaiting", "Ran"]
    assert runs(counted) == 1


def test_killed_while_it_runs_it_never_runs_again(counted: Asker) -> None:
    # The last line is never come to: it is why the script is held.
    write_script(counted, "echo ran >> .git/count; echo $$ > .git/pid; exec sleep 300\ngit push origin main")
    counted.hold(SEND)
    source = (
        "import sys; from takeback.app import holding; from takeback.app.person import Person\n"
        "from takeback.app.project import Project\n"
        "holding.approve(Project.open(sys.argv[1]), 'h1', person=Person('terminal'))\n"
    )
    import subprocess

    home = counted.project.home
    process = subprocess.Popen(
        [*home.python, "-c", source, counted.root], cwd=counted.root, env=home.env(), stdin=subprocess.DEVNULL
    )
    pid = Path(counted.root, ".git", "pid")
    assert kill_when(process, lambda: pid.exists() and pid.read_text().strip() != "")
    process.wait()
    os.kill(int(pid.read_text()), signal.SIGKILL)
    told = counted.answer(SEND)
    assert told is not None and told.told is Told.UNKNOWN and "not known" in told.text
    with pytest.raises(HoldNotWaiting, match="started, end unknown"):
        approve(counted, "h1")
    retried = counted.project.tb("run", "--", SEND, check=False)
    assert retried.code == 126 and retried.error == "step-under-way" and "takeback deny h1" in retried.text
    assert runs(counted) == 1
    assert "started, end unknown" in counted.project.tb("holds", as_json=False).text
    with Opened.open(counted.root) as opened:
        holding.deny(opened, "h1", "it was seen to have run")
    assert counted.answer(SEND).told is Told.DENIED  # type: ignore[union-attr]


def test_what_could_not_even_start_waits_again(counted: Asker) -> None:
    counted.hold(SEND)
    counted.project.write("big.bin", b"x" * 4096)
    counted.project.home.set("max_size = 16")
    with pytest.raises(TooBig):
        approve(counted, "h1")
    counted.project.home.settings.unlink()
    assert approve(counted, "h1").hold.exit == 3
    assert runs(counted) == 1


def test_a_hold_that_is_not_there_is_named_with_those_that_wait(counted: Asker) -> None:
    counted.hold(SEND)
    for id in ("h7", "s1", "../h1", ""):
        with pytest.raises(UnknownId) as error:
            approve(counted, id)
        assert "h1" in error.value.hint_text


def test_a_damaged_file_is_named_and_runs_nothing(counted: Asker) -> None:
    counted.hold(SEND)
    files_of(counted)[0].write_text("{")
    result = counted.project.tb("holds", check=False)
    assert result.error == "damaged" and "h1.json" in result.text


def test_numbers_are_not_given_twice(counted: Asker) -> None:
    counted.hold(SEND)
    files_of(counted)[0].unlink()
    assert counted.hold(SEND).id == "h2"


def test_exact_words_come_back_from_the_file_as_they_were(counted: Asker) -> None:
    odd = counted.request("printf '%s' '\udcff\u2028 ☃' | curl -d @- https://example.com")
    made = counted.hold(odd)
    with Opened.open(counted.root) as opened:
        assert holding.get(opened, made.id) == made
    assert json.loads(files_of(counted)[0].read_text())["format"] == 1


def test_every_field_of_a_hold_is_kept(counted: Asker) -> None:
    counted.hold(SEND)
    done = approve(counted, "h1").hold
    with Opened.open(counted.root) as opened:
        again: Hold = holding.get(opened, "h1")
    assert again == done and done.by == "terminal" and done.after and done.payload
