"""Taking landed tasks back: one command each, or the reason why not with what must go first."""

from __future__ import annotations

import sys

import pytest

from tests.support.cli import Project
from tests.tasks.shop import log, nothing_left, show, task, tip


@pytest.fixture
def stack(shop: Project) -> Project:
    """Three tasks on `night`: `b` changes the lines of `a`, `c` a file of its own; `night` is out."""
    task(shop, "a", "printf '1\\n2\\n3\\n' > list", "--onto", "night")
    task(shop, "b", "printf '1\\ntwo\\n3\\n' > list", "--onto", "night")
    task(shop, "c", "echo c > c", "--onto", "night")
    shop.git("switch", "-q", "night")
    return shop


def test_a_conflict_changes_nothing_and_names_what_must_go_first(stack: Project) -> None:
    before = stack.moment()
    done = stack.tb("revert", "a", check=False)
    assert (done.code, done["outcome"], done["applied"]) == (1, "conflict", False)
    assert (done["conflicts"], done["dependants"]) == (["list"], ["b"])
    assert before.changes() == []
    shown = stack.tb("show", "t:a")
    assert (shown["applies"], shown["revert_first"]) == (False, ["b"])
    assert [(one["task"], one["lines"]) for one in shown["later"]] == [("b", True)]
    said = stack.tb("revert", "a", check=False, as_json=False).out.decode()
    assert "  takeback revert b\n" in said
    # In the order that was named, each works.
    assert stack.tb("revert", "b")["outcome"] == "reverted"
    assert stack.tb("revert", "a")["outcome"] == "reverted"
    assert log(stack, "night")[:2] == ['Revert "Do a"', 'Revert "Do b"']
    assert stack.exists("c") and not stack.exists("list")
    nothing_left(stack)


@pytest.mark.long
def test_with_dependants_all_go_at_once_newest_first(stack: Project) -> None:
    done = stack.tb("revert", "t:a", "--with-dependants")
    assert [one["task"] for one in done["reverts"]] == ["b", "a"]
    assert log(stack, "night")[:3] == ['Revert "Do a"', 'Revert "Do b"', "Do c"]
    assert stack.git("status", "--porcelain") == b""
    # And what it prints takes it back.
    stack.sh(done["undo"].replace("git revert", "git revert --no-edit"))
    assert stack.read("list") == b"1\ntwo\n3\n"
    assert stack.tb("show", "t:b")["applies"] is True
    # Also where another branch is out.
    stack.git("switch", "-q", "--detach")
    done = stack.tb("revert", "c")
    assert done["undo"].startswith("git switch night && git revert ")
    stack.sh(done["undo"].replace("git revert", "git revert --no-edit"))
    assert stack.exists("c") and stack.git("branch", "--show-current") == b"night\n"


def test_a_check_that_fails_without_it_keeps_it(stack: Project) -> None:
    before = stack.moment()
    done = stack.tb("revert", "c", "--verify", "test -f c", check=False)
    assert (done.code, done["outcome"]) == (1, "check-failed")
    assert "test -f c" in done["reason"]
    assert before.changes() == []


@pytest.mark.long
def test_local_changes_stay_or_stand_in_the_way(stack: Project) -> None:
    stack.write("app.py", "mine\n")
    assert stack.tb("revert", "c")["outcome"] == "reverted"
    assert stack.read("app.py") == b"mine\n"
    stack.write("list", "mine\n")
    before = stack.moment()
    done = stack.tb("revert", "b", check=False)
    assert (done.code, done.error) == (1, "revert-refused")
    assert before.changes() == []


@pytest.mark.long
def test_a_branch_that_is_out_nowhere_is_moved_alone(stack: Project) -> None:
    stack.git("switch", "-q", "main")
    before = stack.moment()
    assert stack.tb("revert", "c")["branch"] == "night"
    assert all("night" in one for one in before.changes())
    assert log(stack, "night")[0] == 'Revert "Do c"'


@pytest.mark.long
def test_a_task_that_was_merged_is_reverted_where_the_person_is(stack: Project) -> None:
    stack.git("switch", "-q", "main")
    stack.git("merge", "-q", "--no-ff", "--no-edit", "night")
    done = stack.tb("revert", "c")
    assert (done["outcome"], done["branch"]) == ("reverted", "main")
    assert log(stack, "night")[0] == "Do c"


