"""`takeback trust` and `takeback policy`: a person accepts what a project loosens, and everybody sees what holds."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

import pytest

from takeback import judge
from takeback.guard.policy import Act, decide
from tests.cli.golden_file import Golden
from tests.support.cli import PATIENCE, Project, Result
from tests.support.person import at_own_terminal

LOOSE = '[policy]\noutside = "checkpoint"\nmachine.system = "ask"\n'


def act(repo: Project, source: str, monkeypatch: pytest.MonkeyPatch) -> Act:
    """Return what the policy of this project says of a command, as hooks and `run` ask for it."""
    from takeback.guard import classify

    for name, value in repo.home.env().items():
        monkeypatch.setenv(name, value)
    return decide(classify(source, judge.context(repo.root)), judge.policy(repo.root), attended=True).act


def shown(repo: Project, *args: str, answer: bytes = b"") -> tuple[int, str]:
    done = at_own_terminal(repo.home, repo.root, *args, answer=answer)
    return done.code, done.out.decode()


def policy(repo: Project) -> Result:
    return repo.tb("policy", check=False)


def test_what_a_project_loosens_counts_once_a_person_accepted_it(
    repo: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    repo.write(".takeback.toml", LOOSE)
    assert act(repo, "git push", monkeypatch) is Act.HOLD
    assert act(repo, "sudo apt-get install jq", monkeypatch) is Act.ASK
    code, text = shown(repo, "trust", answer=b"y\n")
    assert code == 0
    assert ".takeback.toml, line 2: outside: hold -> checkpoint" in text
    assert "Take this back with: takeback trust --forget" in text
    assert act(repo, "git push", monkeypatch) is Act.CHECKPOINT
    assert policy(repo)["trusted"] is True
    (record,) = (repo.home.data / "trust").iterdir()
    assert stat.S_IMODE(record.stat().st_mode) == 0o600
    assert stat.S_IMODE(record.parent.stat().st_mode) == 0o700


def test_a_changed_file_is_not_trusted_any_more_and_its_strict_parts_still_count(
    repo: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    repo.write(".takeback.toml", LOOSE)
    assert shown(repo, "trust", "--yes")[0] == 0
    repo.write(".takeback.toml", LOOSE + 'files = "ask"\n')
    assert act(repo, "git push", monkeypatch) is Act.HOLD
    assert act(repo, "rm README.md", monkeypatch) is Act.ASK
    (note,) = policy(repo)["notes"]
    assert "would loosen one thing and is not trusted" in note
    repo.write(".takeback.toml", LOOSE)
    assert act(repo, "git push", monkeypatch) is Act.CHECKPOINT


def test_forgetting_is_its_undo(repo: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    repo.write(".takeback.toml", LOOSE)
    assert shown(repo, "trust", "--yes")[0] == 0
    assert repo.tb("trust", "--forget")["trusted"] is False
    assert act(repo, "git push", monkeypatch) is Act.HOLD
    assert repo.tb("trust", "--forget", check=False).error == "nothing-to-do"


def test_a_person_who_says_no_accepts_nothing(repo: Project) -> None:
    repo.write(".takeback.toml", LOOSE)
    code, text = shown(repo, "trust", answer=b"n\n")
    assert code == 1
    assert "Nothing was accepted." in text
    assert not (repo.home.data / "trust").exists()


def test_without_a_terminal_nothing_is_accepted(repo: Project) -> None:
    repo.write(".takeback.toml", LOOSE)
    asked = repo.tb("trust", as_json=False, check=False)
    assert asked.code == 2 and "only a person at a terminal can trust a policy" in asked.text
    assert repo.tb("trust", "--yes", check=False).error == "not-a-person"
    assert not (repo.home.data / "trust").exists()


def test_as_json_it_is_shown_and_accepted_only_with_yes(repo: Project) -> None:
    repo.write(".takeback.toml", LOOSE)
    said = repo.tb("trust")
    assert (said["trusted"], said["undo_with"]) == (False, None)
    assert said["loosened"] == [
        {"what": "outside", "was": "hold", "becomes": "checkpoint", "where": ".takeback.toml, line 2"}
    ]
    code, text = shown(repo, "trust", "--json", "--yes")
    assert (code, json.loads(text)["trusted"]) == (0, True)
    assert repo.tb("trust")["trusted"] is True
    assert set(said.json) == {"schema", "trusted", "root", "digest", "loosened", "undo_with"}


def test_what_loosens_nothing_needs_no_trust_and_a_mistake_is_mended_first(repo: Project) -> None:
    repo.write(".takeback.toml", '[policy]\nfiles = "ask"\n')
    assert repo.tb("trust", "--yes", check=False).error == "nothing-to-do"
    repo.write(".takeback.toml", LOOSE + "fils = 3\n")
    code, text = shown(repo, "trust", "--yes")
    assert code == 2
    assert "line 4: unknown key `fils`" in text


def test_where_nobody_can_be_asked_yes_must_be_said(repo: Project) -> None:
    repo.write(".takeback.toml", LOOSE)
    master, slave = os.openpty()
    process = repo.home.start(repo.root, "trust", stdin=slave)
    os.close(slave)
    _, err = process.communicate(timeout=PATIENCE)
    os.close(master)
    assert process.returncode == 2
    assert b"say --yes" in err
    assert not (repo.home.data / "trust").exists()


@pytest.mark.parametrize("spoil", ["mode", "root", "json"])
def test_a_record_that_may_be_another_s_is_none(repo: Project, spoil: str, monkeypatch: pytest.MonkeyPatch) -> None:
    repo.write(".takeback.toml", LOOSE)
    assert shown(repo, "trust", "--yes")[0] == 0
    (record,) = (repo.home.data / "trust").iterdir()
    if spoil == "mode":
        record.chmod(0o666)
    else:
        found = {**json.loads(record.read_text()), "root": "/elsewhere"}
        record.write_text(json.dumps(found) if spoil == "root" else "{")
    assert act(repo, "git push", monkeypatch) is Act.HOLD


def test_the_project_at_another_place_is_another_project(repo: Project, tmp_path: Path) -> None:
    repo.write(".takeback.toml", LOOSE)
    assert shown(repo, "trust", "--yes")[0] == 0
    other = tmp_path / "other"
    other.mkdir()
    (other / ".takeback.toml").write_text(LOOSE)
    assert repo.home.tb(other, "policy")["trusted"] is False


def test_a_broken_policy_stops_no_work_and_loosens_nothing(repo: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    repo.home.settings.parent.mkdir(parents=True, exist_ok=True)
    repo.home.settings.write_text('[policy]\noutside = "allow"\nstate = "hold"\nfils = "ask"\n')
    assert act(repo, "git push", monkeypatch) is Act.HOLD
    assert act(repo, "git config a.b c", monkeypatch) is Act.HOLD
    assert act(repo, "rm README.md", monkeypatch) is Act.CHECKPOINT
    (note,) = judge.policy(repo.root).notes
    assert "config.toml, line 4: unknown key `fils`" in note
    assert repo.tb("run", "--", "true").code == 0
    repo.write(".takeback.toml", "[policy]\nfiles = = 3\n")
    assert repo.tb("run", "--", "true").code == 0
    repo.write(".takeback.toml", "")
    said = policy(repo)
    assert (said.code, said["problems"][0]["hint"]) == (1, "did you mean `files`?")
    found = repo.tb("doctor", check=False)
    assert found.code == 1
    assert [one["fix"] for one in found["findings"] if one["name"] == "policy"] == ["did you mean `files`?"]


def test_the_branch_that_is_checked_out_is_known(repo: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    repo.write(".takeback.toml", '[policy.branches]\nprotected = ["trunk"]\n')
    repo.git("checkout", "-q", "-b", "trunk")
    assert act(repo, "git reset --hard HEAD~1", monkeypatch) is Act.ASK
    repo.git("checkout", "-q", "-b", "work")
    assert act(repo, "git reset --hard HEAD~1", monkeypatch) is Act.CHECKPOINT
    repo.git("worktree", "add", "-q", "linked", "trunk")
    linked = Project(repo.home, os.path.join(repo.root, "linked"))
    linked.write(".takeback.toml", repo.read(".takeback.toml"))
    assert act(linked, "git reset --hard HEAD~1", monkeypatch) is Act.ASK


WHOLE = """\
[policy]
outside = "ask"
files = "ask"

