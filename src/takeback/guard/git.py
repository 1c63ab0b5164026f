"""What rules cannot say of git: settings that are programs, aliases, hooks, variables.

Does not cover: its sub-commands (`rules/git.rules`).
"""

from __future__ import annotations

from takeback.guard import places
from takeback.guard.command import Handler, Step
from takeback.guard.model import Deed, What
from takeback.guard.variables import PROGRAM_SETTING
from takeback.guard.words import UNKNOWN

_PLAIN_PROGRAMS = frozenset(
    ("", "cat", "less", "true", "false", ":", "vi", "vim", "nano", "store", "cache", "code --wait")
)


def settings(step: Step) -> None:
    """`-c KEY=VALUE` before the sub-command."""
    for given in step.parsed.values("-c"):
        key, _, value = given.partition("=")
        if key.lower().startswith("alias."):
            continue  # counts when it is called
        if PROGRAM_SETTING.match(key):
            _program(step, key, value)
    for given in step.parsed.values("--config-env"):
        if PROGRAM_SETTING.match(given.partition("=")[0]) and not given.lower().startswith("include"):
            step.deed(Deed.OPAQUE, f"git runs what {given.partition('=')[0]} says")
    if step.parsed.has("--exec-path") and any(step.parsed.values("--exec-path")):
        step.deed(Deed.OPAQUE, "git takes its programs from another folder")


def _program(step: Step, key: str, value: str) -> None:
    low = key.lower()
    if UNKNOWN in value:
        step.deed(Deed.OPAQUE, f"git runs what {key} says")
    elif value.strip() in _PLAIN_PROGRAMS or low.startswith(("protocol.", "safe.", "url.", "http.", "ssh.")):
        return
    elif low.endswith(("hookspath", "attributesfile", "templatedir", ".path", "worktree")):
        if value != "/dev/null":
            step.deed(Deed.OPAQUE, f"git runs what it finds by {key}")
    else:
        step.shell(value.lstrip("!"))


def config(step: Step) -> None:
    """`git config`: what is set, where."""
    has = step.parsed.has
    operands = [
        one for one in step.operands[1:] if one not in ("set", "unset", "edit", "remove-section", "rename-section")
    ]
    if has("--global", "--system"):
        step.deed(Deed.DESTROYS, "git config changes settings of this user or machine")
    elif has("-f", "--file"):
        for path in step.parsed.values("-f", "--file"):
            step.touch(path)
    elif operands and PROGRAM_SETTING.match(operands[0]) and not has("--unset", "--unset-all"):
        value = operands[1] if len(operands) > 1 else ""
        if value.strip() not in _PLAIN_PROGRAMS:
            step.deed(Deed.OPAQUE, f"git will run what {operands[0]} says", what=What.METADATA)
        step.deed(Deed.STATE, "changes .git/config, which no commit holds", what=What.METADATA)
    else:
        step.deed(Deed.STATE, "changes .git/config, which no commit holds", what=What.METADATA)


def alias(step: Step) -> None:
    """A sub-command git does not have: an alias, or a program of the user."""
    name = step.operands[0] if step.operands else ""
    value: str | None = None
    for given in step.parsed.values("-c"):
        key, _, said = given.partition("=")
        if key.lower() == f"alias.{name.lower()}":
            value = said
    if value is None and UNKNOWN not in name:
        value = step.walk.context.aliases(name)
    rest = step.rest(2)
    if value is None:
        step.deed(Deed.OPAQUE, f"git {name} is not known".replace(UNKNOWN, "?"))
    elif value.startswith("!"):
        step.shell(value[1:] + " " + " ".join(rest))
    elif value.split()[:1] != [name]:
        step.run(["git", *value.split(), *rest])


def hooks(step: Step) -> None:
    """A sub-command that runs hooks, where there are any."""
    if step.walk.context.hooks and not step.parsed.has("--no-verify"):
        step.deed(Deed.OPAQUE, f"{step.label} runs the hooks of this repository")


def history(step: Step) -> None:
    """What no ref names is dropped for good; of this project a checkpoint keeps it, reflogs included."""
    here = places.at(step.cwd, step.walk.context)
    why = f"{step.label} drops what no ref names"
    step.deed(Deed.SYSTEM if here else Deed.DESTROYS, why, what=What.METADATA)


HANDLERS: dict[str, Handler] = {
    "gitsettings": settings,
    "gitconfig": config,
    "gitalias": alias,
    "githooks": hooks,
    "history": history,
}
