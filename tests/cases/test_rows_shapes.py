"""Rows 19, 20, 21 and 24: plain folders, unusual repositories, unusual environments, repositories inside.

Does not cover: rarer shapes (see test_same_kinds_shapes).
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support import gitstate, tree
from tests.support.cli import Home, Project
from tests.support.content import damage, fill_plain, fill_repository, make_dirty

row = pytest.mark.row


def unborn(home: Home, top: Path) -> Project:
    project = fill_plain(home, top / "project")
    project.git("init", "-q")
    project.git("add", "src", "README.md")
    return project


def unborn_and_nothing_staged(home: Home, top: Path) -> Project:
    project = fill_plain(home, top / "project")
    project.git("init", "-q")
    return project


def detached(home: Home, top: Path) -> Project:
    project = fill_repository(home, top / "project")
    project.git("checkout", "-q", "--detach", "HEAD~1")
    make_dirty(project)
    return project


def linked_worktree(home: Home, top: Path) -> Project:
    main = fill_repository(home, top / "main")
    main.git("worktree", "add", "-q", "-b", "side", str(top / "side"))
    project = home.project(top / "side")
    project.write("keys/id", "secret\n", mode=0o600)
    os.makedirs(project.at("very/empty/indeed"))
    os.makedirs(project.at("empty"))
    make_dirty(project)
    return project


def sparse(home: Home, top: Path) -> Project:
    project = fill_repository(home, top / "project")
    project.git("sparse-checkout", "set", "src", "keys")
    _fill_gaps(project)
    return project


def sparse_index(home: Home, top: Path) -> Project:
    project = fill_repository(home, top / "project")
    project.git("sparse-checkout", "set", "--cone", "--sparse-index", "src", "keys")
    _fill_gaps(project)
    return project


def sparse_without_cone(home: Home, top: Path) -> Project:
    project = fill_repository(home, top / "project")
    project.git("sparse-checkout", "set", "--no-cone", "/src/", "/keys/", "!/src/lib/deep/")
    _fill_gaps(project)
    return project


def with_submodule(home: Home, top: Path) -> Project:
    inner = fill_repository(home, top / "inner")
    project = fill_repository(home, top / "project")
    project.git("submodule", "--quiet", "add", str(inner.root), "vendor/inner")
    project.git("commit", "-q", "-m", "a submodule")
    inside = home.project(project.at("vendor/inner"))
    inside.write("src/app.py", "changed inside the submodule\n")
    inside.write("untracked-inside", "u\n", mode=0o600)
    inside.git("commit", "-q", "-am", "a commit that upstream does not have")
    inside.write("README.md", "and dirty\n")
    inside.git("add", "README.md")
    return project


def sha256(home: Home, top: Path) -> Project:
    project = fill_plain(home, top / "project")
    project.git("init", "-q", "--object-format=sha256")
    project.git("add", "-A")
    project.git("commit", "-q", "-m", "first")
    make_dirty(project)
    return project


def _fill_gaps(project: Project) -> None:
    """Put real files where the sparse checkout took them, so that damage has something to do: as users do too."""
    project.write("README.md", "written by hand though sparse\n")
    project.write("data/blob.bin", b"\0present though sparse")
    project.write("data/windows.txt", b"a\r\n")
    project.write("bin/run.sh", "#!/bin/sh\n", mode=0o755)
    project.write("src/lib/deep/er/leaf.txt", "another leaf\n")
    for name in ("link-to-file", "link-dangling"):
        if not project.exists(name):
            os.symlink("src/app.py", project.at(name))
    for directory in ("very/empty/indeed", "empty"):
        os.makedirs(project.at(directory), exist_ok=True)


SHAPES: list[Callable[[Home, Path], Project]] = [
    unborn,
    unborn_and_nothing_staged,
    detached,
    linked_worktree,
    sparse,
    sparse_index,
    sparse_without_cone,
    with_submodule,
    sha256,
]


@row(20)
@pytest.mark.parametrize("shape", SHAPES)
def test_a_restore_is_exact_in_an_unusual_repository(home: Home, tmp_path: Path, shape: Callable) -> None:
    project: Project = shape(home, tmp_path)
    git = project.git_raw()
    kept = project.checkpoint()
    assert gitstate.raw_difference(git, project.git_raw()) == []
    then = project.moment()
    damage(project)
    project.git("add", "-A", ".", check=False)
    project.tb("restore", kept)
    assert then.changes() == []


@row(20)
@pytest.mark.parametrize("shape", SHAPES)
def test_an_undo_is_exact_in_an_unusual_repository(home: Home, tmp_path: Path, shape: Callable) -> None:
    project: Project = shape(home, tmp_path)
    then = project.moment()
    project.step("rm -r src keys; echo x >> README.md; mkdir new; echo n > new/n; git add -A . ; true")
    project.tb("undo", "--yes")
    assert then.changes() == []


@row(20)
@pytest.mark.parametrize("shape", SHAPES)
def test_a_step_that_commits_in_an_unusual_repository_is_undone(home: Home, tmp_path: Path, shape: Callable) -> None:
    project: Project = shape(home, tmp_path)
    then = project.moment()
    project.step("echo x >> src/app.py; git add src; git commit -q -m 'by the step'; git branch made-by-step")
    assert then.changes() != []
    project.tb("undo")
    assert then.changes() == []


@row(20)
def test_changes_inside_a_submodule_come_back_and_its_git_directory_is_not_written(home: Home, tmp_path: Path) -> None:
    project = with_submodule(home, tmp_path)
    inside = home.project(project.at("vendor/inner"))
    git = project.git_raw(), inside.git_raw()
    made = project.tb("checkpoint")
    assert (project.git_raw(), inside.git_raw()) == git
    then = project.moment(), inside.moment()
    inside.sh("rm -r src; echo y > README.md; echo z > z")
    project.tb("restore", made["id"])
    assert then[0].changes() + then[1].changes() == []


@row(20)
def test_a_linked_worktree_is_restored_without_touching_the_main_one(home: Home, tmp_path: Path) -> None:
    side = linked_worktree(home, tmp_path)
    main = home.project(tmp_path / "main")
    kept = side.checkpoint()
    main.write("src/app.py", "main's own work\n")
    main_then, side_then = main.moment(), side.moment()
    damage(side)
    side.tb("restore", kept)
    assert main_then.changes() + side_then.changes() == []


# Row 19: no git at all.


@row(19)
@pytest.mark.parametrize("verb", ["restore", "undo"])
def test_a_plain_folder_is_put_back_exactly(plain: Project, verb: str) -> None:
    kept = plain.checkpoint()
    then = plain.moment()
    if verb == "restore":
        damage(plain)
        plain.tb("restore", kept)
    else:
        plain.step("rm -rf src; echo x >> README.md; echo n > new; chmod 644 keys/id")
        plain.tb("undo")
    assert then.changes() == []


@row(19)
def test_a_plain_folder_gets_no_git_directory(plain: Project) -> None:
    names = set(plain.tree(git=True))
    plain.checkpoint()
    plain.step("true")
    assert set(plain.tree(git=True)) == names


@row(19)
def test_a_deleted_plain_folder_comes_back(plain: Project, tmp_path: Path) -> None:
    kept = plain.checkpoint()
    then = plain.tree()
    plain.home.sh(tmp_path, f"rm -rf '{plain.root}'")
    plain.home.tb(tmp_path, "restore", kept, "--to", plain.root)
    assert tree.difference(then, plain.tree()) == []


@row(19)
def test_a_deleted_repository_comes_back_with_its_git_directory(repo: Project, tmp_path: Path) -> None:
    make_dirty(repo)
    kept = repo.checkpoint()
    then = repo.moment()
    repo.home.sh(tmp_path, f"rm -rf '{repo.root}'")
    repo.home.tb(tmp_path, "restore", kept, "--to", repo.root)
    assert tree.difference(then.files, repo.tree()) == []


# Row 21: the environment.

ENVIRONMENTS: dict[str, dict[str, str]] = {
    "LC_ALL": {"LC_ALL": "zh_CN.UTF-8", "LANG": "zh_CN.UTF-8", "LANGUAGE": "zh_CN"},
    "the C locale": {"LC_ALL": "C", "LANG": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
    "GIT_DIR": {"GIT_DIR": "{other}/.git"},
    "GIT_WORK_TREE": {"GIT_DIR": "{other}/.git", "GIT_WORK_TREE": "{other}"},
    "GIT_INDEX_FILE": {"GIT_INDEX_FILE": "{other}/.git/index"},
    "GIT_OBJECT_DIRECTORY": {"GIT_OBJECT_DIRECTORY": "{other}/.git/objects"},
    "alternates": {"GIT_ALTERNATE_OBJECT_DIRECTORIES": "{other}/.git/objects"},
    "GIT_COMMON_DIR": {"GIT_COMMON_DIR": "{other}/.git"},
    "GIT_NAMESPACE": {"GIT_NAMESPACE": "elsewhere"},
    "GIT_PREFIX": {"GIT_PREFIX": "src/"},
    "ceiling": {"GIT_CEILING_DIRECTORIES": "{here}"},
    "config in the environment": {
        "GIT_CONFIG_COUNT": "2",
        "GIT_CONFIG_KEY_0": "core.bare",
        "GIT_CONFIG_VALUE_0": "true",
        "GIT_CONFIG_KEY_1": "core.excludesFile",
        "GIT_CONFIG_VALUE_1": "{other}/README.md",
    },
    "pathspecs": {"GIT_LITERAL_PATHSPECS": "0", "GIT_GLOB_PATHSPECS": "1", "GIT_ICASE_PATHSPECS": "1"},
    "tracing": {"GIT_TRACE": "2", "GIT_TRACE2": "1"},
    "identity": {"GIT_AUTHOR_NAME": "", "GIT_COMMITTER_EMAIL": "", "GIT_AUTHOR_DATE": "never"},
    "replaced objects": {"GIT_NO_REPLACE_OBJECTS": "1", "GIT_QUARANTINE_PATH": "{other}"},
    "pager and editor": {"GIT_PAGER": "false", "PAGER": "false", "GIT_EDITOR": "false", "GIT_ASKPASS": "false"},
}


@row(21)
@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_the_callers_environment_does_not_lead_to_another_repository(repo: Project, tmp_path: Path, name: str) -> None:
    other = fill_repository(repo.home, tmp_path / "other")
    repo.write("größe/公共.txt", "odd\n")
    env = {
        key: value.format(other=other.root, here=os.path.dirname(repo.root))
        for key, value in ENVIRONMENTS[name].items()
    }
    git, other_git = repo.git_raw(), other.git_raw()
    kept = repo.checkpoint(env=env, cwd="src/lib")
    assert (repo.git_raw(), other.git_raw()) == (git, other_git)
    then, other_then = repo.moment(), other.moment()
    damage(repo)
    repo.tb("restore", kept, env=env, cwd="src")
    assert then.changes() == []
    assert other_then.changes() == []
    assert other.git_raw() == other_git


@row(21)
def test_from_a_subdirectory_the_whole_project_is_saved_and_restored(repo: Project) -> None:
    make_dirty(repo)
    kept = repo.checkpoint(cwd="src/lib/deep/er")
    then = repo.moment()
    repo.sh("rm -rf keys data README.md; echo x > src/app.py; git add -A")
    repo.tb("restore", kept, cwd="src/lib")
    assert then.changes() == []


# Row 24: a repository inside.


def nest(project: Project, path: str, *, commit: bool, dirty: bool) -> Project:
    """Make a repository inside the project and return it."""
    inner = project.home.project(project.at(path))
    inner.write("kept.txt", "kept\n", mode=0o600)
    inner.write("deep/kept.txt", b"\r\n")
    inner.git("init", "-q")
    if commit:
        inner.git("add", "-A")
        inner.git("commit", "-q", "-m", "inside")
    if dirty:
        inner.write("kept.txt", "dirty\n")
        inner.write("loose", "loose\n")
        inner.git("add", "loose", check=False)
    return inner


@row(24)
@pytest.mark.parametrize("commit", [False, True], ids=["no commit", "commit"])
@pytest.mark.parametrize("dirty", [False, True], ids=["clean", "dirty"])
@pytest.mark.parametrize("path", ["inner", "src/inner", "build/inner"])
def test_a_repository_inside_is_saved_and_its_git_directory_is_never_written(
    repo: Project, path: str, commit: bool, dirty: bool
) -> None:
    inner = nest(repo, path, commit=commit, dirty=dirty)
    git = inner.git_raw()
    made = repo.tb("checkpoint")
    assert gitstate.raw_difference(git, inner.git_raw()) == []
    then, inner_then = repo.moment(), inner.moment()
    repo.write("src/app.py", "outside\n")
    inner.write("kept.txt", "ruined\n")
    os.unlink(inner.at("deep/kept.txt"))
    inner.write("extra", "extra\n")
    repo.tb("restore", made["id"])
    assert then.changes() + inner_then.changes() == []


@row(24)
@pytest.mark.parametrize("commit", [False, True], ids=["no commit", "commit"])
def test_a_deleted_repository_inside_comes_back_with_its_history(repo: Project, commit: bool) -> None:
    inner = nest(repo, "inner", commit=commit, dirty=True)
    then, inner_then = repo.moment(), inner.moment()
    repo.step("rm -rf inner")
    repo.tb("undo")
    assert then.changes() + inner_then.changes() == []


@row(24)
def test_a_nested_repository_that_git_cannot_read_does_not_stop_the_rest(repo: Project) -> None:
    repo.write("broken/.git", "gitdir: /nowhere/at/all\n")
    repo.write("broken/file.txt", "still here\n")
    repo.write("halfway/.git/HEAD", "ref: refs/heads/none\n")
    repo.write("halfway/file.txt", "here too\n")
    made = repo.tb("checkpoint")
    then = repo.moment()
    repo.sh("echo x > broken/file.txt; rm halfway/file.txt; rm README.md")
    repo.tb("restore", made["id"])
    assert then.changes() == []
