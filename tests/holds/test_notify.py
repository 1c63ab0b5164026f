"""Whom the settings name is told, with a token that answers once; whatever becomes of that, the hold stands."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.holds.conftest import Asker

SEND = "TOKEN=hunter2-of-mine ./deploy.sh"


def settings(asker: Asker, notify: str, more: str = "") -> None:
    path = asker.project.home.settings
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"[policy]\nnotify = {json.dumps(notify)}\n[holds]\n{more}\n")


@pytest.fixture
def told(asker: Asker, tmp_path: Path) -> Path:
    """A folder that the notification command writes into."""
    folder = tmp_path / "told"
    folder.mkdir()
    settings(asker, f"cat > {folder}/hold.json; env > {folder}/env")
    asker.project.write("deploy.sh", "#!/bin/sh\necho ran >> .git/count\n", mode=0o755)
    return folder


def environment(told: Path) -> dict[str, str]:
    return dict(line.split("=", 1) for line in (told / "env").read_text().splitlines() if "=" in line)


def test_it_gets_the_hold_without_secrets_and_a_token(
    asker: Asker, told: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", f"/somewhere/of/an/agent:{asker.project.home.env()['PATH']}")
    monkeypatch.setenv("LD_PRELOAD_X", "1")
    made = asker.hold(asker.request(SEND, session="s"))
    said = json.loads((told / "hold.json").read_text())
    assert (said["schema"], said["id"], said["class"], said["session"]) == (1, "h1", made.cls, "s")
    assert said["command"] == "TOKEN=*** ./deploy.sh" and said["undone_by"]
    env = environment(told)
    assert env["TAKEBACK_HOLD"] == "h1" and len(env["TAKEBACK_TOKEN"]) >= 32
    assert "/somewhere" not in env["PATH"] and "LD_PRELOAD_X" not in env
    stored = next(asker.project.home.data.glob("projects/*/holds/h1.json")).read_text()
    assert env["TAKEBACK_TOKEN"] not in stored and made.token in stored
    assert asker.hold(asker.request(SEND, session="s")) == made  # told once


def test_its_token_approves_once_and_only_its_own_hold(asker: Asker, told: Path) -> None:
    asker.hold(SEND)
    token = environment(told)["TAKEBACK_TOKEN"]
    asker.hold("git push")
    for id, given in (("h2", token), ("h1", "x" * 32), ("h1", "")):
        wrong = asker.project.tb("approve", id, "--token", given, check=False)
        assert wrong.error == "wrong-token"
    assert asker.project.tb("approve", "h1", "--token", token)["ran"]
    again = asker.project.tb("approve", "h1", "--token", token, check=False)
    assert again.error == "wrong-token"
    assert asker.project.read(".git/count") == b"ran\n"


@pytest.mark.long
def test_its_token_denies_too(asker: Asker, told: Path) -> None:
    asker.hold(SEND)
    token = environment(told)["TAKEBACK_TOKEN"]
    assert asker.project.tb("deny", "h1", "--because", "no", "--token", token)["state"] == "denied"
    assert not asker.project.exists(".git/count")


@pytest.mark.parametrize(
    ("notify", "wrong"),
    [
        ("exit 7", "exit code 7"),
        pytest.param("/nowhere/at/all", "exit code 127", marks=pytest.mark.long),
        ("sleep 300 & sleep 300", "did not end within 0.3 s"),
    ],
)
def test_what_goes_wrong_with_it_is_told_and_blocks_nothing(asker: Asker, notify: str, wrong: str) -> None:
    settings(asker, notify, "notify_seconds = 0.3")
    asker.project.write("deploy.sh", "#!/bin/sh\n", mode=0o755)
    made = asker.hold(SEND)
    assert made.state == "waiting" and wrong in made.notified
    assert wrong in asker.project.tb("holds", as_json=False).text


def test_a_project_names_none_that_a_person_has_not_accepted(asker: Asker, tmp_path: Path) -> None:
    asker.project.write(".takeback.toml", f"[policy]\nnotify = 'touch {tmp_path}/pwned'\n")
    assert asker.hold("git push").token == ""
    assert not (tmp_path / "pwned").exists()
    asker.project.write(".takeback.toml", "[holds]\nexpire = '1s'\n")
    assert asker.project.tb("checkpoint", check=False).error == "bad-setting"
    # Those of the project do not count, so it waits as long as the user says.
    (waiting,) = asker.project.tb("holds")["holds"]
    assert waiting["state"] == "waiting"


@pytest.mark.long
@pytest.mark.parametrize("line", ["notfy = 'x'", "expire = 'soon'", "expire = 0", "notify_seconds = true"])
def test_a_wrong_setting_is_named_with_its_line(asker: Asker, line: str) -> None:
    settings(asker, "true", line)
    result = asker.project.tb("holds", check=False)
    assert result.error == "bad-setting" and "config.toml, line 4" in result.text
