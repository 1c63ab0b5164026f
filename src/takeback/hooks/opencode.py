"""OpenCode: what takeback's plugin in it sends, and reads from stdout as plain text."""

from __future__ import annotations

from takeback.hooks.host import AFTER, BEFORE, PROMPT, SESSION, STOP, Data, Host


class OpenCode(Host):
    name = "opencode"
    events = {"before": BEFORE, "after": AFTER, "session": SESSION, "prompt": PROMPT, "stop": STOP}  # noqa: RUF012

    def ended(self, event: str, data: Data) -> tuple[int | None, bool]:
        code = data.get("exit")
        return (code, code != 0) if isinstance(code, int) else (None, False)

    def say(self, event: str, text: str) -> str:
        return text

    def greet(self, event: str, text: str) -> str:
        return text


HOST = OpenCode()
