"""Tool calls in the shapes that agents send."""

from __future__ import annotations

from typing import Any

import pytest

from takeback.guard import Context, classify_tool


def claude(name: str, **given: Any) -> dict[str, Any]:
    return {"hook_event_name": "PreToolUse", "tool_name": name, "tool_input": given, "cwd": "/work/project"}


PATCH = "*** Begin Patch\n*** Update File: src/a.py\n@@\n-x\n+y\n*** Delete File: {}\n*** End Patch\n"

CALLS = [
    (claude("Bash", command="git push"), "outside"),
    (claude("Bash", command="ls"), "none"),
    ({**claude("Bash", command="rm x"), "cwd": "/etc"}, "machine"),
    (claude("Bash"), "machine"),
    (claude("Read", file_path="/etc/passwd"), "none"),
    (claude("Grep", pattern="x"), "none"),
    (claude("Edit", file_path="/work/project/src/a.py", old_string="a", new_string="b"), "files"),
    (claude("Write", file_path="/etc/hosts", content="x"), "machine"),
    (claude("Write", file_path="/work/project/.env", content="x"), "state"),
    (claude("NotebookEdit", notebook_path="/work/project/a.ipynb", new_source="x"), "files"),
    (claude("MultiEdit", file_path="/work/project/.git/hooks/pre-commit", edits=[]), "state"),
    (claude("WebFetch", url="https://example.com/x", prompt="y"), "none"),
    (claude("WebSearch", query="x"), "none"),
    (claude("TodoWrite", todos=[]), "none"),
    (claude("KillShell", shell_id="1"), "machine"),
    (claude("Unheard", x=1), "machine"),
    (claude("Write"), "machine"),
    (claude("mcp__github__get_issue", issue=1), "none"),
    (claude("mcp__github__create_issue", title="x"), "outside"),
    (claude("mcp__linear__frobnicate"), "outside"),
    (claude("mcp__filesystem__write_file", path="src/a.py", content="x"), "files"),
    (claude("mcp__filesystem__write_file", path="/etc/x", content="x"), "machine"),
    (claude("mcp__git__git_commit", repo_path="/work/project"), "files"),
    (claude("mcp__playwright__browser_click", ref="x"), "outside"),
    # takeback's own, in the names of each host
    (claude("mcp__takeback__log", limit=5), "none"),
    (claude("mcp__takeback__holds"), "none"),
    (claude("mcp__plugin_takeback_takeback__undo", step="s7"), "state"),
    (claude("mcp__takeback__undo", dry_run=True), "none"),
    (claude("mcp__takeback__run", command="git push"), "outside"),
    (claude("mcp__takeback__run", command="ls"), "none"),
    (claude("mcp_takeback_checkpoint"), "state"),
    ({"tool": "takeback_restore", "args": {"id": "c1"}}, "state"),
    ({"tool": "takeback_restore", "args": {"id": "c1", "to": "/srv/x"}}, "machine"),
    (claude("mcp__takeback__approve", id="h1"), "outside"),
    (claude("mcp__mytakeback__undo"), "outside"),
    # Codex
    (claude("apply_patch", command=PATCH.format("src/b.py")), "files"),
    (claude("apply_patch", command=PATCH.format("../b.py")), "machine"),
    (claude("apply_patch", command="nothing"), "machine"),
    (
        {
            "type": "function_call",
            "name": "exec_command",
            "arguments": '{"cmd": "git push", "workdir": "/work/project"}',
        },
        "outside",
    ),
    ({"name": "shell", "arguments": {"command": ["bash", "-lc", "git push"]}}, "outside"),
    ({"name": "shell", "arguments": {"command": ["ls", "; git push"]}}, "none"),
    ({"name": "exec", "input": {"input": 'await tools.exec_command({cmd: "git push"})'}}, "outside"),
    ({"name": "exec", "input": {"input": 'await tools.exec_command({cmd: "ls"})'}}, "machine"),
    ({"name": "exec", "input": {"input": "await tools.send_mail({to: 'x'})"}}, "outside"),
    ({"name": "write_stdin", "arguments": {"session_id": 1, "chars": "git push\n"}}, "machine"),
    # Gemini CLI
    ({"tool_name": "run_shell_command", "tool_input": {"command": "rm x", "directory": "/etc"}}, "machine"),
    ({"tool_name": "write_file", "tool_input": {"file_path": "w.txt", "content": "x"}}, "files"),
    ({"tool_name": "replace", "tool_input": {"file_path": "w.txt", "old_string": "x"}}, "files"),
    ({"tool_name": "read_many_files", "tool_input": {"paths": ["x"]}}, "none"),
    ({"tool_name": "web_fetch", "tool_input": {"prompt": "read https://example.com"}}, "none"),
    # OpenCode
    ({"tool": "bash", "sessionID": "S", "args": {"command": "git push"}}, "outside"),
    ({"tool": "write", "args": {"filePath": "w.txt", "content": "x"}}, "files"),
    # what is no tool call
    ({}, "machine"),
    ({"tool_name": 3, "tool_input": []}, "machine"),
    ({"tool_name": "Bash", "tool_input": {"command": 3}}, "machine"),
    ({"tool_name": "Bash", "tool_input": "{broken"}, "machine"),
]


@pytest.mark.parametrize(("call", "expected"), CALLS, ids=[str(call)[:70] for call, _ in CALLS])
def test_a_tool_call_has_the_class_of_what_it_does(call: dict[str, Any], expected: str) -> None:
    assert str(classify_tool(call, Context()).cls) == expected


def test_an_edit_of_hook_settings_reaches_the_brake() -> None:
    assert classify_tool(claude("Edit", file_path="/home/user/.claude/settings.json")).brake
    assert classify_tool(claude("apply_patch", command=PATCH.format(".takeback.toml"))).brake