@pytest.mark.long
def test_a_rebased_task_is_found_by_its_name(stack: Project) -> None:
    stack.git("switch", "-qc", "other", "main")
    stack.git("commit", "-q", "--allow-empty", "-m", "something")
    stack.git("cherry-pick", "main..night")
    stack.git("branch", "-qD", "night")
    done = stack.tb("revert", "c")
    assert (done["outcome"], done["branch"]) == ("reverted", "other")


def test_a_task_that_was_reverted_is_shown_as_such_and_found_by_its_bare_name(shop: Project) -> None:
    task(shop, "a", "echo a > a", "--onto", "night")
    assert shop.tb("show", "t:a", as_json=False).out.decode().splitlines()[0].endswith("  landed")
    shop.tb("revert", "a")
    assert shop.tb("show", "t:a", as_json=False).out.decode().splitlines()[0].endswith("  reverted")
    bare = shop.tb("show", "a", check=False)
    assert (bare.error, bare["error"]["hint"]) == ("unknown-id", "it is a task: takeback show t:a")
    assert "task" not in shop.tb("show", "b", check=False)["error"]["hint"]


def test_what_has_not_landed_cannot_be_reverted(shop: Project) -> None:
    task(shop, "bad", "touch broken", "--attempts", "1", check=False)
    assert shop.tb("revert", "bad", check=False).error == "nothing-to-do"
    assert shop.tb("revert", "none", check=False).error == "unknown-id"
    assert shop.tb("show", "t:none", check=False).error == "unknown-id"


def test_undo_of_a_landed_task_is_refused_with_the_command_that_takes_it_back(shop: Project) -> None:
    task(shop, "done", "touch a")
    done = shop.tb("undo", "--task", "done", check=False)
    assert (done.code, done.error) == (1, "task-landed")
    assert "takeback revert done" in done.text


def test_attempts_are_listed_and_come_back_into_a_directory_or_the_tree(shop: Project) -> None:
    done = task(shop, "bad", "echo $ATTEMPT > broken; echo TOKEN=$ATTEMPT > .env", "--attempts", "2", check=False)
    listed = shop.tb("attempts", "bad")["attempts"]
    assert listed == done["attempts"]
    target = shop.home.path / "first"
    shop.tb("restore", "t:bad/1", "--to", str(target))
    assert (target / "broken").read_text() == "1\n" and (target / ".env").read_text() == "TOKEN=1\n"
    before = shop.moment()
    restored = shop.tb("restore", listed[1]["checkpoint"])
    assert (shop.read("broken"), shop.read(".env")) == (b"2\n", b"TOKEN=2\n")
    shop.take_back(restored)
    assert before.changes() == []
    assert b"restore  takeback restore" in shop.tb("attempts", "bad", as_json=False).out


@pytest.mark.long
def test_evidence_outlives_gc(shop: Project) -> None:
    done = task(shop, "bad", "echo $ATTEMPT > broken", "--attempts", "2", check=False)
    shop.write("other", "1\n")
    shop.checkpoint("-m", "later")
    shop.tb("gc", "--keep", "1", "--yes")
    for one in done["attempts"]:
        shop.tb("restore", one["checkpoint"], "--to", str(shop.home.path / one["checkpoint"]))


@pytest.mark.long
def test_blame_names_a_persons_commit_as_no_task(stack: Project) -> None:
    stack.write("app.py", "broken = True\n")
    stack.git("commit", "-qam", "by hand")
    task(stack, "d", "echo d > d", "--here")
    done = stack.tb("blame-task", "--verify", "! grep -q broken app.py", check=False)
    assert (done.code, done["task"], done["subject"]) == (1, None, "by hand")
    assert stack.tb("blame-task", "--verify", "false", check=False).error == "nothing-to-do"
    assert stack.tb("blame-task", "--verify", "test ! -f d")["task"] == "d"
    stack.git("switch", "-q", "main")
    assert stack.tb("blame-task", "--verify", "false", check=False).error == "nothing-to-do"
    assert tip(stack, "night") and show(stack, "night", "d") == b"d\n"


def test_undo_takes_a_revert_back_whole_and_redo_does_it_again(stack: Project) -> None:
    before, was = stack.moment(), tip(stack, "night")
    done = stack.tb("revert", "c")
    assert done["checkpoint"] and not stack.exists("c")
    stack.tb("undo")
    assert before.changes() == [] and tip(stack, "night") == was
    assert stack.tb("show", "t:c")["outcome"] == "landed"
    stack.tb("redo")
    assert tip(stack, "night") == done["reverts"][0]["commit"] and not stack.exists("c")
    assert stack.git("status", "--porcelain") == b""


