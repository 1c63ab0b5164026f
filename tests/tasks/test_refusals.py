"""What is refused before anything is done, and leaves no trace."""

from __future__ import annotations

from pathlib import Path

import pytest

from takeback.errors import UsageError
from takeback.tasks.record import check_id
from tests.support.cli import Home, Project
from tests.tasks.shop import folder, nothing_left, task, tip


def _no_trace(shop: Project) -> None:
    assert not list(shop.home.data.glob("projects/*/tasks/*"))
    nothing_left(shop)


def test_a_task_without_a_check_is_refused_as_a_gamble(shop: Project) -> None:
    done = shop.tb("task", "run", "--prompt", "x", "--", "true", check=False)
    assert (done.code, done.error) == (2, "no-check")
    assert "gamble" in done.text
    done = shop.tb("task", "run", "--prompt", "x", "--verify", "  ", "--", "true", check=False)
    assert done.error == "no-check"
    # Said before that an agent is missing, whose absence could be mended for nothing.
    assert shop.tb("task", "run", "--prompt", "x", "--", "no-such-program", check=False).error == "no-check"
    _no_trace(shop)


def test_unknown_agents_programs_flags_and_ids_are_refused(shop: Project) -> None:
    assert task(shop, "x", "true", "--agent", "clod", check=False).error == "unknown-agent"
    done = shop.tb("task", "run", "--prompt", "x", "--verify", "true", "--", "no-such-program", check=False)
    assert done.error == "agent-missing"
    assert task(shop, "x", "true", "--allow", "everything", check=False).error == "usage"
    for id in ("../x", "x.lock", "x" * 65):
        done = task(shop, id, "true", check=False)
        assert (done.code, done.error) == (2, "usage"), id
    _no_trace(shop)


@pytest.mark.long
def test_a_prompt_is_needed_once(shop: Project) -> None:
    words = ("--verify", "true", "--", "true")
    assert shop.tb("task", "run", *words, check=False).code == 2
    assert shop.tb("task", "run", "--prompt", "a", "--prompt-file", "b", *words, check=False).code == 2
    assert shop.tb("task", "run", "--prompt", " ", *words, check=False).error == "usage"
    assert shop.tb("task", "run", "--prompt-file", "none", *words, check=False).error == "cannot-read"
    _no_trace(shop)


def test_a_repository_without_commits_and_a_plain_folder_are_refused(home: Home, tmp_path: Path) -> None:
    empty = home.project(tmp_path / "empty")
    empty.write("a", "1\n")
    assert task(empty, "x", "true", check=False).error == "no-commits"
    empty.git("init", "-q")
    assert task(empty, "x", "true", check=False).error == "no-commits"


def test_a_branch_that_is_checked_out_elsewhere_is_refused(shop: Project) -> None:
    done = task(shop, "x", "true", "--onto", "main", check=False)
    assert (done.code, done.error) == (1, "branch-elsewhere")
    assert "--here" in done.text
    shop.git("worktree", "add", "-q", "-b", "other", "../other")
    assert task(shop, "x", "true", "--onto", "other", check=False).error == "branch-elsewhere"
    shop.git("branch", "takeback")
    done = task(shop, "x", "true", check=False)
    assert done.error == "usage" and "there is a branch takeback" in done.text


def test_a_branch_below_the_one_to_land_on_is_refused(shop: Project) -> None:
    shop.git("branch", "night/one")
    shop.git("branch", "takeback/y/z")
    for more in (("--onto", "night"), ()):
        done = task(shop, "y", "true", *more, check=False)
        assert done.error == "usage" and "so none can be named" in done.text
    _no_trace(shop)


def test_without_an_identity_nothing_is_begun(shop: Project) -> None:
    shop.git("config", "user.useConfigOnly", "true")
    env = {"GIT_CONFIG_GLOBAL": "/dev/null"}
    done = task(shop, "x", f"touch {shop.home.path}/ran; touch a", check=False, env=env)
    assert (done.code, done.error) == (1, "no-identity")
    assert "git config --global user.name" in done["error"]["hint"]
    assert not (shop.home.path / "ran").exists()
    _no_trace(shop)
    env |= {"GIT_AUTHOR_NAME": "A", "GIT_AUTHOR_EMAIL": "a@example.invalid"}
    assert task(shop, "x", "true", check=False, env=env).error == "no-identity"


def test_a_duplicate_id_is_refused_also_after_the_first_has_failed(shop: Project) -> None:
    task(shop, "x", "true", "--attempts", "1", check=False)
    done = task(shop, "x", "touch a", check=False)
    assert (done.code, done.error) == (1, "task-exists")
    assert "another --id" in done["error"]["hint"] and "resume" not in done["error"]["hint"]
    shop.git("branch", "takeback/y")
    assert task(shop, "y", "touch a", check=False).error == "usage"
    assert task(shop, "y", "touch a", "--onto", "takeback/y")["outcome"] == "landed"


def test_a_check_that_fails_before_the_task_is_said_at_once_and_can_be_allowed(shop: Project) -> None:
    red = ("--verify", "test -f wanted || { echo nobody made it; exit 3; }")
    done = task(shop, "red", "touch ../../ran; touch wanted", *red, check=False)
    assert (done.code, done.error) == (1, "red-check")
    assert "nobody made it" in done.text and "exit code 3" in done.text
    _no_trace(shop)
    done = task(shop, "red", "touch wanted", *red, "--allow-red")
    assert (done["outcome"], done["revertible"]) == ("landed", True)


@pytest.mark.long
def test_a_setup_that_fails_begins_no_task(shop: Project) -> None:
    shop.write(".takeback.toml", '[task]\nsetup = "echo no network; exit 4"\n')
    shop.git("add", "-A")
    shop.git("commit", "-qm", "settings")
    done = task(shop, "x", "touch a", check=False)
    assert done.error == "setup-failed" and "no network" in done.text
    _no_trace(shop)


@pytest.mark.long
def test_a_branch_that_moves_while_the_task_runs_is_not_overwritten(shop: Project) -> None:
    shop.git("branch", "night")
    there = f"git -C '{shop.root}'"
    move = f"{there} commit-tree -m other -p night night^{{tree}} | xargs {there} branch -f night"
    done = task(shop, "late", f"touch a; {move}", "--onto", "night", "--attempts", "1", check=False)
    assert done["outcome"] == "failed" and "moved while the task ran" in done["reason"]
    assert shop.git("log", "-1", "--format=%s", "night") == b"other\n"
    assert tip(shop, "night") and folder(shop, "late").is_dir()


@pytest.mark.parametrize("id", ["", "../x", "a..b", "-x", "a/b", "x.lock", "a b", "x" * 65, ".a", "a.", "a\n"])
def test_what_cannot_be_a_branch_or_a_folder_cannot_be_an_id(id: str) -> None:
    with pytest.raises(UsageError):
        check_id(id)
    assert check_id("t:fix-1.2_b") == "fix-1.2_b"
