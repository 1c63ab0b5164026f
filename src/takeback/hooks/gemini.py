"""Gemini CLI: own names for events, no ids for calls. Its `ask` hangs a headless run, so nobody is asked."""

from __future__ import annotations

from takeback.hooks.host import AFTER, BEFORE, PROMPT, SESSION, STOP, Data, Host, exit_in


class Gemini(Host):
    name = "gemini"
    events = {  # noqa: RUF012
        "BeforeTool": BEFORE,
        "AfterTool": AFTER,
        "SessionStart": SESSION,
        "BeforeAgent": PROMPT,
        "AfterAgent": STOP,
    }

    def ended(self, event: str, data: Data) -> tuple[int | None, bool]:
        told = data.get("tool_response")
        code = exit_in(told.get("llmContent")) if isinstance(told, dict) else None
        failed = bool(code) or (isinstance(told, dict) and bool(told.get("error")))
        return (0 if code is None and data.get("tool_name") == "run_shell_command" and not failed else code), failed


HOST = Gemini()
