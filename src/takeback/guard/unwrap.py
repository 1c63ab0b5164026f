"""Programs that run what their words name: wrappers, shells, `eval`, containers.

Does not cover: xargs and find (`search`), interpreters of other languages (`code`).
"""

from __future__ import annotations

from takeback.guard.command import Handler, Step, dispatch
from takeback.guard.model import Deed, What
from takeback.guard.scripts import script
from takeback.guard.variables import environment
from takeback.guard.words import UNKNOWN


def run(step: Step, where: str = "1..") -> None:
    """The words from an operand on, or behind `--`, are a command; `N..plain` passes functions and aliases by."""
    if where == "--":
        at = step.parsed.dashes
        words = step.words[at + 1 :] if at >= 0 else []
    else:
        number, _, plain = where.partition("..")
        words = step.rest(int(number))
        if plain and words:
            dispatch(step.walk, words, plain=True)
            return
    elevated = step.walk.elevated
    step.walk.elevated = elevated or step.name in ("sudo", "doas", "pkexec", "run0")
    step.run(words)
    step.walk.elevated = elevated


def shell(step: Step, *selectors: str) -> None:
    """Words that are shell source, put together with blanks."""
    source = " ".join(step.select(*selectors))
    if source:
        step.shell(source)


def sh(step: Step) -> None:
    """A shell: source behind `-c`, a script, or what it reads."""
    walk = step.walk
    outer = walk.scope
    walk.scope = outer.copy()
    walk.scope.aliases = {}
    try:
        for value in step.parsed.values("--rcfile", "--init-file"):
            script(walk, value, [])
        if step.parsed.has("-c"):
            if step.operands:
                walk.scope.variables.update({str(number): word for number, word in enumerate(step.operands[1:])})
                walk.shell(step.operands[0], f"{step.name} -c")
            else:
                step.deed(Deed.OPAQUE)
        elif step.parsed.has("-n") and step.operands:
            return
        elif step.operands and step.operands[0] not in ("-", "/dev/stdin") and not step.parsed.has("-s"):
            _script(step)
        else:
            _stdin(step)
    finally:
        walk.scope = outer


def _script(step: Step) -> None:
    name = step.operands[0]
    if name.startswith("/dev/fd/"):
        step.deed(Deed.OUTSIDE, f"{step.name} runs what another command writes")
        return
    script(step.walk, name, step.operands[1:])


def _stdin(step: Step) -> None:
    given = step.stdin
    if given is None:
        step.deed(Deed.OPAQUE, f"{step.name} opens a shell, and what is typed into it is not seen", what=What.SHELL)
    elif given.text is not None:
        step.walk.stdin = None
        step.walk.shell(given.text, f"{step.name} <")
        step.walk.stdin = given
    elif given.made_by[:1] == ("cat",) and len(given.made_by) == 2 and UNKNOWN not in given.made_by[1]:
        script(step.walk, given.made_by[1], [])
    else:
        step.deed(Deed.OUTSIDE, f"{step.name} runs what another command writes")


def env(step: Step) -> None:
    """`env`: assignments, then a command; `-S` is split into words."""
    words = [word for value in step.parsed.values("-S", "--split-string") for word in value.split()]
    words += step.rest(1)
    for name in step.parsed.values("-u", "--unset"):
        environment(step.walk, name, "")
    while words and (words[0] == "-" or "=" in words[0].partition("/")[0]):
        name, _, value = words.pop(0).partition("=")
        if name != "-":
            environment(step.walk, name, value)
    if not words:
        return
    folder = step.parsed.values("-C", "--chdir")
    outer = step.walk.scope
    step.walk.scope = outer.copy()
    try:
        if folder:
            step.walk.change_folder(folder[-1])
        step.run(words)
    finally:
        step.walk.scope = outer


def cd(step: Step) -> None:
    """A change of the folder."""
    target = step.operands[0] if step.operands else step.walk.context.home
    if step.name == "popd" or (step.name == "pushd" and target[:1] in "+-"):
        step.walk.change_folder(None if step.name == "pushd" else "-")
    else:
        step.walk.change_folder(target)


def define(step: Step) -> None:
    """`alias` and `export` with words that were put together."""
    for word in step.operands:
        name, equals, value = word.partition("=")
        if equals and step.name == "alias":
            step.walk.scope.aliases[name] = value
        elif equals:
            step.walk.scope.variables[name] = value
            environment(step.walk, name, value)
        elif UNKNOWN in name:
            step.deed(Deed.OPAQUE, f"{step.name} of names that cannot be known")


def container(step: Step, number: str) -> None:
    """A command in a container: nothing of this project, but what leaves the machine leaves it from there too."""
    words = step.rest(int(number))
    if not words:
        return
    outer = step.walk.scope
    step.walk.scope = outer.copy()
    step.walk.scope.cwd = None
    try:
        step.run(words)
    finally:
        step.walk.scope = outer


HANDLERS: dict[str, Handler] = {
    "run": run,
    "shell": shell,
    "sh": sh,
    "env": env,
    "cd": cd,
    "define": define,
    "container": container,
}
