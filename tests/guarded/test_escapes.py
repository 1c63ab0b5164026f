"""A step that did more than its class said is found, is told apart from a person's own edits, and can be undone."""

from __future__ import annotations

import time

import pytest

from tests.support.cli import Project, make_executable


def lying(repo: Project, name: str, does: str) -> dict[str, str]:
    """Put a program of a harmless name first on PATH; gives the environment for it."""
    folder = repo.home.path / "bin"
    folder.mkdir(exist_ok=True)
    make_executable(folder / name, f"#!/bin/sh\n{does}\n")
    return {"PATH": f"{folder}:{repo.home.env()['PATH']}"}


def between() -> None:
    """Let a tick of the kernel's clock for files pass, so that two hands are told apart."""
    time.sleep(0.03)


def steps(repo: Project) -> list[dict[str, object]]:
    return [one for one in repo.tb("log")["events"] if one["kind"] == "step"]


@pytest.mark.parametrize("folder", ["repo", "plain"])
def test_a_reading_step_that_lied_is_found_and_undone_and_a_persons_edits_stay(
    request: pytest.FixtureRequest, folder: str
) -> None:
    repo: Project = request.getfixturevalue(folder)
    repo.checkpoint()
    repo.write("before.txt", "by hand, before\n")
    env = lying(repo, "ls", "echo lied > README.md; rm keys/id; echo new > sneaked.txt")
    then = repo.read("README.md"), repo.read("keys/id")
    between()
    lied = repo.tb("run", "--", "ls", env=env)
    assert lied["class"] == "none"
    between()
    repo.write("after.txt", "by hand, after\n")
    said = repo.tb("undo")
    assert lied["id"] in said["targets"] and len(said["targets"]) == 2
    assert (repo.read("README.md"), repo.read("keys/id")) == then
    assert not repo.exists("sneaked.txt")
    assert repo.exists("before.txt") and repo.exists("after.txt")
    repo.tb("redo")
    assert repo.read("README.md") == b"lied\n" and repo.exists("sneaked.txt") and not repo.exists("keys/id")


def test_the_next_step_records_and_shows_it_and_such_a_step_is_raised(repo: Project) -> None:
    repo.checkpoint()
    env = lying(repo, "ls", "echo lied > README.md")
    repo.tb("run", "--", "ls", env=env)
    between()
    following = repo.tb("run", "--", "echo x > x", as_json=False)
    assert b"changed more than was expected" in following.err
    found = [one for one in steps(repo) if "escape_of" in one["data"]]  # type: ignore[operator]
    assert len(found) == 1 and found[0]["data"]["escape_of"] == "s1"  # type: ignore[index]
    again = repo.tb("run", "--", "ls", env=env)
    assert (again["class"], again["checkpoint"]) == ("none", "files")
    repo.tb("undo")
    assert repo.read("README.md") == b"lied\n"


def test_a_step_of_project_files_that_changed_an_ignored_one_is_undone_with_it(repo: Project) -> None:
    repo.checkpoint()
    then = repo.moment()
    env = lying(repo, "touch", "echo > new.txt; echo LOST=1 > .env; rm -r build")
    between()
    done = repo.tb("run", "--", "touch new.txt", env=env)
    assert (done["class"], done["checkpoint"]) == ("files", "files")
    said = repo.tb("undo")
    assert done["id"] in said["targets"] and len(said["targets"]) == 2
    assert then.changes() == []


def test_refs_and_index_that_a_reading_step_moved_come_back(repo: Project) -> None:
    repo.checkpoint()
    then = repo.git_state()
    env = lying(repo, "ls", "git commit -q --allow-empty -m sneaked; git branch -D topic")
    between()
    repo.tb("run", "--", "ls", env=env)
    repo.tb("undo")
    assert repo.git_state() == then


def test_what_a_person_did_between_steps_is_nobodys_escape(repo: Project) -> None:
    repo.checkpoint()
    repo.tb("run", "--", "ls")
    between()
    repo.write("README.md", "by hand\n")
    repo.write(".env", "HAND=1\n")
    repo.sh("rm keys/id; git commit -q --allow-empty -m mine")
    then = repo.moment()
    repo.tb("run", "--", "cat README.md")
    repo.tb("undo")
    repo.tb("undo")
    assert then.changes() == []
    assert not [one for one in steps(repo) if "escape_of" in one["data"]]  # type: ignore[operator]


def test_an_earlier_edit_of_the_same_file_is_not_undone_with_an_escape(repo: Project) -> None:
    repo.checkpoint()
    repo.step("echo first > README.md")
    env = lying(repo, "ls", "echo lied >> README.md; echo L=1 > .env")
    between()
    repo.tb("run", "--", "ls", env=env)
    repo.tb("undo")
    assert repo.read("README.md") == b"first\n"
    assert b"L=1" not in repo.read(".env")
