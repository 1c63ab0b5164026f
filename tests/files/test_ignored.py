"""Ignored files that change their kind between two walks, or are named by more than one rule."""

from __future__ import annotations

import pytest

from takeback.files import tree
from tests.files.conftest import Open
from tests.support.cli import Project


def test_a_file_is_saved_where_an_ignored_folder_was(repo: Project, opened: Open) -> None:
    project = opened(repo)
    project.checkpoint()
    repo.sh("rm build/out/app.o; mkdir build/out/app.o; echo x > build/out/app.o/inner")
    project.checkpoint()
    repo.sh("rm -r build/out/app.o; echo file > build/out/app.o")
    kept = project.checkpoint().id
    repo.sh("rm build/out/app.o")
    project.restore(kept)
    assert repo.read("build/out/app.o") == b"file\n"


@pytest.mark.parametrize("rules", ["cache/\n", "/cache/*\n", "*\n"])
def test_a_folder_that_ignores_itself_stays_whole_when_another_rule_ignores_it(
    plain: Project, opened: Open, rules: str
) -> None:
    project = opened(plain)
    plain.write("cache/.gitignore", "*\n")
    plain.write("cache/file", "precious\n")
    plain.write("cache/deep/er/file", "precious too\n")
    project.checkpoint()
    plain.write(".gitignore", rules)
    kept = project.checkpoint().id
    then = plain.tree()
    plain.sh("rm -r cache")
    project.restore(kept)
    assert plain.tree() == then


def test_a_rebuildable_tree_that_ignores_itself_has_its_budget_too(plain: Project, opened: Open) -> None:
    plain.home.set("tree_files = 5")
    plain.write("uv.lock", "")
    plain.write(".venv/.gitignore", "*\n")
    plain.write(".venv/pyvenv.cfg", "home = /usr/bin\n")
    for number in range(10):
        plain.write(f".venv/lib/{number}.py", "x = 1\n")
    project = opened(plain)
    for _ in range(2):
        done = project.checkpoint()
        assert [item.path for item in done.not_covered] == [b".venv"]
        assert project._w.cursor.state is None or not any(
            path.startswith(b".venv/") for path, _ in tree.walk(project._w.objects, project._w.cursor.state)
        )
        plain.write("README.md", "changed\n")


def test_a_file_once_kept_by_itself_stays_in_its_folder_when_nothing_else_changed(plain: Project, opened: Open) -> None:
    """As caches of versions before this one have it: a file is in them by itself and with its folder."""
    plain.write("cache/file", "precious\n")
    plain.sh("touch -d '1 hour ago' cache/file cache")
    walk = opened(plain)._w.walker.walk
    first = walk(None, {b"cache", b"cache/file"}, (), (), times=False)
    then = walk(first.tree, {b"cache"}, (), (), times=False)
    assert b"cache/file" in dict(tree.walk(opened(plain)._w.objects, then.tree or ""))
