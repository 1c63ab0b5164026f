"""Codex CLI's settings, and the trust without which it skips a hook silently.

Does not cover: recording the trust (`codex_trust` asks Codex itself to).
"""

from __future__ import annotations

import tomllib
from pathlib import Path

from takeback.app.agents import codex_trust
from takeback.app.agents.places import Agent, Piece, Where, groups
from takeback.model import Finding


class Codex(Agent):
    name = "codex"
    title = "Codex CLI"

    def home(self, where: Where) -> Path:
        """Return the folder of a person's settings."""
        return where.folder("CODEX_HOME", ".codex")

    def file(self, where: Where) -> Path:
        """Return the file the hooks are in."""
        return (self.home(where) if where.root is None else where.root / ".codex") / "hooks.json"

    def pieces(self, where: Where) -> list[Piece]:
        # No matcher: it has no tools that only read, and knows no look-ahead.
        others = ("PostToolUse", "SessionStart", "UserPromptSubmit", "Stop")
        return [Piece(self.file(where), groups(self, where, "PreToolUse", others, {}))]

    def used(self, where: Where) -> bool:
        return self.program(where) is not None or self.home(where).is_dir()

    def after_install(self, where: Where) -> list[str]:
        program = self.program(where)
        if program is None:
            return ["Codex is not on this machine's PATH: when it is, run `takeback init --agent codex` again."]
        try:
            codex_trust.trust(program, where.root or where.home, self.file(where), where.environ)
        except codex_trust.NoAnswer as error:
            return [f"Codex did not take the trust of its hooks ({error}): start it and trust them in its dialogue."]
        return [] if where.root is None or self._trusted(where) else [f"Codex must trust {where.root}: start it there."]

    def beside(self, where: Where) -> list[Path]:
        return [self.home(where) / "config.toml"]

    def stripped(self, text: str) -> str:
        import tomlkit

        document = tomlkit.parse(text)
        hooks = document.get("hooks")
        state = hooks.get("state") if hooks is not None else None
        if hooks is None or state is None:
            return text
        for key in [key for key in state if str(key).rsplit(":", 3)[0].endswith("hooks.json")]:
            file = Path(str(key).rsplit(":", 3)[0])
            # Trust of hooks that are not there any more; of other files, and of what others left, nothing.
            if not file.exists():
                del state[key]
        if not state:
            del hooks["state"]
        if not hooks:
            del document["hooks"]
        return tomlkit.dumps(document)

    def switches(self, where: Where) -> list[Finding]:
        found = []
        config = self._config(where)
        if config.get("features", {}).get("hooks") is False:
            path = self.home(where) / "config.toml"
            found.append(Finding("codex hooks", False, f"{path} has features.hooks = false", "take that line out"))
        if where.root is not None and not self._trusted(where):
            found.append(
                Finding("codex hooks", False, f"{where.root} is not trusted, so its hooks are skipped silently",
                        "start codex in it and trust it, or `takeback init --agent codex --user`")
            )  # fmt: skip
        program = self.program(where)
        if program is None:
            found.append(Finding("codex hooks", True, "codex is not on PATH; whether it trusts them was not asked"))
            return found
        try:
            states = codex_trust.states(program, where.root or where.home, self.file(where), where.environ)
        except codex_trust.NoAnswer as error:
            found.append(Finding("codex hooks", False, f"codex does not tell its hooks: {error}", "look into `codex`"))
            return found
        if not states and where.root is not None and not self._trusted(where):
            return found  # it does not look into a folder it does not trust, which is said already
        bad = sorted({state for state in states if state not in ("trusted", "managed")})
        if bad or not states:
            why = f"codex has them as {', '.join(bad)}" if states else "codex does not see them"
            found.append(
                Finding("codex hooks", False, f"{why}, so they are skipped silently", "takeback init --agent codex")
            )
        return found

    def _config(self, where: Where) -> dict[str, dict[str, object]]:
        try:
            with open(self.home(where) / "config.toml", "rb") as file:
                return tomllib.load(file)
        except (OSError, ValueError):
            return {}

    def _trusted(self, where: Where) -> bool:
        projects = self._config(where).get("projects", {})
        for folder in (where.root, *(where.root.parents if where.root else ())):
            known = projects.get(str(folder))
            if isinstance(known, dict):
                return known.get("trust_level") == "trusted"
        return False


AGENT = Codex()
