"""The guard for this process: context, rules and policy of the project around a folder, from this machine's settings.

Does not cover: classes (`guard`), or what is done about them.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from takeback.config import config_dir, data_dir, levels, trust
from takeback.config import policy as policies
from takeback.errors import BadSetting, CannotRead, NoProject
from takeback.guard import Class, Context, Verdict, ground
from takeback.guard.policy import Decision, Policy
from takeback.guard.policy import decide as decide_by
from takeback.guard.rules import Library, RuleError, builtin, with_own

_ONLY_TOLD = frozenset(("where", "places", "notes", "notify"))


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
    return decide_by(verdict, policy(root), attended=attended, raised=raised)


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


@dataclass(frozen=True)
class Policies:
    """What both files say, whether the project's is trusted, and the policy that follows."""

    root: str
    data: Path
    user: policies.Said
    project: policies.Said
    trusted: bool
    policy: Policy


def policy(root: str | bytes | None = None) -> Policy:
    """Return the policy in force in the project at `root` (around the current directory when None).

    Never raises for what is in the files: what cannot be read is in the notes, and makes nothing looser.
    """
    return read_policies(root).policy


def fingerprint(root: str | bytes) -> str:
    """Return a hash of all that decides about a step: the policy in force, and the user's own rules.

    Whom to tell of a hold, and in which line something stands, does not count.
    """
    home = os.environ.get("HOME") or os.path.expanduser("~")
    said = hashlib.sha256(repr(_deciding(asdict(policy(root)))).encode("utf-8", "surrogateescape"))
    for path in sorted((config_dir(os.environ, home) / "rules").glob("*.rules")):
        try:
            said.update(path.name.encode("utf-8", "surrogateescape") + path.read_bytes())
        except OSError:
            said.update(b"cannot be read")
    return said.hexdigest()


def _deciding(value: Any) -> Any:
    """Return plain values without those that only tell a person something."""
    if isinstance(value, Mapping):
        return {name: _deciding(one) for name, one in value.items() if name not in _ONLY_TOLD}
    return [_deciding(one) for one in value] if isinstance(value, (list, tuple)) else value


def read_policies(root: str | bytes | None = None) -> Policies:
    """Return what is said of steps in the project at `root`, file by file. Raises NoProject without a root."""
    home = os.environ.get("HOME") or os.path.expanduser("~")
    place = context().root if root is None else os.path.realpath(os.fsdecode(root))
    data = data_dir(os.environ, home)
    user = policies.read(config_dir(os.environ, home) / "config.toml")
    project = policies.read(Path(place) / ".takeback.toml")
    trusted = trust.is_trusted(data, os.fsencode(place), project.digest)
    protects = user.level.branches.protected or project.level.branches.protected
    branch = ground.branch(place) if protects else None
    return Policies(place, data, user, project, trusted, levels.combine(user, project, trusted=trusted, branch=branch))