[[policy.rule]]
match = "npm publish"
class = "outside"
act = "checkpoint"

[policy.hosts]
allow = ["*.staging.example.com"]
deny = ["*.prod.example.com"]

[policy.branches]
protected = ["main"]
commits = true
"""


def test_the_policy_in_force_is_shown_with_where_it_is_from(repo: Project, pytestconfig: pytest.Config) -> None:
    repo.home.settings.parent.mkdir(parents=True, exist_ok=True)
    repo.home.settings.write_text('[policy]\nmachine = "hold"\nnotify = "notify-send held"\n')
    repo.write(".takeback.toml", WHOLE)
    drawings = Golden.of(pytestconfig, Path(__file__).parent / "drawings")
    drawings.check("policy.txt", repo.tb("policy", as_json=False).out.decode())


def test_the_policy_as_json_has_its_fields(repo: Project) -> None:
    repo.write(".takeback.toml", WHOLE)
    said = policy(repo)
    assert said.code == 0
    assert set(said.json) == {"schema", "root", "trusted", "acts", "rules", "rollback_failed", "on_error", "notify",
                              "loosened", "notes", "problems"}  # fmt: skip
    assert {one["name"]: (one["act"], one["from"]) for one in said["acts"]}["files"] == (
        "ask",
        ".takeback.toml, line 3",
    )
    assert {one["counts"] for one in said["rules"] if one["kind"] == "command"} == {"stricter"}
