"""What rules may say beyond a class, by name; each handler gets the step and the rule's arguments.

Does not cover: the handlers that need a field's own knowledge, which are in modules of their own.
"""

from __future__ import annotations

from collections.abc import Callable

from takeback.guard import code, databases, editing, git, http, scripts, search, unwrap
from takeback.guard.command import Step
from takeback.guard.model import Class, Deed, Effect, What


def write(step: Step, *selectors: str) -> None:
    """Paths that are written."""
    for path in step.select(*selectors):
        step.touch(path)


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


def packages(step: Step) -> None:
    """Packages of Python: in the project's virtual environment, or this machine's."""
    if step.walk.elevated or step.walk.context.venv is False:
        step.deed(Deed.SYSTEM, f"{step.label} changes packages outside the project", what=What.PACKAGE)
    else:
        step.deed(Deed.STATE, f"{step.label} changes packages of the project", what=What.PACKAGE)


HANDLERS: dict[str, Callable[..., None]] = {
    "write": write,
    "delete": delete,
    "read": read,
    "brake": brake,
    "packages": packages,
    "copy": editing.copy,
    "dd": editing.dd,
    "tar": editing.tar,
    "rsync": editing.rsync,
    "sed": editing.sed,
    "awk": editing.awk,
    "run": unwrap.run,
    "shell": unwrap.shell,
    "sh": unwrap.sh,
    "env": unwrap.env,
    "cd": unwrap.cd,
    "trap": unwrap.shell,
    "define": unwrap.define,
    "xargs": search.xargs,
    "find": search.find,
    "container": unwrap.container,
    "script": scripts.by_operand,
    "target": scripts.target,
    "code": code.inline,
    "module": code.module,
    "curl": http.curl,
    "httpie": http.httpie,
    "api": http.api,
    "asks": http.asks,
    "sql": databases.sql,
    "sqlite": databases.sqlite,
    "query": databases.query,
    "server": databases.server,
    "gitsettings": git.settings,
    "gitconfig": git.config,
    "gitalias": git.alias,
    "githooks": git.hooks,
}
