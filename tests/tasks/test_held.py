"""What an agent would do outside waits for a person, and the task says so.

Does not cover: answering a hold (`tests.holds`), or which hooks bring a step before the guard.
"""

from __future__ import annotations

from tests.support.cli import Project
from tests.tasks.shop import log, task


def test_an_outside_action_is_held_and_shown_and_decides_nothing_about_what_passes(shop: Project) -> None:
    push = f"{shop.home.python[0]} -m takeback run -- git push origin HEAD"
    script = f"{push}; touch a; test $TASK_ID = fine || touch broken"
    done = task(shop, "fine", script)
    assert (done["outcome"], done["holds"]) == ("landed", ["h1"])
    done = task(shop, "not-yet", script, "--attempts", "1", check=False)
    assert (done.code, done["outcome"], done["holds"]) == (1, "held", ["h2"])
    assert [(one["outcome"], one["refunded"]) for one in done["attempts"]] == [("held", True)]
    assert "h2" in done["reason"] and "task resume not-yet" in done["reason"]
    assert shop.tb("task", "resume", "not-yet", check=False)["outcome"] == "held"
    assert log(shop, "main") == ["first"]
