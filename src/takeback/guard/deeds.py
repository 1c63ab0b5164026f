"""What rules may say beyond a class, by name; each handler gets the step and the rule's arguments.

Does not cover: the handlers that need a field's own knowledge, which are in modules of their own.
"""

from __future__ import annotations

import importlib

from takeback.guard import places
from takeback.guard.command import Handler, Step
from takeback.guard.model import Class, Deed, Effect, What


def write(step: Step, *selectors: str) -> None:
    """Paths that are written."""
    for path in step.select(*selectors):
        step.touch(path)


def make(step: Step, *selectors: str) -> None:
    """Paths that are made, and left as they are where they exist: nothing is overwritten."""
    for path in step.select(*selectors):
        step.touch(path, new=True)


def delete(step: Step, *selectors: str) -> None:
    """Paths that are deleted, with all below them."""
    for path in step.select(*selectors):
        step.touch(path, delete=True, deep=True)


def read(step: Step, *selectors: str) -> None:
    """Paths that are read: told, though no class comes of it."""
    for path in step.select(*selectors):
        if path != "-":
            step.walk.add(Effect(Class.NONE, What.READ, f"reads {path}", path))


def brake(step: Step) -> None:
    """What holds agents back is reached for."""
    step.walk.add(Effect(Class.FILES, What.BRAKE, f"{step.label} is for people: it loosens what holds agents back"))


def guarded(step: Step, *selectors: str) -> None:
    """Paths that are changed: told only where they hold agents back, since the class comes of something else."""
    for path in step.select(*selectors):
        for effect in places.touch(path, step.cwd, step.walk.context, delete=True):
            if effect.what is What.BRAKE:
                step.walk.add(effect)


def packages(step: Step) -> None:
    """Packages of Python: in the project's virtual environment, or this machine's."""
    if step.walk.elevated or step.walk.context.venv is False:
        step.deed(Deed.SYSTEM, f"{step.label} changes packages outside the project", what=What.PACKAGE)
    else:
        step.deed(Deed.STATE, f"{step.label} changes packages of the project", what=What.PACKAGE)


# Where each handler is: a module is imported when a rule first asks for it, since a hook reads one command and ends.
_ELSEWHERE = {
    "editing": "copy dd tar rsync sed awk",
    "unwrap": "run shell sh env cd define container",
    "search": "xargs find",
    "scripts": "script target",
    "code": "code module",
    "http": "curl httpie api asks load",
    "databases": "sql sqlite query server create",
    "git": "gitsettings gitconfig gitalias githooks history",
}
_HERE: dict[str, Handler] = {
    "write": write,
    "make": make,
    "delete": delete,
    "read": read,
    "brake": brake,
    "guarded": guarded,
    "packages": packages,
}
_MODULES = {name: module for module, names in _ELSEWHERE.items() for name in names.split()}
HANDLERS = frozenset((*_HERE, *_MODULES))


def handler(name: str) -> Handler:
    """Return the handler of a deed."""
    found = _HERE.get(name)
    if found is None:
        module = importlib.import_module(f"takeback.guard.{_MODULES[name]}")
        found = _HERE[name] = module.HANDLERS[name]
    return found
