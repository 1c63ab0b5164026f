"""What is one program's own: limits of money and turns, what it may touch, settings that are the user's."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
import uuid
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from takeback.errors import AgentMissing
from takeback.host.headless import Ended, Runner
from takeback.tasks.agents import Outcome, Report, Request, aider, claude, codex, gemini, named, opencode
from takeback.tasks.agents.base import environment
from tests.agents.support import bash, write
from tests.support.cli import Home, make_executable
from tests.tasks.agent_desk import Desk, make, refusal

long = pytest.mark.long


@pytest.fixture
def desk(tmp_path: Path, home: Home) -> Iterator[Desk]:
    with Desk.opened(tmp_path, home) as made:
        yield made


def ended(out: str = "", err: str = "", code: int = 1) -> Ended:
    return Ended(code, False, out.encode(), err.encode(), time.time_ns())


def test_claude_stops_at_the_budget(desk: Desk) -> None:
    report = desk.ask("claude", [make("a", "a"), make("b", "b"), {"text": "end"}], budget=0.0001)
    assert (report.outcome, report.exit) == (Outcome.BUDGET, 1)
    assert report.cost_usd is not None and report.cost_usd >= 0.0001
    assert not (desk.worktree / "b").exists()


@long
def test_claude_stops_at_the_users_limit_of_turns(desk: Desk) -> None:
    report = desk.ask("claude", [make("a", "a"), make("b", "b"), {"text": "end"}], argv=["--max-turns", "1"])
    assert (report.outcome, report.detail) == (Outcome.BUDGET, "the limit of turns was reached")


@long
def test_claude_tells_to_the_second_when_a_subscription_may_go_on(desk: Desk) -> None:
    until = int(time.time()) + 7321
    limit = refusal(429, "rate_limit_error", "slow down")
    limit["headers"] = {
        "anthropic-ratelimit-unified-status": "rejected",
        "anthropic-ratelimit-unified-reset": str(until),
        "anthropic-ratelimit-unified-representative-claim": "five_hour",
    }
    login = {"ANTHROPIC_API_KEY": "", "CLAUDE_CODE_OAUTH_TOKEN": "sk-ant-oat01-test"}
    report = desk.ask("claude", [limit], env=login)
    assert (report.outcome, report.resets_at_ns) == (Outcome.USAGE_LIMIT, until * 10**9)
    assert "limit · resets" in report.detail


@long
def test_claude_without_a_login_says_so(desk: Desk) -> None:
    report = desk.ask("claude", [{"text": "end"}], env={"ANTHROPIC_API_KEY": ""})
    assert (report.outcome, report.detail) == (Outcome.LOGIN_EXPIRED, "Not logged in · Please run /login")


@long
def test_claude_gives_a_refused_login_up_soon_and_the_users_number_of_retries_stands(desk: Desk) -> None:
    entry = refusal(401, "authentication_error", "invalid x-api-key")
    del entry["headers"]
    desk.driver.scripted.play("first", [entry])
    request = desk.request("claude", "do it [[script:first]]")
    bare = replace(request, env={k: v for k, v in request.env.items() if k != "CLAUDE_CODE_MAX_RETRIES"})
    assert named("claude").run(bare, Runner()).outcome is Outcome.LOGIN_EXPIRED
    assert len(desk.scripted.requests("first")) == 4
    desk.driver.scripted.play("second", [entry])
    own = replace(
        request,
        prompt="do it [[script:second]]",
        env={**bare.env, "CLAUDE_CODE_MAX_RETRIES": "0"},
        session=str(uuid.uuid4()),
    )
    assert named("claude").run(own, Runner()).outcome is Outcome.LOGIN_EXPIRED
    assert len(desk.scripted.requests("second")) == 1


@long
def test_claude_keeps_its_conversation_under_the_attempts_name(desk: Desk) -> None:
    desk.ask("claude", [{"text": "end"}])
    kept = list((desk.driver.home.path / ".claude" / "projects").rglob("*.jsonl"))
    assert [path.stem for path in kept] == [desk.asked[0].session]


def test_a_claude_that_does_not_even_begin_is_told_with_its_words(desk: Desk) -> None:
    report = desk.ask("claude", [], argv=["--no-such-option"])
    assert report.outcome is Outcome.CRASH
    assert report.detail == "it ended with exit code 1: error: unknown option '--no-such-option'"


def test_claudes_refusals_that_no_script_can_play() -> None:
    request = asked()
    refused = {"type": "result", "subtype": "success", "is_error": False, "stop_reason": "refusal", "result": "No."}
    assert claude._report(request, ended(json.dumps(refused), code=0)).outcome is Outcome.REFUSED
    root = "--dangerously-skip-permissions cannot be used with root/sudo privileges for security reasons"
    assert claude._report(request, ended(err=root)).outcome is Outcome.REFUSED


@long
def test_codex_writes_in_its_worktree_alone_unless_the_user_says_so(desk: Desk, home: Home) -> None:
    outside = home.path / "outside"  # the temporary folders are open to it, so the test's own must be somewhere else
    entries = [bash(f"echo in > inside; echo out > {outside}"), {"text": "end"}]
    env = {"TMPDIR": str(desk.worktree)}
    closed = ["-c", "sandbox_workspace_write.exclude_slash_tmp=true"]
    assert desk.ask("codex", entries, env=env, argv=closed).outcome is Outcome.DONE
    assert (desk.worktree / "inside").exists() and not outside.exists()
    assert desk.ask("codex", entries, env=env, argv=["--sandbox=danger-full-access"]).outcome is Outcome.DONE
    assert outside.exists()


@long
def test_opencode_stays_in_its_worktree_and_goes_on(desk: Desk, home: Home) -> None:
    outside = home.path / "outside"
    report = desk.ask("opencode", [write(str(outside), "x\n"), make("inside", "x"), {"text": "end"}])
    assert (report.outcome, report.words) == (Outcome.DONE, "end")
    assert (desk.worktree / "inside").exists() and not outside.exists()


@long
def test_opencode_tells_what_it_cost(desk: Desk) -> None:
    desk.driver.settle("opencode")
    settings = desk.driver.home.path / ".config" / "opencode" / "opencode.json"
    read = json.loads(settings.read_text())
    read["provider"]["scripted"]["models"]["scripted"]["cost"] = {"input": 3, "output": 15}
    settings.write_text(json.dumps(read))
    report = desk.ask("opencode", [make("a", "a"), {"text": "end"}])
    assert report.cost_usd == pytest.approx(2 * (10 * 3 + 5 * 15) / 1e6)


def test_opencode_that_waits_for_leave_was_refused() -> None:
    step = {"type": "step_finish", "part": {"reason": "tool-calls", "cost": 0.5}}
    told = ended(json.dumps(step), "\x1b[93m!\x1b[0m permission requested: bash; auto-rejecting", 0)
    report = opencode._report(asked(), told)
    assert (report.outcome, report.detail) == (Outcome.REFUSED, "! permission requested: bash; auto-rejecting")
    assert report.cost_usd == 0.5


@long
def test_gemini_stops_at_the_users_limit_of_turns(desk: Desk) -> None:
    desk.driver.settle("gemini")
    settings = desk.driver.home.path / ".gemini" / "settings.json"
    settings.write_text(json.dumps(json.loads(settings.read_text()) | {"model": {"maxSessionTurns": 1}}))
    report = desk.ask("gemini", [make("a", "a"), make("b", "b"), {"text": "end"}])
    assert report.outcome is Outcome.BUDGET
    assert "max session turns" in report.detail


@long
def test_gemini_without_a_key_says_so(desk: Desk) -> None:
    report = desk.ask("gemini", [{"text": "end"}], env={"GEMINI_API_KEY": ""})
    assert report.outcome is Outcome.LOGIN_EXPIRED
    assert "GEMINI_API_KEY" in report.detail


def test_gemini_is_told_to_give_up_sooner_below_the_users_own_settings(tmp_path: Path) -> None:
    request = replace(asked(), output=str(tmp_path / "said"))
    with gemini._few_retries(request) as defaults:
        (path,) = defaults.values()
        assert json.loads(Path(path).read_text()) == {"general": {"maxAttempts": 3}}
    assert list(tmp_path.iterdir()) == []
    with gemini._few_retries(replace(request, env={"GEMINI_CLI_SYSTEM_DEFAULTS_PATH": "/mine"})) as defaults:
        assert defaults == {}


@long
def test_aider_leaves_commits_and_ignore_files_alone_and_keeps_an_index_that_was_there(desk: Desk) -> None:
    (desk.worktree / ".aider.tags.cache.v0").mkdir()
    (desk.worktree / ".aider.tags.cache.v0" / "f").write_text("x")
    before = (desk.worktree / ".git").read_text()
    report = desk.ask("aider", [{"text": "made.txt\n```\nhi\n```\n"}])
    assert report.outcome is Outcome.DONE, report
    assert desk.changed() == {"made.txt", ".aider.tags.cache.v0/f"}
    assert (desk.worktree / ".git").read_text() == before


@long
def test_aider_without_a_model_says_so(desk: Desk) -> None:
    request = desk.request("aider", timeout=15.0)
    env = {name: value for name, value in request.env.items() if "ANTHROPIC" not in name}
    report = named("aider").run(replace(request, argv=(), env=env), Runner(grace=2.0))
    assert report.outcome is Outcome.LOGIN_EXPIRED, report
    assert report.detail == "No LLM model was specified and no API keys were provided."


def test_aiders_error_counts_only_behind_its_last_reply() -> None:
    reply = "Tokens: 10 sent, 5 received. Cost: $0.01 message, $1,234.50 session.\n"
    limit = "litellm.RateLimitError: slow down, try again in 5m\n"
    report = aider._report(
        asked(), ended(f"{limit}Retrying in 0.2 seconds...\nhello\n\n{reply}Applied edit to f\n", "", 0)
    )
    assert (report.outcome, report.cost_usd) == (Outcome.DONE, 1234.5)
    report = aider._report(asked(), ended(f"hello\n{reply}{limit}", "", 0))
    assert report.outcome is Outcome.USAGE_LIMIT
    assert report.resets_at_ns is not None
    poor = "litellm.BadRequestError: AnthropicException - Your credit balance is too low\n"
    assert aider._report(asked(), ended(poor, "", 0)).outcome is Outcome.USAGE_LIMIT
    assert aider._report(asked(), ended("litellm.APIConnectionError: no route\n", "", 0)).outcome is Outcome.CRASH
    assert aider._report(asked(), ended("", "", 0)).outcome is Outcome.CRASH


@pytest.mark.parametrize("read", [claude._report, codex._report, gemini._report, opencode._report])
@pytest.mark.parametrize(
    "out",
    [
        "", "{", "[1]", '{"type": "result", "error": 3, "result": null}', '{"type": "error", "error": "x"}',
        '{"type": "step_finish", "part": []}', '{"type": "turn.failed", "error": null}', '{"type": "assistant"}',
        '{"type": "item.completed", "item": "x"}', '{"type": "rate_limit_event"}', '{"type": []}', "\x00\xff",
    ],
)  # fmt: skip
def test_output_of_another_version_is_a_crash_of_the_agent_and_not_ours(read: object, out: str) -> None:
    report = read(asked(), ended(out, code=3))
    assert isinstance(report, Report)
    assert report.exit == 3


def test_what_the_work_is_about_is_no_sign_of_how_it_ended() -> None:
    told = {"type": "user", "message": {"content": [{"type": "tool_result", "content": "usage limit reached"}]}}
    for read in (claude._report, codex._report, gemini._report, opencode._report):
        assert read(asked(), ended(json.dumps(told), "Killed", 137)).outcome is Outcome.CRASH


def test_a_process_that_could_not_be_ended_is_told(desk: Desk) -> None:
    blocked = "import os, signal; signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM]); "
    script = f"import os; os.mkfifo('pipe'); fd = os.open('pipe', os.O_RDWR); os.dup2(fd, 0); {blocked}"
    deaf = f"{script} open('git.pid', 'w').write(str(os.getpid())); os.execvp('git', ['git', 'cat-file', '--batch'])"
    words = (sys.executable, "-c", deaf)
    request = replace(desk.request("command"), argv=words, timeout=1.0)
    report = named("command").run(request, Runner(grace=0.2, git_grace=0.3))
    git = int((desk.worktree / "git.pid").read_text())
    os.kill(git, signal.SIGKILL)
    os.waitpid(git, 0)  # it was the agent itself, and so our child
    assert report.outcome is Outcome.TIMEOUT
    assert report.detail.endswith("; still running: git cat-file --batch")


def test_an_empty_budget_starts_nothing(tmp_path: Path) -> None:
    request = replace(asked(), budget_usd=0.0, output=str(tmp_path / "said"))
    assert named("claude").run(request, Runner()).outcome is Outcome.BUDGET
    assert list(tmp_path.iterdir()) == []


def test_a_result_counts_when_only_the_programs_end_did_not_come() -> None:
    done = json.dumps({"type": "result", "subtype": "success", "is_error": False, "result": "All done."})
    report = claude._report(asked(), replace(ended(done), timed_out=True, exit=143))
    assert (report.outcome, report.exit, report.words) == (Outcome.DONE, None, "All done.")


def test_a_program_that_cannot_be_executed_is_told_before_any_work(tmp_path: Path, home: Home) -> None:
    make_executable(tmp_path / "claude", "#!/no/such/interpreter\n")
    request = replace(
        asked(), env={"PATH": str(tmp_path)}, cwd=str(tmp_path), output=str(tmp_path / "said"), session="x-1"
    )
    with pytest.raises(AgentMissing, match="claude: No such file or directory"):
        named("claude").run(request, Runner())


def test_the_users_environment_stands_and_git_is_led_to_the_worktree() -> None:
    request = replace(
        asked(), env={"GIT_INDEX_FILE": "i", "GIT_TERMINAL_PROMPT": "1", "A": "own", "B": "b", "PWD": "/"}
    )
    assert environment(request, ["B"], A="default", C="default") == {
        "A": "own", "C": "default", "GIT_TERMINAL_PROMPT": "1", "PWD": request.cwd, "TASK_ID": "t-1", "ATTEMPT": "1",
    }  # fmt: skip


def asked() -> Request:
    return Request(
        prompt="do it", cwd="/work", task="t-1", attempt=1, argv=(), timeout=5.0, budget_usd=None, env={},
        output="/nowhere", session="test",
    )  # fmt: skip
