"""The second stage, on real projects: links, what git ignores, repositories inside, hooks, scripts, aliases."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from takeback.guard import Context, classify, ground


def git(folder: Path, *words: str) -> None:
    env = {"PATH": os.environ["PATH"], "HOME": str(folder), "GIT_CONFIG_NOSYSTEM": "1"}
    subprocess.run(["git", *words], cwd=folder, env=env, check=True, capture_output=True)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    top = tmp_path / "home" / "project"
    (top / "src").mkdir(parents=True)
    git(top, "init", "-q")
    (top / ".gitignore").write_text("*.cache\n!kept.cache\nprivate/\n")
    (top / "src" / "a.py").write_text("x")
    return top


def context(project: Path, folder: str = ".") -> Context:
    return ground.context(str(project / folder), home=str(project.parent), data=str(project.parent / "data"))


def cls(project: Path, source: str, folder: str = ".") -> str:
    return str(classify(source, context(project, folder)).cls)


def test_the_project_is_found_from_a_folder_inside(project: Path) -> None:
    assert context(project, "src").root == str(project)
    assert cls(project, "rm ../old.py", "src") == "files"
    assert cls(project, "rm ../../old.py", "src") == "machine"


def test_without_a_repository_the_folder_itself_is_the_project(tmp_path: Path) -> None:
    assert ground.context(str(tmp_path), home="/nowhere", data="/nowhere/data").root == str(tmp_path)


def test_what_git_ignores_is_asked_of_git(project: Path) -> None:
    assert cls(project, "rm a.cache") == "state"
    assert cls(project, "rm kept.cache") == "files"
    assert cls(project, "rm private/x") == "state"
    assert cls(project, "rm dist/x") == "files"
    assert cls(project, "rm *.cache") == "files"  # a pattern is not asked: what is usually ignored is
    assert cls(project, "rm a b c dist/x") == "state"  # nor is a fourth path


def test_a_link_out_of_the_project_leads_out_of_it(project: Path) -> None:
    (project / "data").symlink_to("/var/lib")
    (project / "inner").symlink_to("src")
    assert cls(project, "rm -rf ./data/") == "machine"
    assert cls(project, "echo x > data/x") == "machine"
    assert cls(project, "rm -rf inner/x") == "files"
    assert cls(project, "cd data && rm x") == "machine"


def test_a_repository_inside_is_not_seen_by_git(project: Path) -> None:
    (project / "vendor" / "lib").mkdir(parents=True)
    git(project / "vendor" / "lib", "init", "-q")
    assert cls(project, "rm vendor/lib/x") == "state"
    assert cls(project, "rm vendor/other") == "files"


def test_a_hook_makes_a_commit_opaque(project: Path) -> None:
    assert cls(project, "git commit -m x") == "files"
    hook = project / ".git" / "hooks" / "pre-commit"
    hook.write_text("#!/bin/sh\n")
    assert cls(project, "git commit -m x") == "files"  # git runs none that is not executable
    hook.chmod(0o755)
    assert cls(project, "git commit -m x") == "machine"


def test_scripts_of_the_project_are_read_and_others_are_not(project: Path) -> None:
    (project / "ship.sh").write_text("git push\n")
    (project / "big.sh").write_text("true\n" * 50_000)
    (project.parent / "out.sh").write_text("true\n")
    assert cls(project, "sh ship.sh") == "outside"
    assert cls(project, "sh big.sh") == "machine"
    assert cls(project, "sh ../out.sh") == "machine"
    os.mkfifo(project / "pipe.sh")
    assert cls(project, "sh pipe.sh") == "machine"


def test_an_alias_of_the_repository_is_followed(project: Path) -> None:
    git(project, "config", "alias.up", "push origin HEAD")
    assert cls(project, "git up") == "outside"
    assert cls(project, "git nothing") == "machine"


def test_own_data_is_where_it_was_said_to_be(project: Path) -> None:
    assert classify(f"rm -rf {project.parent}/data/x", context(project)).brake


def test_an_environment_of_the_project_takes_the_packages(project: Path) -> None:
    assert cls(project, "pip install x") == "machine"
    (project / ".venv").mkdir()
    assert cls(project, "pip install x") == "state"
