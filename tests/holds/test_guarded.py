"""A push under `takeback run` is held, and approved it happens exactly once; the same command again gets its result."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.holds.conftest import Asker
from tests.support.person import at_own_terminal


def test_a_push_is_held_and_approved_happens_once(asker: Asker, remote: Path) -> None:
    project = asker.project
    pushed = ["git", "-C", str(remote), "rev-parse", "--verify", "-q", "main"]
    held = project.tb("run", "--session", "s1", "--", "git", "push", "origin", "main", check=False)
    assert held.code == 126 and held.error == "step-held" and "as h1" in held.text
    again = project.tb("run", "--", "git", "push", "origin", "main", check=False)
    assert again.code == 126 and "as h1" in again.text
    assert project.home.call(project.root, *pushed, check=False) == b""
    assert at_own_terminal(project.home, project.root, "approve", "h1").code == 0
    assert project.home.call(project.root, *pushed) == project.git("rev-parse", "main")
    project.home.call(remote, "git", "update-ref", "-d", "refs/heads/main")
    told = project.tb("run", "--", "git", "push", "origin", "main", check=False)
    assert told.code == 0 and told["hold"] == "h1" and "nothing ran now" not in told.json
    assert project.home.call(project.root, *pushed, check=False) == b""  # it was not pushed a second time


@pytest.mark.long
def test_a_denied_command_is_refused_with_the_reason(asker: Asker) -> None:
    asker.project.tb("run", "git push", check=False)
    at_own_terminal(asker.project.home, asker.root, "deny", "h1", "--because", "not today")
    refused = asker.project.tb("run", "git push", check=False)
    assert refused.code == 125 and "not today" in refused.text


@pytest.mark.long
def test_a_held_check_is_held_with_its_step_and_approved_both_run(asker: Asker) -> None:
    asker.project.write("publish.sh", "#!/bin/sh\necho ran >> .git/count\n", mode=0o755)
    words = ["run", "--verify", "TAKEBACK_X=1 ./publish.sh", "--", "sh", "-c", "echo x >> made.txt"]
    assert asker.project.tb(*words, check=False).code == 126
    assert not asker.project.exists("made.txt")
    assert at_own_terminal(asker.project.home, asker.root, "approve", "h1").code == 0
    told = asker.project.tb(*words, check=False)
    assert told.code == 0 and told["hold"] == "h1"
    assert asker.project.read("made.txt") == b"x\n" and asker.project.read(".git/count") == b"ran\n"
