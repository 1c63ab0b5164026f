"""Codex CLI: Claude Code's words, one event less, and no exit codes. Its `ask` lets the step run: nobody is asked."""

from __future__ import annotations

from takeback.hooks.host import AFTER, BEFORE, PROMPT, SESSION, STOP, Host


class Codex(Host):
    name = "codex"
    events = {  # noqa: RUF012
        "PreToolUse": BEFORE,
        "PostToolUse": AFTER,
        "SessionStart": SESSION,
        "UserPromptSubmit": PROMPT,
        "Stop": STOP,
    }


HOST = Codex()
