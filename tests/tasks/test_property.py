"""Any interleaving of pass, fail, crash and revert: one commit per landed task, each reverted by one command or not.

A plain model says what the branch must hold: the tasks that landed, in order, and those that were taken back.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.cli import Account, Project
from tests.support.content import new_home
from tests.tasks import shop as shops
from tests.tasks.shop import log, nothing_left, task, tip, trailers

# A pass writes one line of one of two files, so that reverts meet each other's lines and each other's files.
_PASS = st.tuples(st.just("pass"), st.sampled_from("ab"), st.integers(0, 2))
_FAIL = st.tuples(st.sampled_from(["fail", "crash", "killed"]), st.sampled_from("ab"), st.integers(0, 2))
_REVERT = st.tuples(st.just("revert"), st.just(""), st.integers(0, 5))
_STORY = st.lists(st.one_of(_PASS, _PASS, _FAIL, _REVERT), min_size=3, max_size=7)


def _edit(name: str, line: int, word: str) -> str:
    return f"test -f {name} || printf '0\\n0\\n0\\n' > {name}; sed -i '{line + 1}s/.*/{word}/' {name}"


def _play(project: Project, story: list[tuple[str, str, int]]) -> None:
    landed: list[str] = []
    reverted: set[str] = set()
    for number, (what, name, value) in enumerate(story):
        id = f"t{number}"
        before = tip(project, "night")
        if what == "revert":
            if not landed:
                continue
            victim = landed[value % len(landed)]
            done = project.tb("revert", victim, check=False)
            if victim in reverted:
                assert done.error == "nothing-to-do", done.text
            elif done.code == 0:
                reverted.add(victim)
            else:
                assert done["outcome"] == "conflict" and done["dependants"], done.text
                assert set(done["dependants"]) <= set(landed) - reverted
            if done.code:
                assert tip(project, "night") == before
            continue
        script = _edit(name, value, id)
        more = {"pass": "", "fail": "; touch broken", "crash": "; exit 9"}.get(what)
        if more is None:
            more = "; test -f ../../again || { touch ../../again; kill -9 $PPID; sleep 9; }"
        done = task(project, id, script + more, "--onto", "night", "--attempts", "1", check=False)
        if what == "killed":
            assert tip(project, "night") == before
            done = project.tb("task", "resume", id, check=False)
        if what in ("pass", "killed"):
            assert done["outcome"] == "landed", done.text
            landed.append(id)
        else:
            assert done["outcome"] == "failed" and tip(project, "night") == before
    subjects = log(project, "night") if tip(project, "night") else []
    assert [one for one in subjects if one.startswith("Do ")] == [f"Do {id}" for id in reversed(landed)]
    assert len([one for one in subjects if one.startswith("Revert")]) == len(reverted)
    for one in project.tb("tasks")["tasks"]:
        if one["outcome"] == "landed":
            assert trailers(project, one["commit"])["Task-Id"] == one["id"]
            assert bool(one["reverted_by"]) == (one["id"] in reverted)
    assert log(project, "main") == ["first"]
    nothing_left(project)


def _fresh(story: list[tuple[str, str, int]]) -> None:
    with tempfile.TemporaryDirectory(prefix="tb-tasks-") as folder:
        home = new_home(Path(folder) / "home", Account("somebody", Path(folder) / "home"))
        _play(shops.make(home, Path(folder) / "shop"), story)


def test_one_story_with_everything_in_it() -> None:
    _fresh([
        ("pass", "a", 0), ("killed", "a", 0), ("revert", "", 0), ("fail", "b", 1), ("revert", "", 1), ("revert", "", 0),
    ])  # fmt: skip


@pytest.mark.long
@settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck))
@given(_STORY)
def test_any_story(story: list[tuple[str, str, int]]) -> None:
    _fresh(story)
