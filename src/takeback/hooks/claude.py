"""Claude Code. Does not cover: `PermissionRequest`, which no headless run has."""

from __future__ import annotations

import json
import os

from takeback.hooks.host import AFTER, BEFORE, PROMPT, SESSION, STOP, Data, Host, exit_in


class Claude(Host):
    name = "claude"
    events = {  # noqa: RUF012
        "PreToolUse": BEFORE,
        "PostToolUse": AFTER,
        "PostToolUseFailure": AFTER,
        "SessionStart": SESSION,
        "UserPromptSubmit": PROMPT,
        "Stop": STOP,
    }
    can_ask = True

    def goes_on(self, data: Data) -> bool:
        told = data.get("tool_response")
        return super().goes_on(data) or (isinstance(told, dict) and bool(told.get("backgroundTaskId")))

    def ended(self, event: str, data: Data) -> tuple[int | None, bool]:
        if event == "PostToolUseFailure":
            return exit_in(data.get("error")), True
        return (0, False) if data.get("tool_name") == "Bash" else (None, False)

    def attended(self, data: Data) -> bool:
        """In `-p` an ask is a refusal; so it is without a terminal, or where the mode never asks."""
        if os.environ.get("CLAUDE_CODE_ENTRYPOINT", "cli") != "cli" or data.get("permission_mode") == "dontAsk":
            return False
        from takeback.host import ancestors

        for one in ancestors.ancestors():
            names = [os.path.basename(word) for word in one.argv[:2]]
            if any(name.startswith("claude") for name in names) or "claude-code" in " ".join(one.argv[:2]):
                return ancestors.has_terminal(one.pid) and not {"-p", "--print"} & set(one.argv)
        return False

    def ask(self, event: str, reason: str) -> str:
        said = {"hookEventName": event, "permissionDecision": "ask", "permissionDecisionReason": reason}
        return json.dumps({"hookSpecificOutput": said})


HOST = Claude()
