"""The night this is for: seven tasks on one branch, one of them quietly wrong, one a wreck; then one command each.

Does not cover: how agents end (`test_agents_conformance`).
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.agents import programs
from tests.agents.support import Driver, Scripted, bash
from tests.support.cli import Home, Project, Result
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


class Agents:
    """Gives a task to an agent: shell source, or Claude Code with a model that runs this source."""

    def __init__(self, name: str, home: Home, top: Path) -> None:
        self.name = name
        self._scripted = Scripted(top / "model") if name == "claude" else None
        self._driver = Driver(self._scripted, home) if self._scripted else None

    def do(self, project: Project, id: str, script: str, *more: str) -> Result:
        """Run a task to its end."""
        if self._scripted is None or self._driver is None:
            return task(project, id, script, *more, check=False)
        mark = self._scripted.play(id, [bash(script), {"text": "All done, and everything works."}])
        env = self._driver.environment("claude")
        env["PATH"] = os.pathsep.join([str(programs.program("claude").parent), env["PATH"]])
        words = ("--prompt", f"Do {id}\n\n{mark}", "--verify", CHECK, "--agent", "claude")
        return project.tb("task", "run", "--id", id, *words, *more, check=False, env=env)

    def stop(self) -> None:
        if self._scripted is not None:
            self._scripted.stop()


@pytest.fixture(params=[pytest.param("command", marks=pytest.mark.long), "claude"])
def agents(request: pytest.FixtureRequest, home: Home, tmp_path: Path) -> Iterator[Agents]:
    made = Agents(request.param, home, tmp_path)
    yield made
    made.stop()


def seen(project: Project, id: str, attempt: int, when: str) -> str:
    (found,) = project.home.data.glob(f"projects/*/tasks/{id}/{id}.{attempt}.{when}")
    return found.read_text()


def test_seven_tasks_blame_and_revert(shop: Project, agents: Agents) -> None:
    shop.write("defaults.py", "DEFAULT = 10\n")
    shop.git("add", "-A")
    shop.git("commit", "-qm", "defaults")
    before = shop.moment()
    done = {}
    for id, script in _SCRIPTS.items():
        whole = f"{_LOOK.replace('{when}', 'before')}; {script}; {_LOOK.replace('{when}', 'after')}"
        done[id] = agents.do(shop, id, whole, "--onto", "night", "--attempts", "2")
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
