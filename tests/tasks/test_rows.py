"""Rows 30 to 32 of the table of reported faults: what other tools did to tasks, and what is right."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.cli import Project
from tests.tasks.shop import folder, log, show, task, tip

row = pytest.mark.row


@row(30)
def test_a_usage_limit_is_waited_for_and_the_attempt_is_given_back(shop: Project) -> None:
    shop.write(".takeback.toml", "[task]\nlimit_wait = 0.1\n")
    script = "if test ! -f ../../seen; then touch ../../seen; echo 'usage limit reached' >&2; exit 1; fi; touch a"
    done = task(shop, "limited", script, "--attempts", "1")
    assert [(one["outcome"], one["refunded"]) for one in done["attempts"]] == [("usage-limit", True), ("passed", False)]


@row(30)
def test_an_expired_login_stops_the_task_which_goes_on_after_a_resume(shop: Project) -> None:
    script = (
        "test -f ../../in || { echo half > half; echo '401 Unauthorized: please run login' >&2; exit 1; }; cat half"
    )
    done = task(shop, "login", script, "--attempts", "1", check=False)
    assert (done.code, done["outcome"]) == (1, "login-expired")
    assert "task resume login" in done["reason"]
    (folder(shop, "login") / "in").touch()
    done = shop.tb("task", "resume", "login")
    assert done["outcome"] == "landed"
    assert [one["outcome"] for one in done["attempts"]] == ["login-expired", "passed"]
    assert show(shop, done["commit"], "half") == b"half\n"
    again = shop.tb("task", "resume", "login", check=False)
    assert (again.code, again.error) == (1, "nothing-to-do")


@row(31)
def test_a_rollback_keeps_evidence_under_one_ref_an_attempt_and_drops_no_commit_of_a_person(shop: Project) -> None:
    shop.write("mine.py", "mine\n")
    shop.git("add", "-A")
    shop.git("commit", "-qm", "by a person")
    shop.write("not-yet.py", "not yet\n")
    before = shop.moment()
    refs: list[str] = []
    for id in ("first", "second"):  # two tasks, two rollbacks
        done = task(shop, id, "echo $TASK_ID $ATTEMPT > broken; git commit -qam x", "--attempts", "2", check=False)
        assert done["outcome"] == "failed"
        refs += [one["ref"] for one in done["attempts"]]
    assert len(set(refs)) == 4
    (store,) = shop.home.data.glob("projects/*/store.git")
    kept = [shop.home.git(store, "cat-file", "blob", f"{ref}:files/broken").decode() for ref in refs]
    assert kept == [f"{id} {n}\n" for id in ("first", "second") for n in (1, 2)]
    for id in ("first", "second"):
        for n in (1, 2):
            assert f"+{id} {n}".encode() in (folder(shop, id) / f"attempt-{n}.diff").read_bytes()
    assert before.changes() == []
    assert log(shop, "main") == ["by a person", "first"]


@row(31)
@pytest.mark.long
def test_a_rollback_in_the_persons_own_tree_drops_no_commit_either(shop: Project) -> None:
    shop.write("mine.py", "mine\n")
    shop.git("add", "-A")
    shop.git("commit", "-qm", "by a person")
    before = shop.moment()
    done = task(shop, "x", "git reset -q --hard HEAD~1; touch broken", "--here", "--attempts", "2", check=False)
    assert done["outcome"] == "failed"
    assert before.changes() == []


@row(32)
def test_uncommitted_work_is_the_result_and_no_work_is_flagged_whatever_the_agent_says(shop: Project) -> None:
    done = task(shop, "quiet", "echo I could not do it.; echo work > work.py")
    assert (done["outcome"], show(shop, done["commit"], "work.py")) == ("landed", b"work\n")
    done = task(shop, "proud", "echo All done, all tests pass.", "--attempts", "1", check=False)
    assert (done.code, done["outcome"], done["flags"]) == (1, "failed", ["no-edits"])
    assert tip(shop, "takeback/proud") == ""


@row(32)
@pytest.mark.long
def test_work_that_was_committed_and_taken_back_is_no_work(shop: Project) -> None:
    script = "echo 1 > a; git add a; git commit -qm a; git revert --no-edit HEAD >/dev/null"
    done = task(shop, "x", script, "--attempts", "1", check=False)
    assert done["flags"] == ["no-edits"]
    assert len(done["attempts"][0]["commits"]) == 2 and Path(done["attempts"][0]["diff"]).read_bytes() == b""
