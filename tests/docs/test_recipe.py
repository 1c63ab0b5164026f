"""The plain-git recipe of docs/formats/store.md, taken from the page as it stands and run on a real store."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

from tests.support import gitstate, tree
from tests.support.cli import Project
from tests.support.content import make_dirty

PAGE = Path(__file__).resolve().parents[2] / "docs" / "formats" / "store.md"


def get(project: Project, id: str, target: Path) -> Project:
    """Run the recipe without takeback on PATH or in the environment."""
    found = re.search(r"<!-- recipe:start -->\n```bash\n(.*?)```\n<!-- recipe:end -->", PAGE.read_text("utf-8"), re.S)
    assert found is not None
    script = target.with_name("get.sh")
    script.write_text(found[1], "utf-8")
    (store,) = (project.home.data / "projects").glob("*/store.git")
    env = project.home.env()
    del env["TAKEBACK_HOME"]
    done = subprocess.run(
        ["bash", str(script), str(store), id, str(target)], env=env, cwd=target.parent, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return project.home.project(target)


def add_oddities(project: Project) -> None:
    """Add names, modes and times that a careless recipe would lose."""
    project.write(b"odd/ne\nw \"q'.txt", "newline\n")
    project.write(b"odd/caf\xe9.txt", "not UTF-8\n")
    project.write("odd/%meta", "not ours\n")
    project.write("odd/%%Meta", "not ours either\n")
    project.write("odd/%.git/inside", "not a repository\n")
    project.write("odd/git~1", "short\n")
    project.write("odd/-n", "dash\n")
    project.write("odd/ space ", "space\n")
    project.write(".gitattributes", "* text=auto export-subst\n*.log export-ignore\n/data export-ignore\n")
    project.write("suid", "s\n", mode=0o4750)
    project.write("closed/file", "x\n", mode=0o400)
    os.makedirs(project.at("vendored/deep"))
    project.write("vendored/deep/lib.c", "int one;\n")
    project.git("init", "-q", cwd="vendored")
    project.git("add", "-A", cwd="vendored")
    project.git("commit", "-q", "-m", "vendored", cwd="vendored")
    project.age()
    os.utime(project.at("odd/-n"), ns=(-1_500_000_000, -1_500_000_000))
    os.chmod(project.at("closed"), 0o500)


def test_the_recipe_brings_a_repository_back_exactly(repo: Project, tmp_path: Path) -> None:
    repo.write("README.md", "for the stash\n")
    repo.git("stash", "push", "-q", "-m", "half an idea")
    make_dirty(repo)
    repo.git("update-index", "--assume-unchanged", "bin/run.sh")
    add_oddities(repo)
    before, git_before = repo.tree(), repo.git_state()
    nested = repo.tree(git=True)
    settings = repo.read(".git/config")

    got = get(repo, repo.checkpoint(), tmp_path / "got")

    assert not (found := tree.difference(before, got.tree())), "\n".join(found)
    assert gitstate.difference(git_before, got.git_state()) == []
    assert got.read(".git/config") == settings
    inside = {path: one for path, one in nested.items() if path.startswith(b"vendored/.git/")}
    assert inside
    assert {path: one for path, one in got.tree(git=True).items() if path in inside} == inside
    got.git("fsck", "--strict")


def test_the_recipe_brings_an_unfinished_merge_back(repo: Project, tmp_path: Path) -> None:
    repo.git("switch", "-q", "topic")
    repo.write("CHANGES", "other\n")
    repo.git("add", "CHANGES")
    repo.git("commit", "-q", "-m", "conflicting")
    repo.git("merge", "-q", "main", check=False)
    assert b"UU" in repo.git("status", "--porcelain") or b"AA" in repo.git("status", "--porcelain")
    before, git_before = repo.tree(), repo.git_state()

    got = get(repo, repo.checkpoint(), tmp_path / "got")

    assert not (found := tree.difference(before, got.tree())), "\n".join(found)
    assert gitstate.difference(git_before, got.git_state()) == []


def test_the_recipe_brings_a_plain_folder_back(plain: Project, tmp_path: Path) -> None:
    before = plain.tree()
    got = get(plain, plain.checkpoint(), tmp_path / "got")
    assert not (found := tree.difference(before, got.tree())), "\n".join(found)
    assert not got.exists(".git")
