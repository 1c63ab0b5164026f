"""The guard for this process: the context of the project around a folder, from this machine's settings.

Does not cover: classes (`guard`), or what is done about them.
"""

from __future__ import annotations

import os

from takeback.config import config_dir, data_dir
from takeback.errors import BadSetting, CannotRead, NoProject
from takeback.guard import Class, Context, Verdict, ground
from takeback.guard import policy as policies
from takeback.guard.policy import Decision
from takeback.guard.rules import Library, RuleError, builtin, with_own


def context(path: str | None = None) -> Context:
    """Return the context of a step in `path` (the current directory when None). Raises NoProject."""
    home = os.environ.get("HOME") or os.path.expanduser("~")
    try:
        start = os.path.abspath(path) if path is not None else os.getcwd()
    except FileNotFoundError:
        raise NoProject(path=path or ".") from None
    if not os.path.isdir(start):
        raise NoProject(path=start)
    data = os.fspath(data_dir(os.environ, home))
    return ground.context(start, home=home, data=data, virtual_env=os.environ.get("VIRTUAL_ENV", ""))


def decide(verdict: Verdict, root: bytes, *, attended: bool, raised: Class | None = None) -> Decision:
    """Return what is done about a step in a project, by the policy in force there."""
    return policies.decide(verdict, policies.Policy(), attended=attended, raised=raised)


def library() -> Library:
    """Return the rules, with those of the user's own folder `rules` beside the settings file.

    Raises BadSetting with the line that cannot be read, CannotRead.
    """
    home = os.environ.get("HOME") or os.path.expanduser("~")
    folder = os.path.join(config_dir(os.environ, home), "rules")
    try:
        names = sorted(name for name in os.listdir(folder) if name.endswith(".rules"))
    except OSError:
        return builtin()
    texts = []
    for name in names:
        path = os.path.join(folder, name)
        try:
            with open(path, encoding="utf-8") as file:
                texts.append((file.read(), path))
        except (OSError, ValueError) as error:
            raise CannotRead(path=path, why=str(error)) from error
    if not texts:
        return builtin()
    try:
        return with_own(texts)
    except RuleError as error:
        hint = "docs/how-to/rules.md has the notation"
        raise BadSetting(file=error.file, line=error.line, problem=error.problem, nearest=hint) from None
