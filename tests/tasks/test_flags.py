"""Flags: what fails an attempt although its checks pass."""

from __future__ import annotations

from pathlib import Path

import pytest

from takeback.host.usergit import UserGit
from takeback.tasks import flags, trees
from takeback.tasks.flags import matches
from takeback.tasks.formatting import only_formatting
from takeback.tasks.settings import TaskSettings
from tests.support.cli import Project
from tests.tasks.shop import task

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
    ],
)
def test_formatting_is_told_from_meaning(name: str, before: bytes, after: bytes, same: bool) -> None:
    assert only_formatting(name, before, after) is same


@pytest.mark.parametrize(
    ("path", "is_test"),
    [
        ("tests/a.py", True), ("pkg/tests/deep/a.py", True), ("src/test_a.py", True), ("a.test.ts", True),
        ("pkg/a_test.go", True), ("conftest.py", True), ("src/AppTest.java", True), ("latest/a.py", False),
        ("src/contest.py", False), ("testing.md", False), ("web/__tests__/a.js", True), ("spec/a_spec.rb", True),
    ],
)  # fmt: skip
def test_paths_of_tests_are_told_from_others(path: str, is_test: bool) -> None:
    assert matches(path, TaskSettings().tests) is is_test
