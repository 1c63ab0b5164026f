"""Steps through hooks: each can be taken back alone, sessions stay apart, and what no hook saw begin is seen after."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.hooks.support import Agent, bash, send
from tests.support.cli import Project


def steps(project: Project) -> list[dict[str, Any]]:
    """Return the steps, oldest first."""
    return [one for one in reversed(project.tb("log")["events"]) if one["kind"] == "step"]


def test_a_shell_step_and_a_written_file_are_steps_of_their_own(repo: Project) -> None:
    agent = Agent(repo)
    moment = repo.moment()
    assert agent.run("rm -r src && echo x > .env").code == 0
    assert agent.write("deep/new.txt", "new\n").code == 0
    shell, written = steps(repo)
    assert shell["text"] == "rm -r src && echo x > .env"
    assert written["text"] == f"Write {repo.root}/deep/new.txt"
    assert {shell["session"], written["session"]} == {"claude-sion-one"}
    repo.tb("undo", written["id"])
    assert not repo.exists("deep")
    repo.tb("undo")
    assert moment.changes() == []


def test_a_step_that_only_reads_is_let_through(repo: Project) -> None:
    answered = Agent(repo).run("cat README.md")
    assert (answered.code, answered.out, answered.err) == (0, "", "")
    (step,) = steps(repo)
    assert step["before"] == step["after"]


def test_a_push_waits_for_a_person_and_the_model_is_told(repo: Project) -> None:
    answered = Agent(repo).run("git push origin main")
    assert (answered.code, answered.out) == (2, "")
    assert "waits for a person" in answered.err


def test_nothing_is_ever_answered_that_lifts_the_hosts_own_questions(repo: Project) -> None:
    agent = Agent(repo)
    said = [agent.run(command).out for command in ("ls", "rm README.md", "git push", "rm -rf /etc/passwd")]
    assert not [one for one in said if "allow" in one or "approve" in one]


def test_a_before_without_an_after_is_closed_at_the_end_of_the_turn(repo: Project) -> None:
    agent = Agent(repo)
    agent.before("rm README.md", "T1")
    repo.sh("rm README.md")
    agent.send("Stop")
    (step,) = steps(repo)
    assert step["data"]["status"] == "live"
    repo.tb("undo")
    assert repo.exists("README.md")


@pytest.mark.long
def test_a_before_without_an_after_is_closed_at_the_next_step(repo: Project) -> None:
    agent = Agent(repo)
    agent.before("rm README.md", "X1")
    repo.sh("rm README.md")
    agent.run("echo x > other.txt")
    first, second = steps(repo)
    repo.tb("undo", first["id"])
    assert repo.exists("README.md")
    assert repo.exists("other.txt")
    assert second["data"]["status"] == "live"


def test_calls_at_the_same_time_own_what_they_named(repo: Project) -> None:
    agent = Agent(repo)
    agent.before("echo 1 > one.txt", "A")
    agent.before("echo 2 > two.txt", "B")
    repo.sh("echo 2 > two.txt")
    agent.after("echo 2 > two.txt", "B")
    repo.sh("echo 1 > one.txt")
    agent.after("echo 1 > one.txt", "A")
    first, second = steps(repo)
    repo.tb("undo", first["id"])
    assert (repo.exists("one.txt"), repo.exists("two.txt")) == (False, True)
    repo.tb("undo", second["id"])
    assert not repo.exists("two.txt")


def test_two_sessions_in_one_tree_stay_apart(repo: Project) -> None:
    one, two = Agent(repo, session="session-aaaa"), Agent(repo, "codex", session="session-bbbb")
    one.before("echo 1 > one.txt; sleep 9", "A")
    two.run("echo 2 > two.txt")
    repo.tb("run", "--", "echo 3 > three.txt")
    repo.sh("echo 1 > one.txt")
    one.after("echo 1 > one.txt; sleep 9", "A")
    repo.tb("undo", "--session", "claude-ion-aaaa")
    assert [repo.exists(name) for name in ("one.txt", "two.txt", "three.txt")] == [False, True, True]
    repo.tb("undo", "--session", "codex-ion-bbbb")
    assert [repo.exists(name) for name in ("two.txt", "three.txt")] == [False, True]


def test_a_step_whose_first_hook_did_not_run_is_recorded_and_can_be_undone(repo: Project) -> None:
    agent = Agent(repo)
    agent.run("echo x > known.txt")
    repo.sh("rm -r src")
    told = agent.after("rm -r src", "T9").context
    step = steps(repo)[-1]
    assert step["id"] in told
    assert step["data"]["missed"] is True
    repo.tb("undo")
    assert repo.exists("src")
    assert repo.exists("known.txt")


def test_the_agent_is_told_what_an_undo_changed_under_it(repo: Project) -> None:
    agent = Agent(repo)
    agent.send("UserPromptSubmit", prompt="go")
    agent.run("echo changed > README.md")
    repo.tb("undo")
    told = agent.send("UserPromptSubmit", prompt="go on").context
    assert "README.md" in told
    assert "took back s1" in told
    assert agent.send("UserPromptSubmit", prompt="and on").out == ""


def test_a_prompt_is_a_mark_to_go_back_to(repo: Project) -> None:
    agent = Agent(repo)
    moment = repo.moment()
    agent.send("UserPromptSubmit", prompt="wreck it")
    agent.run("rm README.md")
    agent.run("rm -r src")
    repo.tb("undo", "--prompt")
    # Two steps at once: each knows another time of the folder that both changed.
    assert moment.changes() == []


def test_takebacks_own_undo_is_no_step(repo: Project) -> None:
    agent = Agent(repo)
    agent.run("rm README.md")
    assert agent.before("takeback undo", "U").code == 0
    repo.tb("undo")
    agent.after("takeback undo", "U")
    assert len(steps(repo)) == 1
    repo.tb("redo")
    assert not repo.exists("README.md")


def test_a_session_says_in_one_line_that_undo_is_on(repo: Project) -> None:
    told = Agent(repo).send("SessionStart", source="startup")
    said = json.loads(told.out)["systemMessage"]
    assert "undo is on" in said
    assert "\n" not in said
    assert repo.tb("status")["last_checkpoint"] == "c1"


@pytest.mark.long
def test_a_command_left_in_the_background_is_still_the_steps_doing(repo: Project) -> None:
    agent = Agent(repo)
    given = {"command": "make server", "run_in_background": True}
    call = {"tool_name": "Bash", "tool_input": given, "tool_use_id": "B"}
    agent.send("PreToolUse", **call)
    agent.send("PostToolUse", **call, tool_response={"backgroundTaskId": "b1"})
    agent.send("Stop")
    repo.write("later.txt", "made later\n")
    agent.send("PreToolUse", **bash("echo x > y.txt", "C"))
    first, _ = steps(repo)
    repo.tb("undo", first["id"])
    assert not repo.exists("later.txt")


def test_a_pause_by_a_person_lets_everything_run(repo: Project) -> None:
    repo.tb("pause")
    agent = Agent(repo)
    assert agent.run("rm README.md").code == 0
    assert steps(repo) == []
    assert "paused" in json.loads(agent.send("SessionStart").out)["systemMessage"]


@pytest.mark.long
@pytest.mark.parametrize(
    ("host", "before", "after", "call"),
    [
        (
            "codex",
            "PreToolUse",
            "PostToolUse",
            {
                "turn_id": "U",
                "model": "gpt-5.5",
                "permission_mode": "bypassPermissions",
                "tool_name": "apply_patch",
                "tool_input": {"command": "*** Begin Patch\n*** Add File: w.txt\n+one\n*** End Patch\n"},
                "tool_use_id": "T",
            },
        ),
        (
            "gemini",
            "BeforeTool",
            "AfterTool",
            {
                "timestamp": "2026-11-30T16:16:27.539Z",
                "tool_name": "write_file",
                "tool_input": {"file_path": "w.txt", "content": "one\n"},
            },
        ),
        (
            "opencode",
            "before",
            "after",
            {"tool_name": "write", "tool_input": {"filePath": "w.txt", "content": "one\n"}, "tool_use_id": "T"},
        ),
    ],
)
def test_every_hosts_own_words_for_writing_a_file_are_understood(
    repo: Project, host: str, before: str, after: str, call: dict[str, Any]
) -> None:
    assert send(repo, host, before, call).code == 0
    repo.write("w.txt", "one\n")
    send(repo, host, after, {**call, "tool_response": {"llmContent": "written"}})
    (step,) = steps(repo)
    repo.tb("undo", step["id"])
    assert not repo.exists("w.txt")


@pytest.mark.long
@pytest.mark.parametrize(
    ("host", "before", "after", "call", "ended", "exit"),
    [
        ("claude", "PreToolUse", "PostToolUse", bash("make"), {"tool_response": {"stdout": ""}}, 0),
        ("claude", "PreToolUse", "PostToolUseFailure", bash("make"), {"error": "Exit code 3\nout\nerr"}, 3),
        ("codex", "PreToolUse", "PostToolUse", bash("make"), {"tool_response": "out\nerr\n"}, None),
        (
            "gemini",
            "BeforeTool",
            "AfterTool",
            {"tool_name": "run_shell_command", "tool_input": {"command": "make", "description": "build"}},
            {
                "tool_response": {
                    "llmContent": "<untrusted_context>\nOutput: out\nerr\nExit Code: 3\n",
                    "returnDisplay": "out",
                }
            },
            3,
        ),
        ("opencode", "before", "after", {"tool_name": "bash", "tool_input": {"command": "make"}}, {"exit": 3}, 3),
    ],
)
def test_the_exit_code_of_a_step_is_what_its_host_says(
    repo: Project, host: str, before: str, after: str, call: dict[str, Any], ended: dict[str, Any], exit: int | None
) -> None:
    send(repo, host, before, call)
    send(repo, host, after, {**call, **ended})
    (step,) = steps(repo)
    assert step["data"].get("exit") == exit


def test_what_a_step_that_only_reads_changed_all_the_same_is_found_out_by_the_next(repo: Project) -> None:
    agent = Agent(repo)
    agent.run("ls")
    agent.before("cat README.md", "L")
    repo.sh("rm README.md")
    agent.after("cat README.md", "L")
    agent.run("echo x > next.txt")
    repo.tb("undo")
    repo.tb("undo")
    assert repo.exists("README.md")
    assert not repo.exists("next.txt")


def test_a_failed_step_goes_back_when_the_policy_says_so_and_the_model_is_told(repo: Project) -> None:
    settings = repo.home.settings
    settings.parent.mkdir(parents=True, exist_ok=True)
    settings.write_text("[policy]\nrollback_failed = true\n", "utf-8")
    agent = Agent(repo)
    command = "rm -r src && false"
    agent.before(command, "F")
    repo.sh(command, check=False)
    told = agent.send("PostToolUseFailure", **bash(command, "F"), error="Exit code 1").context
    assert "nothing of it is left" in told
    assert repo.exists("src")
    repo.tb("redo")
    assert not repo.exists("src")


def test_a_policy_may_deny_a_step_or_let_steps_run_when_takeback_fails(repo: Project) -> None:
    settings = repo.home.settings
    settings.parent.mkdir(parents=True, exist_ok=True)
    settings.write_text('[policy]\nfiles = "deny"\non_error = "allow"\n', "utf-8")
    answered = Agent(repo).run("rm README.md")
    assert answered.code == 2
    assert "does not allow" in answered.err
    repo.home.data.rename(repo.home.data.with_name("aside"))
    repo.home.data.write_text("a file where the folder should be")
    assert Agent(repo).before("npm install", "N").code == 0


def test_what_waits_is_kept_once_for_a_person_whatever_often_it_is_tried(repo: Project) -> None:
    agent = Agent(repo)
    first = agent.run("git push origin main")
    (hold,) = repo.tb("holds")["holds"]
    assert hold["command"] == "git push origin main"
    assert hold["id"] in first.err
    assert agent.run("git push origin main").err == first.err
    assert len(repo.tb("holds")["holds"]) == 1
