"""`--here`: the task is done in the user's own tree, which must be clean, and comes back exactly when it fails."""

from __future__ import annotations

import pytest

from tests.support.cli import Project
from tests.tasks.shop import folder, log, nothing_left, show, task

_WRECK = (
    "rm app.py; mkdir app.py; echo x > app.py/inside; echo TOKEN=bad > .env; rm data/local.db; echo junk > junk; "
    "git add -A; git commit -qm mine; git switch -qc elsewhere; chmod 755 check.sh; touch broken"
)


def test_a_failed_task_here_puts_the_tree_back_exactly_ignored_state_and_branch_included(shop: Project) -> None:
    before = shop.moment()
    done = task(shop, "wreck", _WRECK, "--here", "--attempts", "2", check=False)
    assert (done.code, done["outcome"], done["branch"]) == (1, "failed", "main")
    changes = [one for one in before.changes() if "elsewhere" not in one]
    assert changes == []
    assert len(done["attempts"][1]["commits"]) == 2
    nothing_left(shop)


def test_a_task_here_lands_on_the_branch_that_is_out(shop: Project) -> None:
    done = task(shop, "ok", "echo 1 > one; git add one; git commit -qm mine; echo TOKEN=2 > .env", "--here")
    assert (done["outcome"], done["branch"], done["revertible"]) == ("landed", "main", True)
    assert log(shop, "main") == ["Do ok", "first"]
    assert shop.git("status", "--porcelain") == b""
    assert shop.git("symbolic-ref", "HEAD") == b"refs/heads/main\n"
    assert show(shop, "main", "one") == shop.read("one") == b"1\n"
    assert shop.read(".env") == b"TOKEN=2\n"
    nothing_left(shop)


@pytest.mark.long
def test_a_hook_that_refuses_here_leaves_the_branch_where_it_was(shop: Project) -> None:
    shop.write(".git/hooks/commit-msg", "#!/bin/sh\nexit 1\n", mode=0o755)
    before = shop.moment()
    done = task(shop, "hooked", "echo 1 > one", "--here", "--attempts", "1", check=False)
    assert done["attempts"][0]["outcome"] == "refused-by-hook"
    assert before.changes() == []


@pytest.mark.long
def test_here_refuses_a_tree_that_is_dirty_detached_or_on_another_branch(shop: Project) -> None:
    shop.write("new", "1\n")
    assert task(shop, "a", "true", "--here", check=False).error == "dirty-tree"
    shop.git("add", "new")
    assert task(shop, "a", "true", "--here", check=False).error == "dirty-tree"
    shop.git("commit", "-qm", "new")
    assert task(shop, "a", "true", "--here", "--onto", "other", check=False).error == "usage"
    shop.git("switch", "-q", "--detach")
    assert task(shop, "a", "true", "--here", check=False).error == "usage"
    assert not list(shop.home.data.glob("projects/*/tasks/*"))
    shop.git("switch", "-q", "main")
    assert task(shop, "a", "touch a", "--here")["outcome"] == "landed"
    assert folder(shop, "a").is_dir()
