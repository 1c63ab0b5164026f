"""`find` and `xargs`: which paths they hand on, and what is done with them.

Does not cover: the tests of find other than names and paths; a search without them finds all, also `.git`.
"""

from __future__ import annotations

import re

from takeback.guard.command import Handler, Step
from takeback.guard.model import Deed
from takeback.guard.walk import Stdin
from takeback.guard.words import UNKNOWN

_TAKES_VALUE = frozenset(
    "-name -iname -path -ipath -wholename -regex -iregex -type -xtype -mtime -mmin -atime -amin -ctime -cmin "
    "-newer -anewer "
    "-cnewer -size -perm -user -group -uid -gid -links -inum -samefile -maxdepth -mindepth -printf -fstype "
    "-regextype -context "
    "-newermt -newerct -lname -ilname -used".split()
)
_MOST = 8


class Found:
    """What a `find` finds, as paths that stand for all of them."""

    def __init__(self, roots: list[str]) -> None:
        self.roots = roots or ["."]
        self.names: list[str] = []
        self.without_git = False

    def paths(self) -> list[str]:
        """Return paths to judge an action by: `./*.log` for a name, the repository itself when all is found."""
        made: list[str] = []
        for root in self.roots[:_MOST]:
            base = root.rstrip("/") or "/"
            if self.names:
                made += [name if "/" in name else f"{base}/{name}" for name in self.names]
            elif self.without_git:
                made.append(f"{base}/*")
            else:
                made.append(f"{base}/.git/?" if base in (".", UNKNOWN) else base if root != "/" else "/*")
        return made[: _MOST * 2]


def find(step: Step) -> None:
    """`find`: what its actions do to what it finds."""
    search(step, step.words)


def search(step: Step, words: list[str]) -> Found:
    """Read the words of a `find`; notes its actions on the step, and returns what it finds."""
    number = 0
    while number < len(words) and (words[number] in ("-H", "-L", "-P") or words[number].startswith(("-O", "-D"))):
        number += 2 if words[number] == "-D" else 1
    start = number
    while number < len(words) and words[number][:1] not in ("-", "(", "!"):
        number += 1
    found = Found(words[start:number])
    negated = False
    while number < len(words):
        word = words[number]
        value = words[number + 1] if number + 1 < len(words) else ""
        if word in ("!", "-not"):
            negated = True
            number += 1
            continue
        if word in ("-exec", "-execdir", "-ok", "-okdir"):
            number = _execute(step, words, number + 1, found)
            continue
        if word == "-delete":
            for path in found.paths():
                step.touch(path, delete=True)
        elif word in ("-fprint", "-fprint0", "-fls", "-fprintf"):
            step.touch(value)
            number += 2 if word == "-fprintf" else 1
        elif word in ("-name", "-iname", "-path", "-ipath", "-wholename") and value:
            _name(found, value, negated, words[number + 2 : number + 3] == ["-prune"])
            number += 1
        elif word in _TAKES_VALUE:
            number += 1
        elif word == "-prune":
            found.without_git = True
        negated = False
        number += 1
    return found


def _name(found: Found, value: str, negated: bool, pruned: bool) -> None:
    if negated or pruned:
        found.without_git = found.without_git or ".git" in value
    elif value.strip("*./") and not (value.startswith(".") and set(value) <= set(".*?[]!^")):
        if value.startswith("*/"):
            value = "./" + value[2:]
        found.names.append(value)


def _execute(step: Step, words: list[str], number: int, found: Found) -> int:
    """Read the command of an `-exec`; returns where the next word stands."""
    end = number
    while end < len(words) and words[end] not in (";", "\\;") and not (words[end] == "+" and words[end - 1] == "{}"):
        end += 1
    command = words[number:end]
    for path in found.paths():
        step.run([word.replace("{}", path) for word in command])
    if not command:
        step.deed(Deed.OPAQUE)
    return end + 1


def xargs(step: Step) -> None:
    """`xargs`: its command, with what it reads as further words."""
    command = step.rest(1)
    if not command:
        return
    given = _given(step)
    mark = next(iter(step.parsed.values("-I", "-J", "--replace")), "{}" if step.parsed.has("-i", "--replace") else "")
    if step.name == "parallel":
        mark = next((one for one in ("{}", "{.}", "{/}") if any(one in word for word in command)), "")
        if len(command) == 1 or ":::" in command:
            source = " ".join(command[: command.index(":::")] if ":::" in command else command)
            step.shell(source.replace("{}", UNKNOWN) if "{}" in source else f"{source} {UNKNOWN}")
            return
    if mark:
        for path in given[:_MOST]:
            step.run([word.replace(mark, path) for word in command])
    else:
        step.run([*command, *given])


def _given(step: Step) -> list[str]:
    files = step.parsed.values("-a", "--arg-file")
    if files or step.stdin is None:
        return [UNKNOWN]
    if step.stdin.text is not None:
        return step.stdin.text.split() or [UNKNOWN]
    return listed(step, step.stdin) or [UNKNOWN]


def listed(step: Step, stdin: Stdin) -> list[str]:
    """Return paths that stand for those another command prints, none when that is not known."""
    words = list(stdin.made_by)
    if not words:
        return []
    name, rest = words[0].rpartition("/")[2], words[1:]
    operands = [word for word in rest if not word.startswith("-")]
    if name == "git" and operands[:1] == ["ls-files"]:
        unseen = any(re.match(r"-\w*[oi]|--others|--ignored", word) for word in rest)
        return ["./?", "./*"] if unseen else ["./?"]
    if name == "git" and operands[:1] in (["diff"], ["grep"], ["status"], ["show"], ["log"]):
        return ["./?"]
    if name == "find":
        quiet = Quiet(step)
        return search(quiet, rest).paths()
    if name in ("rg", "fd", "fdfind", "ag"):
        roots = operands[1:] or ["."]
        return [f"{root.rstrip('/')}/?" for root in roots]
    if name in ("grep", "egrep", "fgrep"):
        roots = operands[1:] or ["."]
        return [f"{root.rstrip('/')}/.git/?" if root in (".", "./") else f"{root.rstrip('/')}/?" for root in roots]
    if name == "ls":
        return [one if "*" in one else f"{one.rstrip('/')}/*" for one in operands or ["."]]
    return []


class Quiet(Step):
    """A step that notes nothing: only what it finds is asked for."""

    def __init__(self, step: Step) -> None:
        self.__dict__.update(step.__dict__)

    def touch(self, path: str, *, delete: bool = False, deep: bool = False, new: bool = False) -> None:
        pass

    def run(self, words: list[str]) -> None:
        pass

    def deed(self, deed: Deed, *rest: object, **more: object) -> None:
        pass


HANDLERS: dict[str, Handler] = {"xargs": xargs, "find": find}
