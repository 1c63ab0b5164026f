"""Control groups of version 2, all of them, in a kernel of our own: as root, and as a user with and without a group."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support import uml
from tests.support.machines import TOP

pytestmark = pytest.mark.long

PROGRAM = "tests/machines/engines/gvisor/in_cgroup2.py"


def found(kind: str, folder: Path) -> dict[str, Any]:
    env = ["env", f"PYTHONPATH={TOP}/src", "PYTHONDONTWRITEBYTECODE=1", f"PATH={'/usr/sbin:/usr/bin:/sbin:/bin'}"]
    said = uml.run([*env, sys.executable, TOP / PROGRAM, kind], folder)
    for line in said.splitlines():
        if line.startswith("RESULT "):
            answer: dict[str, Any] = json.loads(line.removeprefix("RESULT "))
            return answer
    raise AssertionError(said)


def holds(answer: dict[str, Any]) -> None:
    """What is over its memory ends with all that is in its group, nothing else does, and nothing is left."""
    assert answer["bounds"] and answer["greedy"] == -9 and answer["beside"] == -9 and answer["other"] is None
    assert answer["said"] == [True, False] and answer["used"]
    assert answer["pids.max"] == ["524"]
    assert (answer["busy"], answer["removed"], answer["left"]) == (False, True, [])


def test_root_bounds_everything(tmp_path: Path) -> None:
    answer = found("root", tmp_path)
    assert (answer["usable"], answer["place"], answer["lacking"]) == (True, ".", "")
    assert answer["names"] == ["memory", "cpu", "pids"] and answer["cpu.max"] == "100000 100000\n"
    assert answer["groups"] == ["takeback-test/tb1"]
    holds(answer)


def test_a_user_bounds_what_the_group_that_was_given_to_it_has(tmp_path: Path) -> None:
    answer = found("given", tmp_path)
    assert (answer["usable"], answer["place"], answer["names"]) == (True, "scope", ["memory", "pids"])
    assert answer["lacking"].startswith("no control group for processors")
    assert answer["groups"] == ["scope/takeback-test/tb1"]
    holds(answer)


@pytest.mark.parametrize(("kind", "why"), [("crowded", "are there processes in it?"), ("stranger", "may not make")])
def test_without_a_group_of_its_own_a_user_is_told_why_and_how_to_get_one(tmp_path: Path, kind: str, why: str) -> None:
    answer = found(kind, tmp_path)
    assert not answer["usable"] and why in answer["lacking"] and "Delegate=yes" in answer["lacking"]
