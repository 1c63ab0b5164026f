"""A worktree as git would commit it: what is kept to be faster must not hide a change."""

from __future__ import annotations

import os
from pathlib import Path

from takeback.host.usergit import UserGit
from takeback.tasks import ground, trees
from tests.support.cli import Project


def _fresh(shop: Project, tmp_path: Path) -> tuple[UserGit, trees.Index, str]:
    """A worktree of which every file is as new as its index, and its tree."""
    git = UserGit(shop.at(), shop.home.env())
    path = os.fsencode(tmp_path / "tree")
    ground.add(git, path, "HEAD", os.fsencode(tmp_path / "trash"))
    return git.at(path), trees.Index(str(tmp_path / "index")), git.tree("HEAD")


def test_a_change_of_the_same_size_in_the_same_second_is_seen(shop: Project, tmp_path: Path) -> None:
    git, index, base = _fresh(shop, tmp_path)
    place = os.path.join(git.cwd, b"app.py")
    for _ in range(20):
        assert trees.write(git, index, base)[0] == base
        with open(place, "r+b") as file:
            first = file.read(1)
            file.seek(0)
            file.write(b"#")
        changed, _ = trees.write(git, index, base)
        assert changed != base
        with open(place, "r+b") as file:
            file.write(first)
    assert trees.write(git, index, base)[0] == base


def test_what_is_ignored_later_was_not_kept(shop: Project, tmp_path: Path) -> None:
    git, index, base = _fresh(shop, tmp_path)
    assert trees.write(git, index, base)[0] == base
    with open(os.path.join(git.cwd, b"junk.log"), "w") as file:
        file.write("x")
    assert b"junk.log" in git.run("ls-tree", "--name-only", trees.write(git, index, base)[0])
    with open(os.path.join(git.cwd, b".gitignore"), "a") as file:
        file.write("*.log\n")
    assert b"junk.log" not in git.run("ls-tree", "--name-only", trees.write(git, index, base)[0])


def test_what_an_agent_adds_by_force_is_in_the_tree(shop: Project, tmp_path: Path) -> None:
    git, index, base = _fresh(shop, tmp_path)
    assert trees.write(git, index, base)[0] == base
    with open(os.path.join(git.cwd, b".env"), "w") as file:
        file.write("x")
    git.run("add", "-f", ".env")
    assert b".env" in git.run("ls-tree", "--name-only", trees.write(git, index, base)[0])


def test_an_index_takes_the_place_of_the_worktrees_own_only_for_its_tree(shop: Project, tmp_path: Path) -> None:
    git, index, base = _fresh(shop, tmp_path)
    with open(os.path.join(git.cwd, b"app.py"), "a") as file:
        file.write("# more\n")
    tree, _ = trees.write(git, index, base)
    assert not index.give(git, base)
    assert index.give(git, tree)
    assert git.line("write-tree") == tree and git.run("status", "--porcelain") == b"M  app.py\n"
    git.run("reset", "-q")
    assert not index.give(git, tree), "the index is not what it was made from any more"


def test_another_worktree_whose_disk_is_away_is_not_forgotten(shop: Project, tmp_path: Path) -> None:
    git, _, _ = _fresh(shop, tmp_path)
    theirs, away = tmp_path / "theirs", tmp_path / "away"
    shop.git("worktree", "add", "-q", str(theirs))
    theirs.rename(away)
    ground.remove(UserGit(shop.at(), shop.home.env()), git.cwd, os.fsencode(tmp_path / "trash"))
    away.rename(theirs)
    listed = [os.fsdecode(where) for where, _ in ground.worktrees(UserGit(shop.at(), shop.home.env()))]
    assert listed == [os.fsdecode(shop.at()), str(theirs)]
