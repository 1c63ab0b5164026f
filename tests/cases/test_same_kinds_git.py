"""More of the kinds of rows 11, 18, 20, 23, 24 and 28: rarer repositories, settings and git commands.

Does not cover: hooks and signing (see test_rows_processes).
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support import gitstate, tree
from tests.support.cli import Home, Project
from tests.support.content import damage, fill_plain, fill_repository, home_owns, make_dirty


def configured(*settings: str) -> Callable[[Home, Path], Project]:
    def make(home: Home, top: Path) -> Project:
        project = fill_repository(home, top / "project")
        for setting in settings:
            key, _, value = setting.partition("=")
            project.git("config", key, value)
        make_dirty(project)
        return project

    return make


def shallow(home: Home, top: Path) -> Project:
    fill_repository(home, top / "origin")
    home.git(top, "clone", "-q", "--depth", "1", f"file://{top}/origin", str(top / "project"))
    return _stuffed(home.project(top / "project"))


def borrowing(home: Home, top: Path) -> Project:
    fill_repository(home, top / "origin")
    home.git(top, "clone", "-q", "--shared", str(top / "origin"), str(top / "project"))
    return _stuffed(home.project(top / "project"))


def partial(home: Home, top: Path) -> Project:
    origin = fill_repository(home, top / "origin")
    origin.git("config", "uploadpack.allowFilter", "true")
    home.git(top, "clone", "-q", "--filter=blob:none", f"file://{top}/origin", str(top / "project"))
    return _stuffed(home.project(top / "project"))


def separate_git_dir(home: Home, top: Path) -> Project:
    project = fill_plain(home, top / "project")
    project.git("init", "-q", "--separate-git-dir", str(top / "elsewhere.git"))
    project.git("add", "-A")
    project.git("commit", "-q", "-m", "first")
    return project


def linked_git(home: Home, top: Path) -> Project:
    project = fill_repository(home, top / "project")
    shutil.move(project.at(".git"), os.fsencode(top / "moved.git"))
    os.symlink(top / "moved.git", project.at(".git"))
    return project


def worktree_inside(home: Home, top: Path) -> Project:
    project = fill_repository(home, top / "project")
    project.git("worktree", "add", "-q", "-b", "inside", "trees/inside")
    project.write("trees/inside/README.md", "dirty in the worktree\n")
    return project


def bare_inside(home: Home, top: Path) -> Project:
    project = fill_repository(home, top / "project")
    project.git("clone", "-q", "--bare", ".", "fixtures/sample.git")
    return project


def submodule_not_checked_out(home: Home, top: Path) -> Project:
    fill_repository(home, top / "inner")
    project = fill_repository(home, top / "project")
    project.git("submodule", "--quiet", "add", str(top / "inner"), "vendor/inner")
    project.git("commit", "-q", "-m", "a submodule")
    project.git("submodule", "--quiet", "deinit", "-f", "vendor/inner")
    return project


def submodule_in_a_submodule(home: Home, top: Path) -> Project:
    fill_repository(home, top / "leaf")
    middle = fill_repository(home, top / "middle")
    middle.git("submodule", "--quiet", "add", str(top / "leaf"), "leaf")
    middle.git("commit", "-q", "-m", "a leaf")
    project = fill_repository(home, top / "project")
    project.git("submodule", "--quiet", "add", str(top / "middle"), "vendor/middle")
    project.git("submodule", "--quiet", "update", "--init", "--recursive")
    project.git("commit", "-q", "-m", "a submodule")
    project.write("vendor/middle/leaf/README.md", "dirty\n")
    return project


def many_refs(home: Home, top: Path) -> Project:
    project = fill_repository(home, top / "project")
    head = project.git("rev-parse", "HEAD").decode().strip()
    project.sh(f"for n in $(seq 500); do echo create refs/heads/many/$n {head}; done | git update-ref --stdin")
    project.git("pack-refs", "--all")
    return project


def broken_ref(home: Home, top: Path) -> Project:
    project = fill_repository(home, top / "project")
    project.write(".git/refs/heads/broken", "0" * 39 + "1\n")
    return project


def replaced(home: Home, top: Path) -> Project:
    project = fill_repository(home, top / "project")
    project.git("replace", "HEAD~1", "topic")
    return project


def remote_tracking(home: Home, top: Path) -> Project:
    fill_repository(home, top / "origin")
    home.git(top, "clone", "-q", str(top / "origin"), str(top / "project"))
    return _stuffed(home.project(top / "project"))


def missing_index(home: Home, top: Path) -> Project:
    project = fill_repository(home, top / "project")
    os.unlink(project.at(".git/index"))
    return project


def split_index(home: Home, top: Path) -> Project:
    project = fill_repository(home, top / "project")
    project.git("update-index", "--split-index")
    make_dirty(project)
    return project


def untracked_cache(home: Home, top: Path) -> Project:
    project = fill_repository(home, top / "project")
    project.git("update-index", "--untracked-cache")
    make_dirty(project)
    return project


def index_version_4(home: Home, top: Path) -> Project:
    project = fill_repository(home, top / "project")
    project.git("update-index", "--index-version", "4")
    make_dirty(project)
    return project


def flagged(home: Home, top: Path) -> Project:
    project = fill_repository(home, top / "project")
    project.git("update-index", "--assume-unchanged", "src/app.py", "README.md")
    project.git("update-index", "--skip-worktree", "data/windows.txt", "bin/run.sh")
    project.write("README.md", "changed behind git's back\n")
    return project


def gitlink_without_submodule(home: Home, top: Path) -> Project:
    project = fill_repository(home, top / "project")
    fill_repository(home, top / "project" / "embedded")
    project.git("add", "embedded")
    project.git("commit", "-q", "-m", "an embedded repository")
    project.write("embedded/README.md", "dirty\n")
    return project


def worktree_config(home: Home, top: Path) -> Project:
    project = fill_repository(home, top / "project")
    project.git("config", "extensions.worktreeConfig", "true")
    project.git("config", "--worktree", "core.autocrlf", "true")
    return project


def _stuffed(project: Project) -> Project:
    """Give a clone the empty and private things that git does not carry."""
    for directory in ("very/empty/indeed", "empty"):
        os.makedirs(project.at(directory))
    os.chmod(project.at("keys/id"), 0o600)
    make_dirty(project)
    return project


SHAPES = {
    "showUntrackedFiles=no": configured("status.showUntrackedFiles=no"),
    "fileMode=false": configured("core.fileMode=false"),
    "symlinks=false": configured("core.symlinks=false"),
    "ignoreCase=true": configured("core.ignoreCase=true"),
    "precomposeUnicode": configured("core.precomposeUnicode=true"),
    "trustctime=false": configured("core.trustctime=false", "core.checkStat=minimal"),
    "quotePath": configured("core.quotePath=true"),
    "manyFiles": configured("feature.manyFiles=true", "index.version=4", "core.untrackedCache=true"),
    "diff settings": configured("diff.noprefix=true", "diff.renames=copies", "diff.ignoreSubmodules=all"),
    "strange abbreviations": configured("core.abbrev=4", "log.showSignature=true", "core.logAllRefUpdates=false"),
    "big file threshold": configured("core.bigFileThreshold=1", "core.compression=0", "pack.packSizeLimit=1m"),
    **{
        shape.__name__: shape
        for shape in (
            shallow,
            borrowing,
            partial,
            separate_git_dir,
            linked_git,
            worktree_inside,
            bare_inside,
            submodule_not_checked_out,
            submodule_in_a_submodule,
            many_refs,
            broken_ref,
            replaced,
            remote_tracking,
            missing_index,
            split_index,
            untracked_cache,
            index_version_4,
            flagged,
            gitlink_without_submodule,
            worktree_config,
        )
    },
}


@pytest.mark.parametrize("name", SHAPES)
def test_a_checkpoint_writes_nothing_and_a_restore_is_exact_in_rarer_repositories(
    home: Home, tmp_path: Path, name: str
) -> None:
    project = SHAPES[name](home, tmp_path)
    git = gitstate.raw(project.root) if name != "linked_git" else None
    made = project.tb("checkpoint")
    if git is not None:
        assert gitstate.raw_difference(git, project.git_raw()) == []
    then = project.moment()
    damage(project)
    project.git("add", "-A", ".", check=False)
    project.tb("restore", made["id"])
    assert then.changes() == []


@pytest.mark.parametrize("name", SHAPES)
def test_an_undo_is_exact_in_rarer_repositories(home: Home, tmp_path: Path, name: str) -> None:
    project = SHAPES[name](home, tmp_path)
    # The step's own `git add` makes a lock in there and so moves its mtime, which no undo promises to put back.
    then = project.moment(skip={b"embedded/.git"})
    project.step("rm -r src keys; echo x >> README.md; echo n > n; git add -A .; git commit -qm x; git branch b; true")
    project.tb("undo", "--yes")
    assert then.changes() == []


def test_a_repository_of_another_owner_is_exact_or_refused_never_taken_for_a_plain_folder(user: Home) -> None:
    if os.getuid() != 0:
        pytest.skip("only root can give a repository away")
    project = fill_repository(user, user.path.parent / "project")
    make_dirty(project)
    home_owns(project)
    then = project.moment()
    root = Home(user.path, user.account.__class__("root", user.path))
    theirs = root.project(project.root)
    step = theirs.tb("run", "--", "git -c safe.directory='*' branch -D topic; rm -r src", check=False)
    if step.error:
        assert then.changes() == []
        return
    theirs.tb("undo")
    assert then.changes() == []


# More git commands.

STEPS = {
    "stash branch": "git checkout -qf; git stash branch rescued -q",
    "stash apply": "git checkout -qf; git stash apply -q",
    "switch -C": "git switch -qfC topic main",
    "checkout -B": "git checkout -qf -B main topic",
    "replace": "git replace HEAD~1 topic",
    "read-tree --empty": "git read-tree --empty",
    "update-index flags": "git update-index --assume-unchanged CHANGES; git update-index --skip-worktree bin/run.sh",
    "sparse-checkout": "git stash -q; git sparse-checkout set src",
    "remote": "git remote add origin /nowhere; git branch -q --set-upstream-to=topic main",
    "bisect": "git stash -q; git bisect start HEAD HEAD~2",
    "init again": "git init -q",
    "clean -ffdx": "git clean -qffdx",
    "refs deleted by hand": "rm -rf .git/refs/heads .git/packed-refs; mkdir .git/refs/heads",
    "HEAD overwritten": "echo garbage > .git/HEAD",
    "index overwritten": "echo garbage > .git/index",
    "objects deleted": "rm -rf .git/objects/??",
    "rebase with exec": "git stash -q; git rebase -q --exec true HEAD~2",
    "interactive rebase": "git stash -q; GIT_SEQUENCE_EDITOR='sed -i 1s/pick/drop/' git rebase -qi HEAD~2",
    "am": "git format-patch -q -1 topic --stdout > ../p; git stash -q; git am -q ../p; rm ../p",
    "squash merge": "git stash -q; git merge -q --squash topic",
    "octopus of nothing": "git stash -q; git commit -q --allow-empty -m empty",
    "commit-tree": "git update-ref refs/heads/hidden $(git commit-tree -m x HEAD^{tree})",
    "worktree add": "git worktree add -q ../beside topic",
    "notes": "git notes add -fm one; git notes --ref=other add -m two",
    "branch to a file name": "git branch src; git branch README.md topic",
    "branch hierarchy": "git branch -D topic; git branch topic/sub; git branch other/deep/er",
    "delete current branch's ref": "git update-ref -d refs/heads/main",
    "config section": "git config --remove-section core; git config core.repositoryformatversion 0",
    "attributes": "echo '* text eol=crlf' > .gitattributes; git add --renormalize . 2>/dev/null; git checkout -qf",
    "everything gone but .git": "git rm -rqf .; git clean -qffdx",
    "new repository over it": "rm -rf .git; git init -q; git add README.md; git commit -qm first",
}


@pytest.mark.parametrize("name", STEPS)
def test_more_git_commands_are_taken_back_with_refs_stash_and_index(repo: Project, name: str) -> None:
    repo.sh("echo stashed >> README.md; git stash push -q -m 'the stash'")
    make_dirty(repo)
    then = repo.moment()
    repo.step(STEPS[name], check=False)
    repo.tb("undo", "--yes")
    assert then.changes() == []
    assert b"fatal" not in repo.sh("git fsck --no-dangling 2>&1", check=False)


def test_remote_tracking_refs_never_move_back(home: Home, tmp_path: Path) -> None:
    project = remote_tracking(home, tmp_path)
    origin = home.project(tmp_path / "origin")
    origin.git("commit", "-q", "--allow-empty", "-m", "news")
    step = project.step("git fetch -q; echo x > x")
    fetched = project.git("rev-parse", "origin/main")
    project.tb("undo", step)
    assert project.git("rev-parse", "origin/main") == fetched
    assert not project.exists("x")


def test_a_branch_checked_out_in_another_worktree_does_not_move(home: Home, tmp_path: Path) -> None:
    project = fill_repository(home, tmp_path / "project")
    project.git("worktree", "add", "-q", str(tmp_path / "beside"), "topic")
    beside = home.project(tmp_path / "beside")
    step = project.step(f"git -C '{beside.root}' commit -q --allow-empty -m by-the-step; echo x > x")
    moved = project.git("rev-parse", "topic")
    project.tb("undo", step, "--partial", check=False)
    assert project.git("rev-parse", "topic") == moved
    assert not project.exists("x")


def test_steps_in_two_worktrees_of_one_repository_stay_apart(home: Home, tmp_path: Path) -> None:
    project = fill_repository(home, tmp_path / "project")
    project.git("worktree", "add", "-q", str(tmp_path / "beside"), "topic")
    beside = home.project(tmp_path / "beside")
    project.step("echo one > one")
    beside.step("echo two > two")
    then = beside.moment()
    project.tb("undo")
    assert not project.exists("one") and then.changes() == []
    assert project.tb("undo", check=False).error == "nothing-to-do"
    beside.tb("undo")
    assert not beside.exists("two")


def test_the_users_gc_and_prune_take_nothing_from_a_checkpoint(repo: Project) -> None:
    repo.sh("echo s >> README.md; git stash -q; git commit -q --allow-empty -m lost")
    make_dirty(repo)
    kept = repo.checkpoint()
    then = repo.moment()
    repo.sh("git stash clear; git reset -q --hard HEAD~2; git reflog expire --expire=now --all; git gc -q --prune=now")
    repo.tb("restore", kept, "--refs")
    assert then.changes() == []


def test_nothing_of_a_checkpoint_shows_in_the_project(repo: Project, tmp_path: Path) -> None:
    objects = repo.git("count-objects", "-v")
    repo.write("secret.key", "a secret\n", mode=0o600)
    repo.checkpoint()
    repo.step("echo x > x")
    repo.tb("undo")
    assert repo.git("count-objects", "-v") == objects
    assert b"checkpoints" not in repo.git("for-each-ref")
    repo.git("init", "-q", "--bare", str(tmp_path / "mirror"))
    repo.git("push", "-q", "--mirror", str(tmp_path / "mirror"))
    assert b"checkpoints" not in repo.home.git(tmp_path / "mirror", "for-each-ref")


def test_a_deleted_submodule_comes_back_with_its_commits(home: Home, tmp_path: Path) -> None:
    project = submodule_in_a_submodule(home, tmp_path)
    inside = home.project(project.at("vendor/middle/leaf"))
    inside.git("commit", "-q", "--allow-empty", "-m", "only here")
    then, inside_then = project.moment(), inside.moment()
    project.step("rm -rf vendor .git/modules")
    project.tb("undo")
    assert tree.difference(then.files, project.tree()) == []
    assert inside_then.changes() == []
