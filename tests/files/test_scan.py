"""What a scan sees when rules and the user's index change around unchanged files."""

from __future__ import annotations

import os
import time

from tests.files.conftest import Open
from tests.support.cli import Project


def test_a_file_that_becomes_ignored_is_still_in_the_checkpoint(plain: Project) -> None:
    plain.write(".env", "TOKEN=1\n", mode=0o600)
    plain.checkpoint()
    plain.write(".gitignore", ".env\n")
    kept = plain.checkpoint()
    os.unlink(plain.at(".env"))
    plain.tb("restore", kept)
    assert plain.read(".env") == b"TOKEN=1\n"


def test_a_file_added_against_the_rules_stays_in_every_checkpoint(repo: Project) -> None:
    repo.checkpoint("--no-state")
    repo.git("add", "-f", "debug.log")
    repo.checkpoint("--no-state")
    repo.write("untracked.txt", "changed\n")
    kept = repo.checkpoint("--no-state")
    os.unlink(repo.at("debug.log"))
    repo.tb("restore", kept)
    assert repo.read("debug.log") == b"log\n"


def test_an_ignored_folder_is_saved_where_a_file_was(repo: Project, opened: Open) -> None:
    project = opened(repo)
    project.checkpoint()
    repo.sh("rm README.md; mkdir README.md; echo x > README.md/inner; echo README.md >> .gitignore")
    kept = project.checkpoint().id
    repo.sh("rm -r README.md")
    project.restore(kept)
    assert repo.read("README.md/inner") == b"x\n"


def test_a_file_that_an_undo_puts_into_the_index_against_the_rules_is_saved_after_it(
    repo: Project, opened: Open
) -> None:
    project = opened(repo)
    kept = project.checkpoint().id
    repo.git("add", "-f", "debug.log")
    with project.step("unstage"):
        repo.git("rm", "-q", "--cached", "debug.log")
    project.undo()
    last = project.checkpoint(state=False).id
    os.unlink(repo.at("debug.log"))
    project.restore(last)
    assert repo.read("debug.log") == b"log\n"
    assert kept != last


def test_two_changes_in_one_second_are_both_seen(plain: Project, opened: Open) -> None:
    project = opened(plain)
    while time.time() % 1 > 0.1:  # so that all of it is likely to be in one second; it must hold in any case
        pass
    plain.write("keys/id", "one\n", mode=0o644)
    os.utime(plain.at("keys/id"), (10**9, 10**9))
    project.checkpoint()
    plain.write("README.md", "other\n")
    project.checkpoint()
    os.chmod(plain.at("keys/id"), 0o600)
    project.checkpoint()
    plain.write("keys/id", "two\n")
    os.utime(plain.at("keys/id"), (10**9, 10**9))
    kept = project.checkpoint().id
    then = plain.tree()
    plain.write("keys/id", "three\n", mode=0o644)
    project.restore(kept)
    assert plain.tree()[b"keys/id"] == then[b"keys/id"]


def test_a_tracked_file_that_comes_back_while_ignored_is_saved(repo: Project, opened: Open) -> None:
    project = opened(repo)
    os.unlink(repo.at("README.md"))
    repo.write(".gitignore", "*.md\n")
    project.checkpoint(state=False)
    repo.write("README.md", "back\n")
    kept = project.checkpoint(state=False).id
    os.unlink(repo.at("README.md"))
    project.restore(kept)
    assert repo.read("README.md") == b"back\n"


def test_a_tracked_file_that_comes_back_after_it_became_ignored_is_saved(repo: Project, opened: Open) -> None:
    project = opened(repo)
    os.unlink(repo.at("README.md"))
    project.checkpoint(state=False)
    repo.write(".gitignore", "*.md\n")
    project.checkpoint(state=False)
    repo.write("README.md", "back\n")
    kept = project.checkpoint(state=False).id
    os.unlink(repo.at("README.md"))
    project.restore(kept)
    assert repo.read("README.md") == b"back\n"


def test_a_tracked_file_behind_what_is_a_link_now_is_not_looked_for(repo: Project, opened: Open) -> None:
    repo.sh("rm -r src/lib; ln -s ../data src/lib")
    project = opened(repo)
    kept = project.checkpoint().id
    repo.sh("rm src/lib")
    project.restore(kept)
    assert os.readlink(repo.at("src/lib")) == b"../data"
