"""Gemini CLI's settings; its timeouts are in milliseconds. Does not cover: extensions."""

from __future__ import annotations

import json
from pathlib import Path

from takeback.app.agents import jsontext
from takeback.app.agents.places import SECONDS, Agent, Piece, Where, groups, not_of
from takeback.model import Finding

_READS = (
    "read_file read_many_files list_directory glob search_file_content grep_search google_web_search write_todos"
    " get_internal_docs ask_user enter_plan_mode exit_plan_mode activate_skill codebase_investigator cli_help"
)
_UNDO = '''description = "Take back what the last step changed (takeback)"
prompt = """
This was run for the person, by takeback:

!{takeback undo {{args}}}

Say in one sentence what was taken back. Read files that changed before you edit them again. Change nothing now.
"""
'''


class Gemini(Agent):
    name = "gemini"
    title = "Gemini CLI"
    timeout = SECONDS * 1000
    softly = True

    def _folder(self, where: Where) -> Path:
        return (where.home if where.root is None else where.root) / ".gemini"

    def pieces(self, where: Where) -> list[Piece]:
        tools = dict.fromkeys(("BeforeTool", "AfterTool"), not_of(_READS))
        others = ("AfterTool", "SessionStart", "BeforeAgent", "AfterAgent")
        return [
            Piece(self._folder(where) / "settings.json", groups(self, where, "BeforeTool", others, tools)),
            Piece(self._folder(where) / "commands" / "undo.toml", text=_UNDO),
        ]

    def used(self, where: Where) -> bool:
        return self.program(where) is not None or (where.home / ".gemini").is_dir()

    def switches(self, where: Where) -> list[Finding]:
        found = []
        files = [where.home / ".gemini" / "settings.json"]
        files += [where.root / ".gemini" / "settings.json"] if where.root is not None else []
        for file in files:
            try:
                settings = jsontext.parse(file.read_text("utf-8-sig")).value
            except (FileNotFoundError, NotADirectoryError):
                continue
            except (OSError, ValueError) as error:
                found.append(Finding("gemini settings", False, f"{file}: {error}", "mend it"))
                continue
            for section, key in (("hooksConfig", "enabled"), ("tools", "enableHooks")):
                inner = settings.get(section) if isinstance(settings, dict) else None
                if isinstance(inner, dict) and inner.get(key) is False:
                    found.append(
                        Finding("gemini hooks", False, f"{file} has {section}.{key} = false", "take that line out")
                    )
        if where.root is not None and not self._trusted(where):
            found.append(
                Finding("gemini hooks", False, f"{where.root} is not a trusted folder, so its hooks are not loaded",
                        "trust it in gemini (/permissions), or `takeback init --agent gemini --user`")
            )  # fmt: skip
        return found

    def _trusted(self, where: Where) -> bool:
        if where.environ.get("GEMINI_CLI_TRUST_WORKSPACE") == "true":
            return True
        try:
            known = json.loads((where.home / ".gemini" / "trustedFolders.json").read_text("utf-8"))
        except (OSError, ValueError):
            return False
        assert where.root is not None
        if not isinstance(known, dict):
            return False
        near = [known.get(str(folder)) for folder in (where.root, *where.root.parents)]
        return next((word for word in near if word), None) in ("TRUST_FOLDER", "TRUST_PARENT")


AGENT = Gemini()
