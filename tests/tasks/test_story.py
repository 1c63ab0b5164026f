"""The night this is for: seven tasks on one branch, one of them quietly wrong, one a wreck; then one command each.

Does not cover: the same with a real agent program (`test_story_claude`).
"""

from __future__ import annotations

import os
from pathlib import Path

from tests.support.cli import Project
from tests.tasks.shop import CHECK, log, nothing_left, show, task

_LOOK = (
    "{ find . -path ./.git -prune -o -type f -print | LC_ALL=C sort | grep -v '^./seen' | xargs -d '\\n' sha256sum; } "
    "> ../../$TASK_ID.$ATTEMPT.{when}"
)
_SCRIPTS = {
    "one": "echo 'def one(): return 1' > one.py",
    "two": "echo 'def two(): return 2' > two.py; echo TOKEN=two > .env",
    # Passes its own check, and changes how defaults resolve.
    "three": "echo 'def three(): return 3' > three.py; printf 'DEFAULT = 20\\n' > defaults.py",
    "four": "echo 'import defaults  # four' > four.py",
    "five": (
        "rm app.py; echo x > junk.tmp; echo TOKEN=stolen > .env; mkdir -p cache; echo y > cache/deep; "
        "rm -f data/local.db; touch broken"
    ),
    "six": "echo 'import defaults  # six' > six.py",
    "seven": "echo 'import four  # seven' > seven.py; echo TOKEN=seven > .env",
}


def seen(project: Project, id: str, attempt: int, when: str) -> str:
    (found,) = project.home.data.glob(f"projects/*/tasks/{id}/{id}.{attempt}.{when}")
    return found.read_text()


def test_seven_tasks_blame_and_revert(shop: Project, tmp_path: Path) -> None:
    shop.write("defaults.py", "DEFAULT = 10\n")
    shop.git("add", "-A")
    shop.git("commit", "-qm", "defaults")
    before = shop.moment()
    done = {}
    for id, script in _SCRIPTS.items():
        whole = f"{_LOOK.replace('{when}', 'before')}; {script}; {_LOOK.replace('{when}', 'after')}"
        done[id] = task(shop, id, whole, "--onto", "night", "--attempts", "2", check=False)
        assert done[id]["outcome"] == ("failed" if id == "five" else "landed"), done[id].text
    landed = [id for id in _SCRIPTS if id != "five"]
    assert log(shop, "night")[::-1] == ["first", "defaults", *(f"Do {id}" for id in landed)]
    # The tree before every task is the tree after the last that landed, byte for byte, state included.
    for earlier, later in zip(landed, [*landed[1:], None], strict=True):
        if later is not None:
            assert seen(shop, earlier, 1, "after") == seen(shop, later, 1, "before"), (earlier, later)
    assert seen(shop, "five", 1, "before") == seen(shop, "four", 1, "after")
    assert [one for one in before.changes() if "night" not in one] == []
    nothing_left(shop)

    # In the morning something is wrong, and nobody knows since when.
    shop.git("worktree", "add", "-q", "../morning", "night")
    morning = shop.home.project(os.path.join(os.path.dirname(shop.root), "morning"))
    wrong = "grep -q 'DEFAULT = 10' defaults.py"
    blamed = morning.tb("blame-task", "--verify", wrong)
    assert (blamed["task"], blamed["commit"], blamed["revert"]) == (
        "three",
        done["three"]["commit"],
        "takeback revert three",
    )
    assert len(blamed["tests"]) <= 5
    shown = morning.tb("show", "t:three")
    assert (shown["applies"], shown["files"], shown["later"]) == (True, ["defaults.py", "three.py"], [])

    tried = morning.tb("revert", "three", "--verify", wrong, "--dry-run")
    assert tried["outcome"] == "would-revert" and log(shop, "night")[0] == "Do seven"
    taken = morning.tb("revert", "three", "--verify", wrong)
    assert (taken["outcome"], taken["branch"]) == ("reverted", "night")
    assert [check["exit"] for check in taken["verify"]] == [0, 0] and taken["verify"][0]["cmd"] == CHECK
    assert log(shop, "night")[0] == 'Revert "Do three"'
    assert morning.read("defaults.py") == b"DEFAULT = 10\n" and not morning.exists("three.py")
    assert morning.exists("seven.py") and morning.exists("four.py")
    assert show(shop, "night", "six.py") == b"import defaults  # six\n"
    assert morning.git("status", "--porcelain") == b""

    # Again there is nothing to do; the others are as they were.
    assert morning.tb("revert", "three", check=False).error == "nothing-to-do"
    how = {one["id"]: (one["outcome"], bool(one["reverted_by"])) for one in morning.tb("tasks")["tasks"]}
    assert how == {id: ("failed" if id == "five" else "landed", id == "three") for id in _SCRIPTS}
    assert morning.tb("blame-task", "--verify", wrong, check=False).error == "nothing-to-do"