@pytest.fixture
def apart(shop: Project) -> Project:
    """Two tasks on `night` that do not meet; `main` has a commit more and is out."""
    for id in "ab":
        task(shop, id, f"echo {id} > {id}", "--onto", "night")
    shop.git("commit", "-q", "--allow-empty", "-m", "something")
    return shop


_BY_HAND = """git switch -q night; git reset -q --soft main~1
git commit -qm "$(git log --reverse --format=%B ORIG_HEAD~2..ORIG_HEAD)" """
_BY_GIT = "git merge -q --squash night >/dev/null; git commit -q --no-edit"


@pytest.mark.parametrize("how", [_BY_HAND, pytest.param(_BY_GIT, marks=pytest.mark.long)], ids=["hand", "merge"])
def test_of_tasks_squashed_into_one_commit_none_is_taken_back_with_the_others(apart: Project, how: str) -> None:
    apart.sh(how)
    before, commit = apart.moment(), apart.git("rev-parse", "HEAD").decode()[:12]
    for id in "ab":
        done = apart.tb("revert", id, check=False)
        assert (done.code, done.error) == (1, "revert-refused")
        assert f"git revert {commit} " in done["error"]["hint"]
        assert all(one in done["error"]["message"] for one in "ab")
    assert before.changes() == []
    assert f"git revert {commit}" in apart.tb("show", "t:a", as_json=False).text
    if how == _BY_GIT:
        done = apart.tb("blame-task", "--verify", "! test -f b", check=False)
        assert done["revert"] == f"git revert {commit}"


@pytest.mark.long
def test_one_task_squashed_alone_is_reverted_where_the_person_is(shop: Project) -> None:
    task(shop, "a", "echo a > a", "--onto", "night")
    shop.git("commit", "-q", "--allow-empty", "-m", "something")
    shop.sh(_BY_GIT)
    done = shop.tb("revert", "a")
    assert (done["outcome"], done["branch"], shop.exists("a")) == ("reverted", "main", False)


_AGAIN = "git switch -q night; git rebase -q main"
_BARE = "git switch -q night; git revert --no-commit HEAD~1; git commit -qm 'no a'"


_AND_BACK = f"{_AGAIN} "


@pytest.mark.parametrize(
    "how",
    [_AGAIN, pytest.param(_AND_BACK, marks=pytest.mark.long), pytest.param(_BARE, marks=pytest.mark.long)],
    ids=["rebased", "and back", "by hand without git's words"],
)
def test_what_was_taken_back_in_any_way_is_not_taken_back_again(apart: Project, how: str) -> None:
    if how != _BARE:
        apart.tb("revert", "a")
    apart.sh(how)
    before = apart.moment()
    done = apart.tb("revert", "a", check=False)
    assert (done.code, done.error) == (1, "nothing-to-do") and "taken back already" in done.text
    assert apart.tb("show", "t:a")["applies"] is None
    assert before.changes() == []
    if how == _AND_BACK:  # and what came back is there, also when all names are new
        apart.sh("git revert --no-edit HEAD; git commit -q --amend --no-edit --date=2001-01-01T00:00:00Z")
        apart.sh("git switch -q main; git commit -q --allow-empty -m more; git switch -q night; git rebase -q main")
        assert apart.tb("revert", "a")["outcome"] == "reverted"
        assert apart.tb("revert", "b")["outcome"] == "reverted"


@pytest.mark.long
def test_blame_tries_no_commit_with_the_bytecode_of_another(shop: Project) -> None:
    # Of one size, and checked out one after the other within a second.
    shop.write(".gitignore", "__pycache__/\n")
    shop.git("commit", "-qam", "ignore")
    for id, amount in (("right", 1), ("wrong", 9)):
        task(shop, id, f"echo 'price = {amount}' > price.py", "--onto", "night")
    shop.git("switch", "-q", "night")
    check = f"{sys.executable} -c 'import price; assert price.price != 9'"
    done = shop.tb("blame-task", "--verify", f"test ! -f price.py || {check}", check=False)
    assert done["task"] == "wrong", done.text
