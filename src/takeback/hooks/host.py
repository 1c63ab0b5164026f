"""What every host's adapter says: how its events are called, read, and answered.

Exit code 2 with the reason on stderr is the one "no" that all hosts keep to. Does not cover: any single host.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

BEFORE, AFTER, SESSION, PROMPT, STOP = "before", "after", "session", "prompt", "stop"
Data = Mapping[str, Any]

_EXIT = re.compile(r"\s*(?:Exit code|Exit Code:)\s+(\d+)", re.MULTILINE)


class Host:
    """A host whose hooks are commands that get one JSON object; Claude Code's words where it has no own."""

    name = ""
    events: Mapping[str, str] = {}
    can_ask = False  # whether "ask" is answered by a person, and waits for one

    def session(self, data: Data) -> str:
        return _text(data, "session_id")

    def call_id(self, data: Data) -> str:
        return _text(data, "tool_use_id")

    def goes_on(self, data: Data) -> bool:
        """Whether the call's command runs on in the background."""
        given = data.get("tool_input")
        return isinstance(given, Mapping) and given.get("run_in_background") is True

    def ended(self, event: str, data: Data) -> tuple[int | None, bool]:
        """Return the exit code of a call that is over, None when it is not told, and whether it failed."""
        return None, False

    def attended(self, data: Data) -> bool:
        """Whether a person is there to answer now."""
        return False

    def say(self, event: str, text: str) -> str:
        """Return what is written to stdout so that the model reads `text`."""
        return json.dumps({"hookSpecificOutput": {"hookEventName": event, "additionalContext": text}})

    def greet(self, event: str, text: str) -> str:
        """Return what is written to stdout at the start of a session: for the person and the model."""
        both = {"hookEventName": event, "additionalContext": text}
        return json.dumps({"systemMessage": text, "hookSpecificOutput": both})

    def ask(self, event: str, reason: str) -> str:
        """Return what makes the host ask its person."""
        raise NotImplementedError


def exit_in(text: object) -> int | None:
    """Return the exit code a host wrote into its text."""
    found = _EXIT.search(text) if isinstance(text, str) else None
    return int(found[1]) if found else None


def _text(data: Data, key: str) -> str:
    value = data.get(key)
    return value if isinstance(value, str) else ""
