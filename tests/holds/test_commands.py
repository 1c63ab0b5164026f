"""`takeback holds` tells what waits, and no output of any command has a secret in it."""

from __future__ import annotations

import random
import shlex
from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.holds.conftest import Asker
from tests.support.person import at_own_terminal
from tests.support.secrets import PLACES, key_block, shaped


def test_holds_as_json_has_the_promised_fields_first(asker: Asker) -> None:
    asker.hold("git push")
    found = asker.project.tb("holds")
    assert list(found.json) == ["schema", "holds"]
    assert list(found["holds"][0])[:6] == ["id", "command", "class", "state", "why", "created"]
    one = found["holds"][0]
    assert (one["id"], one["command"], one["class"], one["state"]) == ("h1", "git push", "outside", "waiting")
    assert one["created"].endswith("Z")


def test_what_ended_is_listed_with_all_only(asker: Asker) -> None:
    asker.hold("git push")
    asker.hold("npm publish")
    at_own_terminal(asker.project.home, asker.root, "deny", "h1")
    assert [one["id"] for one in asker.project.tb("holds")["holds"]] == ["h2"]
    assert [one["state"] for one in asker.project.tb("holds", "--all")["holds"]] == ["denied", "waiting"]
    assert asker.project.tb("status")["holds"] == ["h2"]
    assert "1 action for a person" in asker.project.tb("status", as_json=False).text


def test_people_see_what_why_and_how_to_answer(asker: Asker) -> None:
    asker.hold(asker.request("npm publish", agent="claude", session="s1"))
    said = asker.project.tb("holds", as_json=False).text
    for part in (
        "h1  waiting",
        "npm publish",
        "agent claude session s1",
        "72 hours",
        "takeback approve h1",
        "expires in",
    ):
        assert part in said, said
    at_own_terminal(asker.project.home, asker.root, "deny", "h1")
    assert "nothing waits" in asker.project.tb("holds", as_json=False).text


def test_approve_as_json_keeps_the_commands_output_off_stdout(asker: Asker, tmp_path: object) -> None:
    asker.project.write("deploy.sh", "#!/bin/sh\necho out; echo err >&2; exit 5\n", mode=0o755)
    asker.hold("./deploy.sh")
    done = at_own_terminal(asker.project.home, asker.root, "approve", "h1", "--json")
    assert done.code == 5 and done["ran"] and done["exit"] == 5 and done["state"] == "done"
    assert "out" in done["tail"] and "err" in done["tail"]


Words = list[list[str]]


def all_outputs(
    asker: Asker, secrets: list[str], hidden: list[str], places: list[str], ask: Callable[[str, str], Words]
) -> None:
    """Put secrets into commands, messages and outputs, and look for them in what the command line says.

    `ask` gets a step and a command, and returns the command lines whose output is looked at, with and without JSON.
    """
    project = asker.project
    lines = [*secrets, *(place.format("hunter2-of-mine") for place in places)]
    script = "".join(f"printf '%s\\n' {shlex.quote(line)}\n" for line in lines) + "echo x >> made.txt; exit 3"
    step = project.tb("run", "--", script, check=False)["id"]
    project.tb("checkpoint", "-m", lines[0])
    send = " && ".join(f"curl -X POST -d {shlex.quote(line)} https://example.com" for line in lines)
    asker.hold(send)
    blanked = 0
    for words in ask(step, send):
        for as_json in (True, False):
            text = project.tb(*words, check=False, as_json=as_json).text
            blanked += text.count("***")
            for secret in (*hidden, "hunter2"):
                assert secret not in text, f"{secret} in the output of {words[0]}: {text}"
    assert blanked


def test_no_output_has_a_secret_in_it(asker: Asker) -> None:
    rng = random.Random(7)
    secrets, (block, line) = shaped(rng), key_block(rng)
    hidden = [*(one[12:40] for one in secrets), line[:40]]
    all_outputs(
        asker, [*secrets, block], hidden, PLACES,
        lambda step, send: [["log"], ["show", step], ["undo", "--dry-run"], ["holds"], ["explain", send]],
    )  # fmt: skip


@pytest.mark.long
@settings(max_examples=3, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(0, 2**32), st.lists(st.sampled_from(PLACES), min_size=1, max_size=8))
def test_no_output_of_any_command_has_a_secret_of_a_known_shape(asker: Asker, seed: int, places: list[str]) -> None:
    rng = random.Random(seed)
    secrets = rng.sample(shaped(rng), 6)
    all_outputs(
        asker, secrets, [one[12:40] for one in secrets], places,
        lambda step, send: [
            ["log"], ["log", "-v"], ["show", step], ["show", "c1"], ["status"], ["undo", "--dry-run", step],
            ["holds", "--all"],
            ["explain", send], ["undo", secrets[0]], ["diff", secrets[0]], ["approve", "h1", "--token", secrets[0]],
        ],
    )  # fmt: skip
