"""How agents are known: the names of their programs, and the marks they leave in the environment of their steps.

Does not cover: looking for them (`app.person`), or commands that take the marks away (`guard.brake`).
"""

from __future__ import annotations

MARK = "TAKEBACK_STEP"  # set for every guarded step

NAMES = frozenset(
    "claude claude-code codex gemini gemini-cli opencode opencode-ai aider aider-chat cursor-agent goose crush amp "
    "qwen qwen-code copilot copilot-cli cline openhands auggie droid kiro-cli plandex forge kilocode roo-code "
    "swe-agent sweagent mini-swe-agent continue-cli gptme open-interpreter codebuff kimi kimi-cli".split()
)
MARKS = frozenset(
    (MARK, "CLAUDECODE", "CLAUDE_CODE_ENTRYPOINT", "CODEX_SANDBOX", "CODEX_THREAD_ID", "GEMINI_CLI", "OPENCODE",
     "CURSOR_AGENT", "GOOSE_TERMINAL", "QWEN_CODE")
)  # fmt: skip
