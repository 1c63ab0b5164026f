"""Variables of the environment that change what a command is: programs, where programs are, what git reads.

Does not cover: the values of a script's own variables (`walk`).
"""

from __future__ import annotations

import re

from takeback.guard import brake, places
from takeback.guard.later import pattern
from takeback.guard.model import Deed
from takeback.guard.walk import Walk
from takeback.guard.words import UNKNOWN

# Settings whose value git runs, or that say where it finds what it runs.
PROGRAM_SETTING = pattern(
    r"(core\.(pager|editor|sshcommand|fsmonitor|askpass|gitproxy|hookspath|attributesfile|alternaterefscommand)"
    r"|sequence\.editor"
    r"|pager\..*|diff\.(external|.*\.(command|textconv))|difftool\..*\.cmd|mergetool\..*\.(cmd|path)|merge\..*\.driver"
    r"|filter\..*\.(clean|smudge|process)|gpg\.(.*\.)?program|credential\.(.*\.)?helper|alias\..*"
    r"|browser\..*\.cmd|man\..*\.cmd"
    r"|uploadpack\.packobjectshook|interactive\.difffilter|include(if\..*)?\.path|ssh\.variant|trailer\..*\.(cmd"
    r"|command)"
    r"|remote\..*\.(uploadpack|receivepack|proxy)|protocol\..*\.allow|url\..*\.(push)?insteadof|init\.templatedir"
    r"|submodule\..*\.update|sendemail\..*cmd|core\.worktree|safe\.directory|http\.proxy)$",
    re.IGNORECASE,
)
_PROGRAMS = frozenset(
    "PAGER GIT_PAGER EDITOR VISUAL GIT_EDITOR GIT_SEQUENCE_EDITOR GIT_SSH GIT_SSH_COMMAND GIT_EXTERNAL_DIFF "
    "GIT_PROXY_COMMAND "
    "GIT_ASKPASS SSH_ASKPASS SUDO_ASKPASS BROWSER MANPAGER PROMPT_COMMAND PERL5DB LESSOPEN LESSCLOSE "
    "KUBE_EDITOR".split()
)
_LOADED = pattern(
    r"(LD_(PRELOAD|LIBRARY_PATH|AUDIT)|DYLD_.*|BASH_ENV|ENV|PYTHONSTARTUP|PYTHONHOME|PERL5OPT|RUBYOPT|IFS"
    r"|GIT_TEMPLATE_DIR|GIT_EXEC_PATH|ZDOTDIR|BASH_FUNC_.*)"
)
_FOUND_IN = pattern(r"(/(usr|bin|sbin|opt|nix|snap|Library|System|Applications)\b.*|" + UNKNOWN + "*)")


def environment(walk: Walk, name: str, value: str) -> None:
    """Note what setting a variable for a command does: some are programs, some say where programs are."""
    if name in _PROGRAMS:
        if value.strip() and value.strip() not in ("cat", "less", "true", "vi", "vim", "nano", ":", "code --wait"):
            walk.shell(value, f"{name}=")
    elif name == "PATH":
        for folder in value.split(":"):
            if not (
                _FOUND_IN.fullmatch(folder)
                or folder.startswith(walk.context.home + "/.")
                or folder == walk.context.home + "/bin"
            ):
                walk.class_of(Deed.OPAQUE, "programs may not be what their names say: PATH is changed")
                return
    elif _LOADED.fullmatch(name) and value:
        walk.class_of(Deed.OPAQUE, f"{name} makes programs run other code")
    elif name == "NODE_OPTIONS" and re.search(r"-r\b|--require|--import|--loader|--experimental-loader", value):
        walk.class_of(Deed.OPAQUE, "NODE_OPTIONS makes node run other code")
    elif name.startswith("GIT_"):
        _git(walk, name, value)
    elif (held := brake.variable(name)) is not None:
        walk.add(held)


def _git(walk: Walk, name: str, value: str) -> None:
    if name in ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY", "GIT_COMMON_DIR"):
        whole = places.absolute(value, walk.scope.cwd)
        if whole is None or not places.inside(whole, walk.context.root):
            walk.class_of(Deed.DESTROYS, f"{name} makes git work outside the project")
    elif name == "GIT_CONFIG_PARAMETERS" or name.startswith("GIT_CONFIG_KEY_"):
        for key in re.findall(r"[\w.-]+", value):
            if PROGRAM_SETTING.match(key):
                walk.class_of(Deed.OPAQUE, f"git runs what {key} says")
    elif name == "GIT_CONFIG_GLOBAL" and value not in ("", "/dev/null"):
        walk.class_of(Deed.OPAQUE, "git takes its settings from another file")
