"""Flags: what fails an attempt although its checks pass."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from takeback.host.usergit import UserGit
from takeback.tasks import flags, trees
from takeback.tasks.flags import matches
from takeback.tasks.formatting import only_formatting
from takeback.tasks.settings import TaskSettings
from tests.support.cli import Project
from tests.tasks.shop import task, tip

_SCRIPTS = {
    "no-edits": "true",
    "edited-tests": "sed -i s/4/5/ tests/test_app.py",
    "deleted-tests": "rm tests/test_app.py; touch a",
    "fewer-tests": "{ echo @pytest.mark.skip; cat tests/test_app.py; } > t; mv t tests/test_app.py",
    "edited-instructions": "echo Be quick. >> CLAUDE.md",
    "only-formatting": "printf 'def price(\\n    amount,\\n):\\n    return amount*2\\n' > app.py",
}


@pytest.mark.parametrize("flag", sorted(_SCRIPTS))
def test_a_change_raises_its_flag(shop: Project, tmp_path: Path, flag: str) -> None:
    git = UserGit(shop.at(), shop.home.env())
    index = trees.Index(str(tmp_path / "index"))
    before, _ = trees.write(git, index)
    shop.sh(_SCRIPTS[flag])
    assert flag in [one.name for one in flags.judge(git, before, trees.write(git, index)[0], TaskSettings())]


def test_a_flag_fails_an_attempt_and_can_be_allowed(shop: Project) -> None:
    script = _SCRIPTS["edited-instructions"]
    done = task(shop, "x", script, "--attempts", "1", check=False)
    assert (done.code, done["outcome"], done["flags"]) == (1, "failed", ["edited-instructions"])
    (attempt,) = done["attempts"]
    assert attempt["outcome"] == "flagged" and attempt["reason"] == "edited-instructions: CLAUDE.md"
    again = task(shop, "y", script, "--allow", "edited-instructions")
    assert (again["outcome"], again["flags"]) == ("landed", ["edited-instructions"])
    assert again["attempts"][0]["flags"][0]["fails"] is False
    done = task(shop, "z", "true", "--attempts", "1", check=False)
    assert (done["outcome"], done["flags"]) == ("failed", ["no-edits"])


@pytest.mark.long
def test_a_write_into_the_users_own_tree_is_flagged_with_its_path(shop: Project) -> None:
    for id, path in (("a", "app.py"), ("b", ".env"), ("c", ".git/hooks/pre-commit"), ("d", "new/file")):
        target = shop.at(path).decode()
        script = f"touch a; mkdir -p $(dirname {target}); echo x >> {target}"
        done = task(shop, id, script, "--attempts", "1", check=False)
        assert (done["outcome"], done["flags"]) == ("failed", ["outside"]), path
        assert path in [one for flag in done["attempts"][0]["flags"] for one in flag["paths"]]


@pytest.mark.long
def test_a_branch_that_the_agent_deletes_or_rewrites_is_flagged_and_a_new_one_is_not(shop: Project) -> None:
    shop.git("branch", "keep")
    shop.git("commit", "-q", "--allow-empty", "-m", "second")
    done = task(shop, "a", "touch a; git branch -qD keep; git branch new", "--attempts", "1", check=False)
    assert done["attempts"][0]["flags"][0]["paths"] == ["refs/heads/keep"]
    done = task(shop, "b", "touch a; git update-ref refs/heads/main main^", "--attempts", "1", check=False)
    assert done["outcome"] == "failed" and "refs/heads/main" in done["attempts"][0]["flags"][0]["paths"]


_USERS = "R=$(dirname $(git rev-parse --path-format=absolute --git-common-dir))"
_OUTSIDE = {
    "another branch is out": ("git -C $R checkout -qb sneaky", ".git/HEAD"),
    "the branch that is out went forward": ("git commit -qm x --allow-empty; git update-ref refs/heads/main HEAD",
                                            "refs/heads/main"),
    "something is staged": ("git -C $R add dirty", "dirty"),
    "a file is gone": ("rm $R/app.py", "app.py"),
    "an older stash is dropped": ("git stash drop -q stash@{1}", "stash@{1}"),
    "a stash is popped": ("git stash pop -q", "stash@{0}"),
    "the logs are expired": ("git reflog expire --expire=now --all", "stash@{0}"),
    "another worktree is removed": ("git worktree remove -f $R/../other", "../other"),
    "the worktree's settings": ("echo '[a]b=c' > $R/.git/config.worktree", ".git/config.worktree"),
    "a remote branch is gone": ("git update-ref -d refs/remotes/origin/main", "refs/remotes/origin/main"),
    "a note is removed": ("git notes remove HEAD", "refs/notes/commits"),
    "history is replaced": ("git replace $(echo a | git hash-object -w --stdin) HEAD:app.py", "refs/replace/"),
    "a merge is begun": ("git rev-parse HEAD > $R/.git/MERGE_HEAD", ".git/MERGE_HEAD"),
}  # fmt: skip


def _with_much_to_lose(shop: Project) -> None:
    shop.git("notes", "add", "-m", "said", "HEAD")
    shop.git("update-ref", "refs/remotes/origin/main", "HEAD")
    for text in ("a", "b"):
        shop.write("app.py", text)
        shop.git("stash", "-q")
    shop.git("worktree", "add", "-q", "../other", "-b", "other")
    shop.write("../other/unsaved", "x")
    shop.write("dirty", "x")


@pytest.mark.parametrize(
    "what", [name if name == "an older stash is dropped" else pytest.param(name, marks=pytest.mark.long)
             for name in _OUTSIDE]
)  # fmt: skip
def test_what_an_agent_does_to_the_users_repository_and_worktrees_is_flagged(shop: Project, what: str) -> None:
    _with_much_to_lose(shop)
    script, path = _OUTSIDE[what]
    done = task(shop, "x", f"{_USERS}; touch a; {script}", "--attempts", "1", check=False)
    assert (done["outcome"], done["flags"]) == ("failed", ["outside"]), done.text
    path = os.path.normpath(shop.at(path).decode()) if path.startswith("../") else path
    named = done["attempts"][0]["flags"][0]["paths"]
    assert path in named or (path.endswith("/") and any(one.startswith(path) for one in named))


def test_what_takes_nothing_from_anybody_is_not_flagged(shop: Project) -> None:
    _with_much_to_lose(shop)
    commit = "echo 1 > one; git add one; git commit -qm x; git update-ref refs/remotes/origin/main HEAD; git branch new"
    stash = "echo 2 > one; git stash -q; git worktree add -q --detach $R/../fresh; touch $R/../fresh/new"
    other = f"{shop.home.python[0]} -m takeback --project $R task run --id y --prompt y --verify true -- touch b"
    done = task(shop, "x", f"{_USERS}; {commit}; {stash}; env -u GIT_CEILING_DIRECTORIES {other}")
    assert (done["outcome"], done["flags"]) == ("landed", []), done.text
    assert tip(shop, "takeback/y")


@pytest.mark.long
def test_what_no_commit_can_hold_is_flagged_and_ends_no_task_without_a_word(shop: Project) -> None:
    nested = "git init -q deep/r; cd deep/r; touch a; git add a; git commit -qm a"
    done = task(shop, "a", f"({nested})", "--attempts", "1", check=False)
    assert (done["outcome"], done["flags"]) == ("failed", ["nested-repository"])
    done = task(shop, "b", "touch a; git init -q empty; touch empty/x", "--attempts", "1", check=False)
    assert (done["outcome"], done["flags"]) == ("failed", ["left-out"])
    assert "empty" in done["reason"]


def test_a_new_test_raises_no_flag(shop: Project, tmp_path: Path) -> None:
    git = UserGit(shop.at(), shop.home.env())
    index = trees.Index(str(tmp_path / "index"))
    before, _ = trees.write(git, index)
    shop.write("tests/test_b.py", "def test_b():\n    pass\n")
    assert flags.judge(git, before, trees.write(git, index)[0], TaskSettings()) == []


@pytest.mark.long
def test_settings_allow_a_flag(shop: Project) -> None:
    shop.write(".takeback.toml", '[task]\nallow = ["edited-instructions"]\n')
    done = task(shop, "x", _SCRIPTS["edited-instructions"])
    assert (done["outcome"], done["flags"]) == ("landed", ["edited-instructions"])
    assert done["attempts"][0]["flags"][0]["fails"] is False


@pytest.mark.parametrize(
    ("name", "before", "after", "same"),
    [
        ("a.py", b"x = 1\n", b"x=1\n", True),
        ("a.py", b"if x:\n    a()\nb()\n", b"if x:\n    a()\n    b()\n", False),
        ("a.py", b"x = 1  # one\n", b"x = 1  # two\n", False),
        ("a.py", b"x = (\n", b"x = ((\n", False),
        ("a.js", b"let x = 1;\n", b"let x=1;\n", True),
        ("a.js", b"let x = 'a b';\n", b"let x = 'ab';\n", False),
        ("a.yml", b"a:\n  b: 1\n", b"a:\nb: 1\n", False),
        ("a.bin", b"\0 1", b"\0 1 ", False),
        ("README.md", b"a b\n", b"a\nb\n", False),
        ("a.sh", b'[ "$a"="b" ]\n', b'[ "$a" = "b" ]\n', False),
        ("bin/a", b"#!/usr/bin/env bash\n[ $a=b ]\n", b"#!/usr/bin/env bash\n[ $a = b ]\n", False),
        ("bin/a", b"#!/usr/bin/env node\nf( 1);\n", b"#!/usr/bin/env node\nf(1);\n", True),
        ("Dockerfile", b"RUN test a=b\n", b"RUN test a = b\n", False),
        (".env.local", b"A=b c\n", b"A=bc\n", False),
        ("src/a.rs", b"f( 1);\n", b"f(1);\n", True),
    ],
)
def test_formatting_is_told_from_meaning(name: str, before: bytes, after: bytes, same: bool) -> None:
    assert only_formatting(name, before, after) is same


@pytest.mark.parametrize(
    ("path", "is_test"),
    [
        ("tests/a.py", True), ("pkg/tests/deep/a.py", True), ("src/test_a.py", True), ("a.test.ts", True),
        ("pkg/a_test.go", True), ("conftest.py", True), ("src/AppTest.java", True), ("latest/a.py", False),
        ("shop/tests.py", True), ("Tests/AppTests/A.swift", True), ("src/TestPrice.java", True),
        ("a/PriceSpec.scala", True), ("src/Testimonial.java", False), ("src/PodSpec.java", False),
        ("t/01-basic.t", True), ("lib/t/deep/a.t", True), ("a.bats", True), ("features/deep/a.feature", True),
        ("features/a.feature", True), ("cypress/a.cy.ts", True), ("web/e2e/a.ts", True),
        ("t/a.py", False), ("src/features/price.ts", False), ("src/t.t", False), ("src/Spec.scala.md", False),
        ("src/contest.py", False), ("testing.md", False), ("web/__tests__/a.js", True), ("spec/a_spec.rb", True),
    ],
)  # fmt: skip
def test_paths_of_tests_are_told_from_others(path: str, is_test: bool) -> None:
    assert matches(path, TaskSettings().tests) is is_test


@pytest.mark.parametrize(
    ("path", "is_told"),
    [
        ("pkg/CLAUDE.md", True), ("agents.md", True), ("pkg/claude.md", True), (".clinerules", True),
        (".clinerules/a.md", True), (".windsurf/rules/a.md", True), (".github/instructions/a.instructions.md", True),
        (".github/workflows/a.yml", False), ("src/agents.py", False), ("docs/instructions/a.md", False),
    ],
)  # fmt: skip
def test_paths_of_instructions_are_told_from_others(path: str, is_told: bool) -> None:
    assert matches(path, TaskSettings().instructions) is is_told
