"""`takeback run`: the checkpoint a class needs, checks, and what a step that failed leaves behind."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import termios

import pytest

from tests.cli.terminal import read_all
from tests.support.cli import Project, wait_for
from tests.support.person import at_own_terminal


@pytest.mark.parametrize(
    ("source", "cls", "kind", "covers"),
    [
        ("cat README.md", "none", None, "all"),
        ("echo more >> README.md", "files", "files", "all"),
        ("echo A=2 >> .env", "state", "state", "all"),
        ("rm -r build", "state", "state", "all"),
        ("echo '*.tmp' >> .gitignore", "files", "state", "all"),
        ("python3 -c 'import helper_nobody_has' || true", "machine", "state", "project"),
    ],
)
def test_each_class_gets_the_lightest_checkpoint_that_covers_it(
    repo: Project, source: str, cls: str, kind: str | None, covers: str
) -> None:
    repo.checkpoint()
    then = repo.moment()
    done = repo.tb("run", "--", source)
    assert (done["class"], done["checkpoint"], done["covers"]) == (cls, kind, covers)
    repo.tb("undo")
    assert then.changes() == []


def test_a_folder_with_ignored_files_in_it_is_saved_with_them(repo: Project) -> None:
    repo.write("src/lib/trace.log", "ignored\n")
    repo.checkpoint()
    then = repo.moment()
    done = repo.tb("run", "--", "rm -r src")
    assert (done["class"], done["checkpoint"]) == ("state", "state")
    repo.tb("undo")
    assert then.changes() == []


def test_a_step_that_only_reads_makes_no_checkpoint_but_is_a_step(repo: Project) -> None:
    repo.checkpoint()
    before = repo.tb("log")["events"]
    repo.step("echo one > one.txt")
    done = repo.tb("run", "--", "ls")
    made = [one for one in repo.tb("log")["events"] if one["kind"] == "checkpoint"]
    assert done["before"] == done["after"]
    assert len(made) - len([one for one in before if one["kind"] == "checkpoint"]) <= 2  # both of the other step
    said = repo.tb("undo")
    assert said["targets"] == [done["id"]] and said["restored"] == [] and said["deleted"] == []
    assert repo.exists("one.txt")
    repo.tb("undo")
    assert not repo.exists("one.txt")


def test_a_failed_step_goes_back_exactly_is_kept_and_can_be_had_again(repo: Project) -> None:
    then = repo.moment()
    done = repo.tb("run", "--", "rm -r src; echo broken > README.md; rm .env; exit 7", check=False)
    assert done.code == 7 and done["exit"] == 7
    assert done["rolled_back"]
    assert then.changes() == []
    shown = repo.tb("show", done["id"])
    assert b"README.md" in {change["path"].encode() for change in shown["changes"]}
    repo.take_back(done)
    assert repo.read("README.md") == b"broken\n" and not repo.exists("src") and not repo.exists(".env")


def test_without_rollback_a_failed_step_stays_until_it_is_undone(repo: Project) -> None:
    then = repo.moment()
    done = repo.tb("run", "--no-rollback", "--", "echo half > half.txt; exit 3", check=False)
    assert (done.code, done["rolled_back"]) == (3, "")
    assert repo.exists("half.txt")
    repo.take_back(done)
    assert then.changes() == []


def test_a_check_that_fails_takes_the_step_back_and_is_exit_code_1(repo: Project) -> None:
    then = repo.moment()
    done = repo.tb(
        "run", "--verify", "test -e new.txt", "--verify", "grep -q right new.txt", "--", "echo wrong > new.txt",
        check=False,
    )  # fmt: skip
    assert done.code == 1
    assert [(one["cmd"], one["exit"]) for one in done["checks"]] == [
        ("test -e new.txt", 0),
        ("grep -q right new.txt", 1),
    ]
    assert done["rolled_back"]
    assert then.changes() == []


def test_what_a_failing_check_left_goes_back_with_the_step(repo: Project) -> None:
    then = repo.moment()
    done = repo.tb("run", "--verify", "echo cache > build/cache; rm .env; false", "--", "echo x > x", check=False)
    assert done.code == 1
    assert then.changes() == []


def test_checks_that_pass_keep_the_step(repo: Project) -> None:
    done = repo.tb("run", "--verify", "test -s new.txt", "--", "echo right > new.txt")
    assert done["rolled_back"] == "" and repo.read("new.txt") == b"right\n"


def test_a_step_out_of_time_goes_back_with_exit_code_124(repo: Project) -> None:
    then = repo.moment()
    done = repo.tb("run", "--timeout", "1", "--", "echo x > x; while :; do sleep 0.05; done", check=False)
    assert done.code == 124 and done["timed_out"]
    assert then.changes() == []


def test_a_command_that_is_not_there_ends_as_in_a_shell_and_changes_nothing(repo: Project) -> None:
    then = repo.moment()
    done = repo.tb("run", "--", "no-such-program-here", "--flag", check=False)
    assert done.code == 127
    assert then.changes() == []


def test_the_first_undo_after_a_step_that_went_back_takes_no_older_one(repo: Project) -> None:
    repo.step("echo good > good.txt")
    failed = repo.tb("run", "--", "echo bad > bad.txt; exit 2", check=False)
    assert not repo.exists("bad.txt")
    preview = repo.tb("undo", "--dry-run")
    first = repo.tb("undo")
    assert preview["targets"] == first["targets"] == [failed["id"]]
    assert first["restored"] == [] and "was taken back" in first["notes"][0]
    assert failed["id"] in repo.tb("log")["events"][0]["text"]
    assert repo.exists("good.txt")
    repo.tb("undo")
    assert not repo.exists("good.txt")


def test_another_hands_edit_during_a_failing_step_stays(repo: Project) -> None:
    gate = repo.home.path / "gate"
    script = f"echo step >> README.md; touch {gate}.in; while [ ! -e {gate} ]; do sleep 0.02; done; exit 5"
    slow = repo.start("run", "--json", "--", script)
    wait_for((repo.home.path / "gate.in").exists)
    repo.write("by-hand.txt", "mine\n")
    repo.step("echo other > other.txt", "--session", "other")
    gate.touch()
    slow.communicate(timeout=300)
    assert slow.returncode == 5
    assert b"step" not in repo.read("README.md")
    assert repo.exists("other.txt")


def test_what_is_not_taken_back_of_a_failed_step_is_said_and_can_be_taken(repo: Project) -> None:
    gate = repo.home.path / "gate"
    script = f"cd src; rm *.py; touch {gate}.in; while [ ! -e {gate} ]; do sleep 0.02; done; exit 5"
    before = repo.moment()
    slow = repo.start("run", "--json", "--", "sh", "-c", script)
    wait_for((repo.home.path / "gate.in").exists)
    repo.step("true > src/other.txt", "--session", "other")
    gate.touch()
    out, _ = slow.communicate(timeout=300)
    said = json.loads(out)
    id = said["id"]
    assert said["rolled_back"] and f"takeback undo {id} --shared" in said["not_rolled_back"]
    refused = repo.tb("undo", id, check=False)
    assert refused.error == "nothing-to-do" and b"--shared" in refused.out
    repo.tb("undo", id, "--shared")
    assert before.changes() == []


def test_a_repository_that_a_failed_step_made_is_said_to_stay(plain: Project) -> None:
    said = plain.tb("run", "--", "git init -q; exit 3", check=False)
    assert said["rolled_back"] and ".git" in said["not_rolled_back"]


def test_what_a_person_ended_with_the_keys_stays_as_it_is(repo: Project) -> None:
    master, slave = pty.openpty()
    process = repo.home.start(
        repo.root, "run", "--", "read go; echo half > half.txt; sleep 60", stdin=slave, stdout=slave, stderr=slave,
        start_new_session=True, preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
    )  # fmt: skip
    os.close(slave)
    os.write(master, b"go\n")  # only who has the terminal can read it
    wait_for(lambda: repo.exists("half.txt"))
    os.write(master, b"\x03")
    seen = read_all(master)
    os.close(master)
    assert process.wait(300) == 130
    assert repo.exists("half.txt") and b"Taken back" not in seen
    repo.tb("undo")
    assert not repo.exists("half.txt")


@pytest.mark.parametrize(
    "source", ["git push origin main", "npm publish", "rm -rf /opt/nobody-has-this", "takeback pause"]
)
def test_what_no_copy_covers_does_not_run_when_nobody_is_there(repo: Project, source: str) -> None:
    done = repo.tb("run", "--", source, check=False)
    assert done.code == 126 and done.error == "step-held"
    assert [one for one in repo.tb("log")["events"] if one["kind"] == "step"] == []


def test_a_held_check_holds_the_step_before_anything_ran(repo: Project) -> None:
    done = repo.tb("run", "--verify", "curl -X POST https://example.com/x -d a=1", "--", "echo x > x", check=False)
    assert done.code == 126
    assert not repo.exists("x")


def test_people_read_how_it_went(repo: Project) -> None:
    ran = repo.tb("run", "--", "ls", as_json=False)
    assert re.search(rb"only reads, no checkpoint", ran.err)
    failed = repo.tb("run", "--", "echo x > x; exit 4", as_json=False, check=False)
    assert re.search(rb"exit code 4, 1 path changed.*\nTaken back\..*takeback show s2.*takeback redo s2", failed.err)
    reaches = repo.tb("run", "--", "python3 -c 'import helper_nobody_has' || true", as_json=False)
    assert b"covers the project only" in reaches.err and b"only reads" not in reaches.err


def test_a_shell_that_a_person_opened_and_left_is_no_step_that_failed(repo: Project) -> None:
    typed = b"echo mine > mine.txt; (exit 3)\nexit\n"
    left = at_own_terminal(repo.home, repo.root, "run", "--", "sh", answer=typed)
    assert left.code == 3
    assert b"exit code 3, 1 path changed" in left.out and b"Take this back with: takeback undo s1" in left.out
    assert repo.read("mine.txt") == b"mine\n"


def test_no_undo_is_offered_for_a_step_that_changed_nothing(repo: Project) -> None:
    ran = repo.tb("run", "--", "python3 -c 'import helper_nobody_has' || true", as_json=False)
    assert b"0 paths changed" in ran.err and b"takeback undo" not in ran.err
