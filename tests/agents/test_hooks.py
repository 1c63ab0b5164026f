"""takeback in the real agent programs: what they wreck comes back, what must wait waits, and nothing passes unseen."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.agents import programs
from tests.agents.support import AGENTS, Driver, Scripted, bash, write
from tests.support.cli import Project, make_executable

tiers = pytest.mark.parametrize(
    "agent",
    [pytest.param(one, marks=[pytest.mark.long] if programs.TIERS[one] == "long" else []) for one in AGENTS],
)


def initialised(drive: Driver, project: Project, agent: str) -> None:
    """Set takeback up for one agent in a project, with the agents of these tests on PATH."""
    drive.settle(agent)
    project.tb("init", "--agent", agent, env=drive.environment(agent))


def steps(project: Project) -> list[dict[str, Any]]:
    """Return the steps of a project, oldest first."""
    events = project.tb("log", "--limit", "100")["events"]
    return [event for event in reversed(events) if event["kind"] == "step"]


@tiers
def test_what_an_agent_wrecked_comes_back_byte_for_byte(
    agent: str, drive: Driver, scripted: Scripted, repo: Project
) -> None:
    initialised(drive, repo, agent)
    moment = repo.moment()
    wreck = "rm -r src && sed -i 's/Some/No/' README.md && echo gone > .env"
    ended = drive(agent, repo, scripted.play("wreck", [bash(wreck), write("new.txt", "new\n"), {"text": "end"}]))
    assert ended.code == 0, ended
    assert not repo.exists("src"), (ended, scripted.told("wreck"))
    assert repo.read("new.txt") == b"new\n"
    first, second = steps(repo)
    assert first["text"] == wreck
    repo.tb("undo", second["id"])
    assert not repo.exists("new.txt")
    assert not repo.exists("src")
    repo.tb("undo")
    # OpenCode keeps files of its own beside its plugins.
    assert [one for one in moment.changes() if ".opencode" not in one] == []


@pytest.mark.long
@pytest.mark.parametrize("agent", AGENTS)
def test_what_leaves_the_machine_waits_and_the_model_reads_why(
    agent: str, drive: Driver, scripted: Scripted, repo: Project, tmp_path: Path
) -> None:
    repo.git("init", "-q", "--bare", str(tmp_path / "far.git"))
    repo.git("remote", "add", "far", "ssh://nobody@far.invalid/x.git")
    repo.git("config", "remote.far.pushurl", str(tmp_path / "far.git"))
    initialised(drive, repo, agent)
    ended = drive(agent, repo, scripted.play("push", [bash("git push far HEAD:main"), {"text": "end"}]))
    assert ended.code == 0, ended
    assert "waits for a person" in scripted.told("push")
    assert repo.git("--git-dir", str(tmp_path / "far.git"), "for-each-ref") == b""
    assert [one for one in steps(repo) if "push" in one["text"]] == []


@pytest.mark.parametrize(
    "agent", [pytest.param(one, marks=[] if one == "claude" else [pytest.mark.long]) for one in AGENTS]
)
def test_a_push_that_a_person_approved_happens_exactly_once(
    agent: str, drive: Driver, scripted: Scripted, repo: Project, tmp_path: Path
) -> None:
    far = str(tmp_path / "far.git")
    repo.git("init", "-q", "--bare", far)
    # Counted where they arrive.
    make_executable(f"{far}/hooks/post-receive", f"#!/bin/sh\necho push >> {tmp_path}/pushes\n")
    repo.git("remote", "add", "far", far)
    settings = repo.home.settings
    settings.parent.mkdir(parents=True, exist_ok=True)
    make_executable(tmp_path / "notify", f'#!/bin/sh\necho "$TAKEBACK_TOKEN" > {tmp_path}/token\n')
    settings.write_text(f'[policy]\nnotify = "{tmp_path}/notify"\n', "utf-8")
    initialised(drive, repo, agent)
    push = [bash("git push far HEAD:main"), {"text": "end"}]
    drive(agent, repo, scripted.play("first", push))
    (hold,) = repo.tb("holds")["holds"]
    assert hold["id"] in scripted.told("first")
    assert not (tmp_path / "pushes").exists()
    repo.tb("approve", hold["id"], "--token", (tmp_path / "token").read_text("utf-8").strip())
    drive(agent, repo, scripted.play("again", push))
    assert "ran once" in scripted.told("again")
    assert (tmp_path / "pushes").read_text("utf-8") == "push\n"


@pytest.mark.long
def test_codex_runs_the_hooks_whose_trust_init_recorded_and_uninstall_forgets_it(
    drive: Driver, scripted: Scripted, repo: Project
) -> None:
    drive.settle("codex")
    settings = repo.home.path / ".codex" / "config.toml"
    before = settings.read_bytes()
    env = drive.environment("codex") | {
        "PATH": f"{programs.program('codex').parent}:{drive.environment('codex')['PATH']}"
    }
    repo.tb("init", "--user", "--agent", "codex", env=env)
    drive("codex", repo, scripted.play("rm", [bash("rm README.md"), {"text": "end"}]), trust_hooks=False)
    assert [one["text"] for one in steps(repo)] == ["rm README.md"]
    found = [one for one in repo.tb("doctor", check=False, env=env)["findings"] if one["name"].startswith("codex")]
    assert [one for one in found if not one["ok"]] == []
    hooks = repo.home.path / ".codex" / "hooks.json"
    hooks.write_text(hooks.read_text("utf-8").replace('"timeout": 60', '"timeout": 61'), "utf-8")
    found = [one for one in repo.tb("doctor", check=False, env=env)["findings"] if not one["ok"]]
    assert any("skipped silently" in one["detail"] for one in found)
    repo.tb("uninstall", "--keep-checkpoints", env=env)
    assert not hooks.exists()
    assert b"hooks.state" not in settings.read_bytes()
    assert settings.read_bytes().startswith(before.rstrip())


@pytest.mark.long
def test_doctor_says_once_that_codex_does_not_trust_the_folder(drive: Driver, repo: Project) -> None:
    env = drive.environment("codex")
    env["PATH"] = os.pathsep.join([str(programs.program("codex").parent), env["PATH"]])
    drive.settle("codex")
    repo.tb("init", "--agent", "codex", env=env)
    bad = [one for one in repo.tb("doctor", check=False, env=env)["findings"] if not one["ok"]]
    assert len(bad) == 1 and "is not trusted" in bad[0]["detail"], bad


@pytest.mark.parametrize(
    "agent",
    [
        "claude",
        pytest.param("codex", marks=pytest.mark.long),
        pytest.param("gemini", marks=pytest.mark.long),
        pytest.param("opencode", marks=pytest.mark.long),
    ],
)
def test_a_step_does_not_run_when_its_hook_dies(agent: str, drive: Driver, scripted: Scripted, repo: Project) -> None:
    initialised(drive, repo, agent)
    put_in_place_of_the_hook(repo, agent, "case $2 in PreToolUse|BeforeTool|before) kill -9 $$;; esac; exit 0")
    drive(agent, repo, scripted.play("rm", [bash("rm README.md"), {"text": "end"}]))
    assert repo.exists("README.md")
    found = repo.tb("doctor", check=False, env=drive.environment(agent))["findings"]
    assert [one for one in found if one["name"] == f"{agent} hooks" and not one["ok"]]


@pytest.mark.long
@pytest.mark.parametrize("agent", AGENTS)
def test_a_step_that_ran_past_a_missing_hook_is_taken_back_from_the_last_state_known(
    agent: str, drive: Driver, scripted: Scripted, repo: Project
) -> None:
    initialised(drive, repo, agent)
    drive(agent, repo, scripted.play("good", [bash("echo x > kept.txt"), {"text": "end"}]))
    last = steps(repo)[-1]["after"]
    whole = put_in_place_of_the_hook(repo, agent, None)
    drive(agent, repo, scripted.play("bad", [bash("rm -r src"), {"text": "end"}]))
    assert not repo.exists("src")
    assert [
        one for one in repo.tb("doctor", check=False)["findings"] if one["name"] == f"{agent} hooks" and not one["ok"]
    ]
    for path, raw in whole.items():
        repo.write(path, raw)
    drive(agent, repo, scripted.play("next", [bash("echo y > next.txt"), {"text": "end"}]))
    repo.tb("restore", last, "src")
    assert repo.exists("src")
    assert repo.exists("kept.txt")
    assert repo.exists("next.txt")


def put_in_place_of_the_hook(repo: Project, agent: str, script: str | None) -> dict[str, bytes]:
    """Have an agent's settings name another program, or one that is not there; returns the files as they were."""
    hook = os.path.join(os.path.dirname(sys.executable), "takeback-hook")
    other = f"{repo.home.path}/takeback-hook"
    if script is not None:
        make_executable(other, f"#!/bin/sh\n{script}\n")
    files = (
        ".claude/settings.local.json",
        ".codex/hooks.json",
        ".gemini/settings.json",
        ".opencode/plugins/takeback.js",
    )
    whole = {path: repo.read(path) for path in files if repo.exists(path)}
    for path, raw in whole.items():
        repo.write(path, raw.replace(hook.encode(), other.encode()))
    return whole
