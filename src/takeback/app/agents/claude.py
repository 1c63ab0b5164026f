"""Claude Code's settings. Does not cover: plugins."""

from __future__ import annotations

from pathlib import Path

from takeback.app.agents import jsontext
from takeback.app.agents.places import Agent, Piece, Where, groups, not_of
from takeback.model import Finding

_READS = (
    "Read Glob Grep LS NotebookRead TodoWrite TodoRead WebSearch BashOutput TaskOutput Task Agent ExitPlanMode"
    " EnterPlanMode AskUserQuestion Skill ToolSearch TaskList TaskGet LSP"
)
_UNDO = """---
description: Take back what the last step changed (takeback)
allowed-tools: Bash(takeback undo:*), Bash(takeback log:*)
---
This was run for the person, by takeback:

!`takeback undo $ARGUMENTS`

Say in one sentence what was taken back. Read files that changed before you edit them again. Change nothing now.
"""


class Claude(Agent):
    name = "claude"
    title = "Claude Code"

    def _folder(self, where: Where) -> Path:
        if where.root is not None:
            return where.root / ".claude"
        return where.folder("CLAUDE_CONFIG_DIR", ".claude")

    def pieces(self, where: Where) -> list[Piece]:
        folder = self._folder(where)
        # In a project the file of one person, which stays out of commits: it holds a path of this machine.
        name = "settings.json" if where.root is None else "settings.local.json"
        tools = dict.fromkeys(("PreToolUse", "PostToolUse", "PostToolUseFailure"), not_of(_READS))
        others = ("PostToolUse", "PostToolUseFailure", "SessionStart", "UserPromptSubmit", "Stop")
        return [
            Piece(folder / name, groups(self, where, "PreToolUse", others, tools)),
            Piece(folder / "commands" / "undo.md", text=_UNDO),
        ]

    def used(self, where: Where) -> bool:
        return self.program(where) is not None or where.folder("CLAUDE_CONFIG_DIR", ".claude").is_dir()

    def switches(self, where: Where) -> list[Finding]:
        found = []
        files = [where.folder("CLAUDE_CONFIG_DIR", ".claude") / "settings.json"]
        if where.root is not None:
            files += [where.root / ".claude" / name for name in ("settings.json", "settings.local.json")]
        for file in files:
            try:
                settings = jsontext.parse(file.read_text("utf-8-sig")).value
            except (FileNotFoundError, NotADirectoryError):
                continue
            except (OSError, ValueError) as error:
                found.append(Finding("claude settings", False, f"{file}: {error}: it is ignored silently", "mend it"))
                continue
            if isinstance(settings, dict) and settings.get("disableAllHooks"):
                found.append(
                    Finding("claude hooks", False, f"{file} has disableAllHooks: no hook runs", "take that line out")
                )
        if where.environ.get("CLAUDE_CODE_SIMPLE"):
            found.append(Finding("claude hooks", False, "CLAUDE_CODE_SIMPLE is set: no hook runs", "unset it"))
        return found


AGENT = Claude()
