"""Scripts of the project and targets of its build files, looked into where the context has their text.

Does not cover: what only the tool itself could tell (includes, functions of make, workspaces); that is opaque.
"""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Iterator

from takeback.guard import places
from takeback.guard.command import LEAVES, Handler, Step
from takeback.guard.later import pattern
from takeback.guard.model import Deed
from takeback.guard.walk import Walk
from takeback.guard.words import UNKNOWN, shown

_SHELL = pattern(r"#!\s*\S*/(env\s+(-\S+\s+)?)?(ba|da|z|k)?sh\b")
_LONGEST = 60_000
_MAKE_RULE = pattern(r"^([^\s#:=][^:=#]*?)\s*::?(?![=])\s*([^#;]*)(?:;(.*))?$")
_JUST_RULE = pattern(r"^@?([\w-]+)([^:=]*):(?!=)\s*([^#]*)$")
_MAKE_VARIABLE = pattern(r"\$[({][^)}]*[)}]|\$[@<^*+?%]")


def script(walk: Walk, name: str, arguments: list[str], *, language: str = "sh") -> None:
    """A program of the project is run: its text counts when it is shell and there, else its name is all there is."""
    text = _text(walk, name)
    if text is not None and (_SHELL.match(text) or (language == "sh" and text[:2] != "#!")):
        outer = walk.scope
        walk.scope = outer.copy()
        walk.scope.variables.update({str(number): word for number, word in enumerate(arguments, 1)})
        try:
            walk.shell(text, posixpath.basename(name))
        finally:
            walk.scope = outer
        return
    base = posixpath.basename(name)
    if LEAVES.search(base) or (arguments and LEAVES.fullmatch(arguments[0])):
        walk.class_of(Deed.OUTSIDE, f"runs {shown(name)}, which by its name sends something away")
    else:
        walk.class_of(Deed.OPAQUE, f"runs {shown(name)}, whose effects cannot be seen")


def _text(walk: Walk, name: str) -> str | None:
    whole = places.absolute(name, walk.scope.cwd)
    if whole in walk.written:
        return walk.written[whole]
    if whole is None or UNKNOWN in name or not places.inside(whole, walk.context.root):
        return None
    text = walk.context.read(posixpath.relpath(whole, walk.context.root))
    return text if text is not None and len(text) <= _LONGEST and "\0" not in text else None


def by_operand(step: Step, number: str = "1") -> None:
    """A script that an interpreter is given."""
    name = (step.select(number) or [""])[0]
    if name.startswith("/dev/fd/"):
        step.deed(Deed.OUTSIDE, f"{step.name} runs what another command writes")
        return
    if step.name in ("source", "."):
        text = _text(step.walk, name)
        if text is not None:
            step.walk.shell(text, name)
        elif name.endswith(("/bin/activate", "nvm.sh", ".bashrc", ".profile", ".zshrc", "conda.sh")):
            step.deed(Deed.OPAQUE, f"reads {name} into the shell")
        else:
            script(step.walk, name, step.operands[1:])
        return
    if not name or name == "-":
        return
    script(step.walk, name, step.operands[int(number) :], language=step.name)


def target(step: Step, tool: str, number: str = "1") -> None:
    """Targets of a build file: `target(npm,2)` for `npm run NAME`, `target(make)` for `make NAME..`."""
    names = [one for one in step.operands[int(number) - 1 :] if "=" not in one]
    if tool == "npm":
        names = names[:1]
    if not names and tool == "npm":
        return  # lists the scripts
    known = {"npm": _npm, "make": _make, "just": _just}[tool](step)
    for name in names or [""]:
        _follow(step, name, known, set())


Recipes = dict[str, tuple[list[str], list[str]]]


def _follow(step: Step, name: str, known: Recipes | None, done: set[str]) -> None:
    recipe = known.get(name) if known else None
    if name in done:
        return
    done.add(name)
    if recipe is None:
        if LEAVES.search(name):
            step.deed(Deed.OUTSIDE, f"{step.name} {name} by its name sends something away")
        elif not done - {name} or known is None:
            step.deed(Deed.OPAQUE, f"{step.name} {shown(name)} runs what cannot be seen".replace("  ", " "))
        return
    first, lines = recipe
    for one in first:
        _follow(step, one, known, done)
    outer = step.walk.scope
    step.walk.scope = outer.copy()
    if step.cwd is not None:
        step.walk.scope.cwd = step.cwd
    try:
        for line in lines:
            step.walk.shell(line, f"{step.name} {name}".strip())
    finally:
        step.walk.scope = outer


def _file(step: Step, *names: str) -> str | None:
    if step.cwd is None or not places.inside(step.cwd, step.walk.context.root):
        return None
    for name in names:
        text = step.walk.context.read(posixpath.relpath(posixpath.join(step.cwd, name), step.walk.context.root))
        if text is not None and len(text) <= _LONGEST:
            return text
    return None


def _npm(step: Step) -> Recipes | None:
    text = _file(step, "package.json")
    try:
        found = json.loads(text)["scripts"] if text else None
        scripts = {str(name): str(line) for name, line in found.items()} if found else {}
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None
    before = {name: [one for one in (f"pre{name}", f"post{name}") if one in scripts] for name in scripts}
    return {name: (before[name], [line]) for name, line in scripts.items()} if text else None


def _make(step: Step) -> Recipes | None:
    given = step.parsed.values("-f", "--file", "--makefile")
    text = _file(step, *given) if given else _file(step, "GNUmakefile", "makefile", "Makefile")
    if text is None or re.search(
        r"^-?s?include\b|\$\((shell|eval|call)\b|^\.SHELL|^SHELL\s*[:?]?=|!=", text, re.MULTILINE
    ):
        return None
    recipes: Recipes = {}
    names: list[str] = []
    for line in _logical(text):
        if line.startswith("\t"):
            for name in names:
                recipes[name][1].append(_recipe_line(line))
            continue
        found = _MAKE_RULE.match(line)
        names = found[1].split() if found else names if not line.strip() or line.startswith("#") else []
        if found:
            for name in names:
                recipes.setdefault(name, ([], []))[0].extend(
                    _MAKE_VARIABLE.sub(UNKNOWN, found[2]).replace("|", " ").split()
                )
                if found[3]:
                    recipes[name][1].append(_recipe_line(found[3]))
    first = next((name for name in recipes if not name.startswith(".")), None)
    return {**recipes, "": ([first], [])} if first else None


def _recipe_line(line: str) -> str:
    return _MAKE_VARIABLE.sub(UNKNOWN, line.strip().lstrip("@-+ ")).replace("$$", "$")


def _logical(text: str) -> Iterator[str]:
    yield from text.replace("\\\n", " ").splitlines()


def _just(step: Step) -> Recipes | None:
    text = _file(step, "justfile", "Justfile", ".justfile")
    if text is None or re.search(r"^(import|mod|set\s+shell)\b|^\s+#!", text, re.MULTILINE):
        return None
    recipes: Recipes = {}
    name = ""
    for line in _logical(text):
        if line[:1] in (" ", "\t"):
            if name:
                recipes[name][1].append(re.sub(r"\{\{.*?\}\}", UNKNOWN, line.strip().lstrip("@-")))
            continue
        found = _JUST_RULE.match(line)
        if found:
            name = found[1]
            recipes[name] = ([one for one in found[3].split() if re.fullmatch(r"[\w-]+", one)], [])
        elif line.strip() and not line.startswith(("#", "[")):
            name = ""
    first = next(iter(recipes), None)
    return {**recipes, "": ([first], [])} if first else None


HANDLERS: dict[str, Handler] = {"script": by_operand, "target": target}
