"""What holds agents back, by whatever name it is reached: takeback's commands, data and settings, and agents' hooks.

By path: what is written or deleted, the folders above included. By name: variables. By text: a command of takeback for
people inside something that cannot be read. The rest is rules: `brake()` and `guarded(..)`.
Does not cover: an obfuscated name inside opaque code; then `app.person` refuses, since an agent is among the ancestors.
"""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase

from takeback.guard.context import Context
from takeback.guard.later import pattern
from takeback.guard.model import Class, Effect, Verdict, What
from takeback.guard.words import shown
from takeback.holds.agents import MARKS

_INSIDE = pattern(
    r"(^|/)(\.takeback\.toml|\.claude/(settings[^/]*\.json|hooks(/.*)?)|\.codex/(config\.toml|hooks(\.json|/.*)?)"
    r"|\.gemini/settings\.json|opencode\.jsonc?|\.opencode/plugins?(/.*)?|\.config/opencode/.*|\.claude\.json"
    r"|\.mcp\.json|bin/(takeback|tb|takeback-hook)|(site|dist)-packages/takeback(-[^/]*)?(/.*)?"
    r"|(tools|venvs)/takeback(/.*)?)$"
)
# Folders whose loss takes the files above along.
_ABOVE = pattern(r"(^|/)\.(claude|codex|gemini|opencode)/?$")
_ENDS = pattern(r"(^|/)takeback/(config\.toml|rules|projects|VERSION)(/|$)")
# Where agents look for their settings, and what switches their hooks off.
_SETTINGS = frozenset(
    "CLAUDE_CONFIG_DIR CLAUDE_CODE_SIMPLE CODEX_HOME OPENCODE_CONFIG OPENCODE_CONFIG_DIR OPENCODE_CONFIG_CONTENT "
    "GEMINI_CLI_HOME GEMINI_CLI_SYSTEM_SETTINGS_PATH".split()
)
# What a glob may turn out to name: the files above, spelled out. A name it can only reach with its first letter a
# wildcard is left to the shell's own rule, which gives such a glob no name that begins with a dot.
_NAMES = tuple(
    tuple(name.split("/"))
    for name in (
        ".takeback.toml", ".claude", ".claude/settings.json", ".claude/settings.local.json", ".claude/hooks/x",
        ".codex", ".codex/config.toml", ".codex/hooks.json", ".codex/hooks/x", ".gemini", ".gemini/settings.json",
        "opencode.json", "opencode.jsonc", ".opencode", ".opencode/plugin/x", ".opencode/plugins/x",
        ".config/opencode/x", ".claude.json", ".mcp.json", "bin/takeback", "bin/tb", "bin/takeback-hook",
    )
)  # fmt: skip
_VERBS = r"(approve|deny|trust|gc|pause|uninstall|resume)"
# `takeback` as a word of its own, then one of the verbs, or the library's way to the same.
_SAID = pattern(
    rf"(?<![\w.-])(takeback|tb)(\.__main__)?(?![\w/-])[^\n;]{{0,200}}?(?<![\w/-]){_VERBS}(?![\w/-])"
    r"|\b(import|from)\s+takeback\b.{0,2000}?\b(holding|person|__main__|cli|approve|deny|gc|pause|resume)\b"
    r"|\b(which|command\s+-v|type\s+-[pP])\s+(takeback|tb)\b"
    r"|run_module\(\W{0,3}takeback|TAKEBACK_(HOME|STEP|TOKEN)",
    16,  # DOTALL
)
_LONGEST = 200_000


def reached(real: str, context: Context, *, deletes: bool = False) -> list[Effect]:
    """Return that writing the path `real` (deleting it with all below) reaches what holds agents back, else nothing."""
    data = [context.data] if context.data else []
    data += [f"{context.home}/.local/share/takeback", f"{context.home}/.config/takeback"]
    above = real.rstrip("/*?") or "/"
    held = (
        any(_inside(real, one) or (deletes and _inside(one, above)) for one in data)
        or _INSIDE.search(real)
        or _ABOVE.search(real)
        or (any(mark in real for mark in "*?[") and _globbed(real, data, deletes))
    )
    return [_effect("reaches for what holds agents back", real)] if held else []


_WILD = pattern(r"\[[^\]]*\]|[*?]")


def _globbed(real: str, data: list[str], deletes: bool) -> bool:
    """Whether a path with wildcards may turn out to be one of those, or (deleted) a folder above."""
    parts = real.strip("/").split("/")
    if any(_matches(parts[-len(name) :], name) for name in _NAMES):
        return True
    for folder in data:
        names = folder.strip("/").split("/")
        if (deletes or len(parts) >= len(names)) and _matches(parts[: len(names)], names[: len(parts)]):
            return True
    return False


def _matches(globs: Sequence[str], names: Sequence[str]) -> bool:
    return len(globs) == len(names) and all(
        glob == name or (_names(glob, name) and fnmatchcase(name, glob))
        for glob, name in zip(globs, names, strict=True)
    )


def _names(glob: str, name: str) -> bool:
    """Whether a glob spells something of a name: `.[!.]*` means all there is that is hidden, and names none of it."""
    first = 2 if name.startswith(".") else 1
    return glob[:first] == name[:first] or (glob[:1] == name[:1] and len(_WILD.sub("", glob)) > first + 1)


def unknown(path: str) -> list[Effect]:
    """Return that a path whose beginning is not known plainly ends among what holds agents back, else nothing."""
    if _ENDS.search(path) or _INSIDE.search(path):
        return [_effect("reaches for what holds agents back", shown(path))]
    return []


def variable(name: str) -> Effect | None:
    """Return that setting or clearing a variable loosens what holds agents back, if it does."""
    if name.startswith("TAKEBACK_"):
        return _effect("changes a setting of takeback", name)
    if name in MARKS:
        return _effect(f"{name} says that this is a step of an agent", name)
    if name in _SETTINGS:
        return _effect(f"{name} says where an agent finds its settings and hooks", name)
    return None


def said(text: str, verdict: Verdict) -> Effect | None:
    """Return that a text which cannot be read as a whole has a command of takeback for people in it, if it has."""
    if verdict.cls < Class.MACHINE or verdict.brake or "t" not in text or len(text) > _LONGEST:
        return None
    found = _SAID.search(text)
    return _effect("a command for people is in it: it loosens what holds agents back") if found else None


def _effect(why: str, target: str = "") -> Effect:
    return Effect(Class.FILES, What.BRAKE, why, target)


def _inside(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")
