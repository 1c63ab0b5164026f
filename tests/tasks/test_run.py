"""One task from prompt to commit, in a worktree of its own.

Does not cover: `--here` (`test_here`), bad input (`test_refusals`), being killed (`test_killed`).
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.support.cli import Project
from tests.tasks.shop import events, log, nothing_left, show, task, tip, trailers


def test_a_task_that_passes_lands_as_one_commit_with_its_name_and_the_users_tree_is_untouched(shop: Project) -> None:
    before = shop.moment()
    done = task(shop, "hello", "cat > asked; echo $TASK_ID $ATTEMPT > hello.txt")
    assert [one for one in before.changes() if "takeback/hello" not in one] == []
    assert (done["outcome"], done["branch"], done["undo"]) == ("landed", "takeback/hello", "takeback revert hello")
    assert (done["revertible"], done["flags"]) == (True, [])
    assert tip(shop, "takeback/hello") == done["commit"]
    assert log(shop, "takeback/hello") == ["Do hello", "first"]
    assert show(shop, done["commit"], "hello.txt") == b"hello 1\n"
    assert show(shop, done["commit"], "asked") == b"Do hello"
    assert trailers(shop, done["commit"]) == {
        "Task-Id": "hello", "Task-Attempt": "1", "Task-Checkpoint": done["before"],
    }  # fmt: skip
    (attempt,) = done["attempts"]
    assert (attempt["n"], attempt["outcome"], attempt["ref"]) == (
        1,
        "passed",
        f"refs/checkpoints/{attempt['checkpoint']}",
    )
    (check,) = attempt["verify"]
    assert (check["cmd"], check["exit"]) == ("sh check.sh", 0) and check["seconds"] >= 0
    assert b"+hello 1" in Path(attempt["diff"]).read_bytes()
    nothing_left(shop)


def test_a_task_that_fails_leaves_nothing_but_evidence(shop: Project) -> None:
    before = shop.moment()
    done = task(shop, "bad", "cat >> said; echo $ATTEMPT >> broken; echo junk > junk-$ATTEMPT", check=False)
    assert before.changes() == []
    assert (done.code, done["outcome"], done["commit"], done["undo"]) == (1, "failed", None, None)
    assert tip(shop, "takeback/bad") == ""
    tried = done["attempts"]
    assert [one["outcome"] for one in tried] == ["failed"] * 3
    assert len({one["ref"] for one in tried}) == len({one["diff"] for one in tried}) == 3
    # Each attempt carried on from the one before, and can be had back.
    for one in tried:
        target = shop.home.path / f"out-{one['n']}"
        shop.tb("restore", one["checkpoint"], "--to", str(target))
        assert (target / "broken").read_text().split() == [str(n + 1) for n in range(one["n"])]
        assert Path(one["diff"]).read_bytes().count(b"junk-") > 0
    prompts = (shop.home.path / "out-3" / "said").read_text()
    assert prompts.startswith("Do bad") and prompts.count("check `sh check.sh` failed: exit code 1") == 2
    nothing_left(shop)


@pytest.mark.long
def test_a_later_attempt_is_told_the_end_of_what_the_check_said_and_mends_it(shop: Project) -> None:
    script = "cat > .env.told; if [ $ATTEMPT = 1 ]; then touch broken; else rm broken; cp .env.told told; fi"
    done = task(shop, "mend", script, "--verify", "test ! -f broken || { echo the reason is 42; exit 7; }")
    assert [one["outcome"] for one in done["attempts"]] == ["failed", "passed"]
    assert done["attempts"][0]["verify"][0]["exit"] == 7
    assert b"the reason is 42" in show(shop, done["commit"], "told")
    assert trailers(shop, done["commit"])["Task-Attempt"] == "2"


def test_a_fresh_attempt_begins_from_the_tree_before_the_task_ignored_state_included(shop: Project) -> None:
    look = "ls -A > seen-$ATTEMPT; cat .env >> seen-$ATTEMPT"
    script = f"{look}; echo TOKEN=2 > .env; echo x > junk; [ $ATTEMPT = 2 ] || touch broken"
    done = task(shop, "fresh", script, "--fresh", "--attempts", "2")
    assert [one["outcome"] for one in done["attempts"]] == ["failed", "passed"]
    seen = show(shop, done["commit"], "seen-2").decode().split()
    assert "seen-1" not in seen and "junk" not in seen and "broken" not in seen and "TOKEN=1" in seen
    assert shop.git("ls-tree", "--name-only", done["commit"]).decode().split().count("seen-1") == 0


def test_the_agents_own_commits_are_folded_in_and_stay_reachable(shop: Project) -> None:
    commits = (f"echo {n} > {n}; git add {n}; git commit -qm mine-{n}" for n in ("one", "two"))
    script = f"{'; '.join(commits)}; echo 3 > three"
    done = task(shop, "commits", script)
    assert log(shop, "takeback/commits") == ["Do commits", "first"]
    assert shop.git("show", "--name-only", "--format=", done["commit"]).decode().split() == ["one", "three", "two"]
    (attempt,) = done["attempts"]
    assert len(attempt["commits"]) == 2
    shop.git("reflog", "expire", "--expire=now", "--all")
    shop.git("gc", "-q", "--prune=now")
    (store,) = shop.home.data.glob("projects/*/store.git")
    assert b"mine-one" in shop.home.git(store, "log", "--format=%s", attempt["commits"][0])


@pytest.mark.long
def test_an_agent_that_changes_branches_or_leaves_a_lock_moves_no_branch(shop: Project) -> None:
    lock = "touch $(git rev-parse --git-path index.lock)"
    script = f"git switch -qc mine; echo 1 > one; git add one; git commit -qm mine; {lock}"
    done = task(shop, "switch", script)
    assert log(shop, done["branch"]) == ["Do switch", "first"]
    assert log(shop, "main") == ["first"]


def test_a_merge_the_agent_leaves_unfinished_brings_no_other_parent(shop: Project) -> None:
    side = "git switch -qc side; echo s > s; git add s; git commit -qm side; git switch -q --detach HEAD^"
    script = f"{side}; echo 1 > one; git add one; git commit -qm one; git merge -q --no-commit --no-ff side"
    done = task(shop, "merging", script)
    assert log(shop, "takeback/merging") == ["Do merging", "first"]
    assert done["revertible"], done["revert_reason"]


@pytest.mark.parametrize(
    "hide",
    [
        "git update-index --skip-worktree app.py",
        pytest.param("git update-index --assume-unchanged app.py", marks=pytest.mark.long),
        pytest.param("git config core.ignoreStat true; git add app.py; echo Z=1 >> app.py", marks=pytest.mark.long),
        pytest.param("git sparse-checkout set --no-cone tests/ check.sh; echo X=1 >> app.py", marks=pytest.mark.long),
        pytest.param("git sparse-checkout set tests", marks=pytest.mark.long),
    ],
)  # fmt: skip
def test_an_edit_that_the_agent_tells_git_not_to_see_is_in_the_commit(shop: Project, hide: str) -> None:
    script = f"echo X=1 >> app.py; {hide}; mkdir -p new; echo 1 > new/one"
    done = task(shop, "hidden", script, "--allow", "outside")
    changed = shop.git("show", "--name-only", "--format=", done["commit"]).decode().split()
    assert changed == ["app.py", "new/one"]
    assert show(shop, done["commit"], "app.py").endswith(b"=1\n")
    assert done["revertible"], done["revert_reason"]


def test_what_the_users_sparse_checkout_leaves_out_stays_in_the_commit(shop: Project) -> None:
    shop.write("far/away", "x")
    shop.git("add", "-A")
    shop.git("commit", "-qm", "far")
    shop.git("sparse-checkout", "set", "--no-cone", "/*", "!/far/")
    done = task(shop, "sparse", "test ! -d far && echo 1 > one")
    assert shop.git("show", "--name-status", "--format=", done["commit"]).decode().split() == ["A", "one"]


def test_what_setup_and_checks_leave_lying_about_is_in_no_commit(shop: Project) -> None:
    shop.write(".takeback.toml", '[task]\nsetup = "echo made > by-setup"\n')
    shop.git("add", "-A")
    shop.git("commit", "-qm", "settings")
    script = "test -f by-setup && echo $ATTEMPT > work-$ATTEMPT"
    done = task(shop, "clean", script, "--verify", "echo x >> by-check; test ! -f work-1 || test -f work-2")
    assert [one["outcome"] for one in done["attempts"]] == ["failed", "passed"]
    assert shop.git("show", "--name-only", "--format=", done["commit"]).decode().split() == ["work-1", "work-2"]


@pytest.mark.long
def test_state_files_are_copied_in_and_a_landed_tasks_state_goes_along_the_branch(shop: Project) -> None:
    done = task(
        shop, "one", "cat .env data/local.db > got; stat -c %a .env > mode; echo TOKEN=2 > .env", "--onto", "night"
    )
    assert show(shop, done["commit"], "got") == b"TOKEN=1\nnot really a database\0\1\2"
    assert show(shop, done["commit"], "mode") == b"600\n"
    assert shop.read(".env") == b"TOKEN=1\n"
    done = task(shop, "two", "cat .env > two", "--onto", "night")
    assert show(shop, done["commit"], "two") == b"TOKEN=2\n"
    shop.write(".env", "TOKEN=mine\n")  # the person's own change counts more
    done = task(shop, "three", "cat .env > three", "--onto", "night")
    assert show(shop, done["commit"], "three") == b"TOKEN=mine\n"
    assert log(shop, "night") == ["Do three", "Do two", "Do one", "first"]


@pytest.mark.long
def test_shared_and_cloned_directories_are_there_and_in_no_commit(shop: Project) -> None:
    shop.write(".takeback.toml", '[task]\nshare = ["node_modules"]\nclone = ["cache"]\n')
    shop.write(".gitignore", ".env\n*.db\ncache/\nnode_modules/\n")
    shop.git("add", "-A")
    shop.git("commit", "-qm", "settings")
    shop.write("node_modules/left/index.js", "left\n")
    shop.write("cache/deep/one", "1\n")
    look = "cat node_modules/left/index.js cache/deep/one > got; echo 2 > cache/deep/one"
    script = f"{look}; git add -A -f node_modules got; git commit -qm x"
    done = task(shop, "deps", script)
    assert show(shop, done["commit"], "got") == b"left\n1\n"
    assert shop.git("show", "--name-only", "--format=", done["commit"]).decode().split() == ["got"]
    assert shop.read("cache/deep/one") == b"1\n" and shop.exists("node_modules/left/index.js")


def test_the_users_hooks_run_and_one_that_refuses_is_a_failed_landing(shop: Project) -> None:
    shop.write(
        ".git/hooks/pre-commit", "#!/bin/sh\ntest ! -f forbidden || { echo no forbidden files; exit 1; }\n", mode=0o755
    )
    done = task(shop, "hooked", "if grep -q 'no forbidden files'; then rm forbidden; else touch forbidden; fi; touch a")
    assert [one["outcome"] for one in done["attempts"]] == ["refused-by-hook", "passed"]
    assert shop.git("show", "--name-only", "--format=", done["commit"]).decode().split() == ["a"]
    assert shop.git("log", "-1", "--format=%an %ae", done["commit"]) == b"A Developer developer@example.invalid\n"
    done = task(shop, "never", "touch forbidden", "--attempts", "1", check=False)
    assert (done.code, done["outcome"], tip(shop, "takeback/never")) == (1, "failed", "")
    assert "no forbidden files" in done["reason"]


@pytest.mark.long
def test_a_hook_that_changes_the_tree_is_judged_again(shop: Project) -> None:
    hook = "#!/bin/sh\nif test -f spoil; then echo x > broken; git add broken; else echo formatted > f; git add f; fi\n"
    shop.write(".git/hooks/pre-commit", hook, mode=0o755)
    done = task(shop, "formatted", "touch a")
    assert show(shop, done["commit"], "f") == b"formatted\n"
    done = task(shop, "spoiled", "touch spoil", "--attempts", "1", check=False)
    assert (done["outcome"], tip(shop, "takeback/spoiled")) == ("failed", "")
    assert "sh check.sh" in done["reason"]


def test_a_crash_a_timeout_and_a_hanging_check_are_each_their_own_outcome(shop: Project) -> None:
    script = "case $ATTEMPT in 1) echo oh no >&2; exit 3;; 2) sleep 300 & wait;; esac; touch done"
    done = task(shop, "odd", script, "--timeout", "1")
    assert [one["outcome"] for one in done["attempts"]] == ["crash", "timeout", "passed"]
    assert "oh no" in done["attempts"][0]["reason"]
    hanging = ("--verify", "test ! -f slow || sleep 300", "--verify-timeout", "1")
    done = task(shop, "hang", "touch slow", *hanging, "--attempts", "1", check=False)
    (attempt,) = done["attempts"]
    assert (attempt["outcome"], attempt["verify"][0]["exit"]) == ("failed", 124)
    nothing_left(shop)


def test_a_task_whose_state_does_not_come_back_with_its_commit_is_called_landed_wrong(shop: Project) -> None:
    done = task(
        shop,
        "migrate",
        "echo NEW=1 > .env; echo NEW > want",
        "--verify",
        'grep -q "$(cat want 2>/dev/null || echo TOKEN)" .env',
    )
    assert (done["outcome"], done["revertible"]) == ("landed", False)
    assert "when it is reverted" in done["revert_reason"]


@pytest.mark.long
def test_a_long_prompt_gets_a_subject_that_fits_and_cannot_forge_trailers(shop: Project) -> None:
    prompt = "word " * 40 + "\n\nmore\nTask-Id: other\n"
    done = shop.tb("task", "run", "--prompt", prompt, "--verify", "true", "--", "touch", "a")
    assert done["id"] == "word-word-word-word-word"
    assert max(len(line) for line in log(shop, done["branch"])) <= 72
    assert trailers(shop, done["commit"])["Task-Id"] == done["id"]


@pytest.mark.long
def test_without_json_the_way_back_is_printed_on_stdout_and_progress_on_stderr(shop: Project) -> None:
    done = task(shop, "plain", "touch a", as_json=False)
    assert done.out.decode().splitlines()[-1] == "Take this back with: takeback revert plain"
    assert b"attempt 1 of 3: command" in done.err


@pytest.mark.long
def test_the_record_has_a_line_for_each_step_in_order(shop: Project) -> None:
    task(shop, "lines", "touch a")
    words = ["made", "ready", "attempt", "agent", "saved", "checked", "judged", "landed", "trial", "cleared", "ended"]
    assert [event["event"] for event in events(shop, "lines")] == words


@pytest.mark.parametrize("where", [".", "src"])
@pytest.mark.long
def test_a_task_is_run_from_anywhere_in_the_project(shop: Project, where: str) -> None:
    os.makedirs(shop.at("src"), exist_ok=True)
    done = task(shop, "deep", "pwd > at", cwd=where)
    assert os.path.basename(show(shop, done["commit"], "at").decode().strip()) == "shop"


@pytest.mark.long
def test_hooks_in_an_ignored_directory_that_a_tool_made_run_too(shop: Project) -> None:
    shop.write(".gitignore", ".env\n*.db\ncache/\n.hooks/\n")
    shop.git("commit", "-qam", "ignore")
    shop.write(".hooks/commit-msg", "#!/bin/sh\necho by-hook >> $1\n", mode=0o755)
    shop.git("config", "core.hooksPath", ".hooks")
    done = task(shop, "x", "touch a")
    assert b"by-hook" in shop.git("log", "-1", "--format=%B", done["commit"])
