"""`takeback init`, `uninstall` and `doctor` on real settings files; what was changed is changed back to the byte."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from tests.support.cli import Project, make_executable

SETTINGS = '{\n    // mine\n    "permissions": {"allow": ["Bash(ls:*)"]},\n    "hooks": {"Stop": [{"hooks": []}]}\n}'
FILES = {
    "claude": ".claude/settings.local.json",
    "codex": ".codex/hooks.json",
    "gemini": ".gemini/settings.json",
    "opencode": ".opencode/plugins/takeback.js",
}


def findings(project: Project, agent: str, **env: str) -> list[tuple[bool, str]]:
    """Return what doctor says of an agent."""
    found = project.tb("doctor", check=False, env=env)["findings"]
    return [(one["ok"], one["detail"]) for one in found if one["name"].startswith(agent)]


def test_init_and_uninstall_leave_every_byte_as_it_was(repo: Project) -> None:
    repo.write(".claude/settings.local.json", SETTINGS)
    moment = repo.tree()
    done = repo.tb("init", "--agent", "all")
    assert {one["agent"] for one in done["installed"]} == set(FILES)
    assert done["checkpoint"] == "c1"
    assert all("takeback-hook" in repo.read(path).decode() for path in FILES.values())
    (backup,) = [one["backup"] for one in done["installed"] if one["path"].endswith("settings.local.json")]
    assert Path(backup).read_text("utf-8") == SETTINGS
    first = {path: repo.read(path) for path in FILES.values()}
    assert {one["done"] for one in repo.tb("init", "--agent", "all")["installed"]} == {"kept"}
    assert {path: repo.read(path) for path in FILES.values()} == first
    assert {one["agent"] for one in repo.tb("status")["hooks"]} == set(FILES)
    assert repo.tb("uninstall", "--keep-checkpoints")["undo_with"] == "takeback init"
    assert repo.tb("status")["hooks"] == []
    now = repo.tree()
    assert {path: one.content for path, one in now.items()} == {path: one.content for path, one in moment.items()}
    assert repo.tb("log")["events"] != []


@pytest.mark.long
def test_what_somebody_else_changed_since_stays_when_takeback_goes(repo: Project) -> None:
    repo.write(".claude/settings.local.json", SETTINGS)
    repo.tb("init", "--agent", "claude")
    changed = repo.read(".claude/settings.local.json").replace(b"Bash(ls:*)", b"Bash(make:*)")
    repo.write(".claude/settings.local.json", changed)
    repo.tb("uninstall", "--keep-checkpoints")
    assert repo.read(".claude/settings.local.json") == SETTINGS.replace("(ls:*)", "(make:*)").encode()


@pytest.mark.long
def test_a_persons_own_settings_are_set_up_without_a_project(repo: Project) -> None:
    home = repo.home
    done = home.tb(home.path, "init", "--user", "--agent", "claude")
    assert done["checkpoint"] is None
    assert (home.path / ".claude" / "settings.json").exists()
    assert repo.tb("status")["hooks"] == [{"agent": "claude", "user": True}]
    back = home.tb(home.path, "uninstall", "--user", "--agent", "claude")["undo_with"]
    assert back == "takeback init --agent claude --user"
    assert home.tb(home.path, "uninstall")["undo_with"] == ""
    assert not (home.path / ".claude").exists()


@pytest.mark.long
def test_uninstall_forgets_what_was_saved_only_when_told_to(repo: Project) -> None:
    repo.tb("init", "--agent", "claude")
    refused = repo.tb("uninstall", check=False)
    assert refused.code == 2
    assert repo.exists(FILES["claude"])
    assert repo.tb("uninstall", "--yes")["forgotten"] is True
    assert repo.tb("log")["events"] == []


@pytest.mark.long
def test_settings_that_cannot_be_read_are_not_touched(repo: Project) -> None:
    repo.write(".claude/settings.local.json", '{\n "a": }')
    refused = repo.tb("init", "--agent", "claude", check=False)
    assert refused.code == 2
    assert "line 2" in refused.text
    assert repo.read(".claude/settings.local.json") == b'{\n "a": }'


@pytest.mark.long
def test_a_command_file_of_somebody_else_stays(repo: Project) -> None:
    repo.write(".claude/commands/undo.md", "my own\n")
    done = repo.tb("init", "--agent", "claude")
    assert [one["done"] for one in done["installed"]] == ["added", "left"]
    repo.tb("uninstall", "--keep-checkpoints")
    assert repo.read(".claude/commands/undo.md") == b"my own\n"


@pytest.mark.long
def test_a_settings_file_that_is_a_link_stays_one(repo: Project) -> None:
    real = Path(repo.home.path, "dotfiles.json")
    real.write_text("{}\n", "utf-8")
    os.makedirs(repo.at(".claude"))
    os.symlink(real, repo.at(FILES["claude"]))
    repo.tb("init", "--agent", "claude")
    assert os.path.islink(repo.at(FILES["claude"]))
    assert "takeback-hook" in real.read_text("utf-8")
    repo.tb("uninstall", "--keep-checkpoints")
    assert real.read_text("utf-8") == "{}\n"


def test_doctor_fires_each_hook_and_says_what_keeps_hooks_from_running(repo: Project) -> None:
    repo.tb("init", "--agent", "claude")
    assert findings(repo, "claude") == [(True, f"6 in {repo.root}/{FILES['claude']}, each fired once, and all ran")]
    events = repo.tb("log")["events"]
    repo.write(".claude/settings.json", '{"disableAllHooks": true}')
    (_, (well, why)) = findings(repo, "claude")
    assert not well
    assert "disableAllHooks" in why
    assert repo.tb("log")["events"] == events


@pytest.mark.long
@pytest.mark.parametrize("agent", FILES)
def test_doctor_says_that_a_hook_whose_program_is_gone_or_dies_does_not_run(repo: Project, agent: str) -> None:
    repo.tb("init", "--agent", agent)
    hook = os.path.join(os.path.dirname(sys.executable), "takeback-hook")
    whole = repo.read(FILES[agent]).decode()
    other = f"{repo.home.path}/takeback-hook"
    repo.write(FILES[agent], whole.replace(hook, other))
    (gone, *_) = findings(repo, agent)
    assert not gone[0]
    make_executable(other, "#!/bin/sh\nkill -9 $$\n")
    (dead, *_) = findings(repo, agent)
    assert not dead[0]
    assert "did not run" in dead[1]


@pytest.mark.long
def test_doctor_says_that_hooks_were_taken_out_by_somebody_else(repo: Project) -> None:
    repo.tb("init", "--agent", "claude")
    settings = json.loads(repo.read(FILES["claude"]))
    del settings["hooks"]["PreToolUse"]
    repo.write(FILES["claude"], json.dumps(settings))
    ((well, why), *_) = findings(repo, "claude")
    assert not well
    assert "PreToolUse" in why


@pytest.mark.long
@pytest.mark.parametrize(
    ("agent", "files", "env", "said"),
    [
        ("claude", {".claude/settings.json": "{"}, {}, "ignored silently"),
        ("claude", {}, {"CLAUDE_CODE_SIMPLE": "1"}, "CLAUDE_CODE_SIMPLE"),
        ("codex", {}, {}, "is not trusted"),
        ("gemini", {}, {}, "not a trusted folder"),
        ("gemini", {".gemini/settings.json": '{"hooksConfig": {"enabled": false}}'}, {}, "hooksConfig.enabled"),
    ],
)
def test_doctor_knows_the_off_switches_of_each_agent(
    repo: Project, agent: str, files: dict[str, str], env: dict[str, str], said: str
) -> None:
    for path, text in files.items():
        if not path.endswith("settings.json") or "hooksConfig" in text:
            repo.write(path, text)
    repo.tb("init", "--agent", agent)
    for path, text in files.items():
        if not repo.exists(path):
            repo.write(path, text)
    bad = [why for well, why in findings(repo, agent, **env) if not well]
    assert any(said in why for why in bad), bad


def test_the_whole_run_of_any_other_agent_is_one_step(repo: Project) -> None:
    moment = repo.moment()
    ran = repo.tb("watch", "--", "sh", "-c", "rm -r src; echo x > .env; exit 3", check=False)
    assert ran.code == 3
    assert not repo.exists("src")
    assert repo.tb("undo", "--session", "sh")["targets"] == [ran["id"]]
    assert moment.changes() == []


@pytest.mark.long
def test_init_says_that_an_agent_is_not_on_this_machine(repo: Project) -> None:
    alone = {"PATH": "/usr/bin:/bin"}
    done = repo.tb("init", "--agent", "gemini", env=alone)
    assert any("was not found on this machine" in note for one in done["installed"] for note in one["notes"])
    none = repo.tb("init", check=False, env=alone)
    assert (none.code, none.error) == (2, "usage") and "takeback watch -- AGENT" in none.text
