"""Accepting a project's policy: what it would loosen is looked at, then recorded by the digest of its file.

Does not cover: what a policy means (`guard.policy`), or how the files are read (`config`).
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass

from takeback import config, judge
from takeback.app.finding import here, place_of
from takeback.app.person import require_person
from takeback.config import levels, trust
from takeback.config.levels import Loosened
from takeback.errors import NothingToDo, TakebackError
from takeback.files.layout import DataDir
from takeback.model import Finding


@dataclass(frozen=True)
class Review:
    """The policies of one project, and what the project's own would loosen."""

    policies: judge.Policies
    loosened: tuple[Loosened, ...]

    @property
    def needs_trust(self) -> bool:
        """Whether something is waiting to be accepted."""
        return bool(self.loosened) and not self.policies.trusted


def review(path: str | None = None) -> Review:
    """Return the policies of the project around `path` (the current directory when None). Raises NoProject."""
    home = os.environ.get("HOME") or os.path.expanduser("~")
    start = os.path.abspath(os.fsencode(path)) if path is not None else here()
    place = place_of(DataDir(config.data_dir(os.environ, home)), start)
    found = judge.read_policies(place.root)
    return Review(found, tuple(levels.loosened(found.user, found.project)))


def accept(one: Review) -> None:
    """Record that a person accepts the policy that was reviewed.

    Raises the first mistake in the project's file, NothingToDo where it loosens nothing, UsageError when no person is
    there, CannotWrite.
    """
    found = one.policies
    if found.project.problems:
        raise found.project.problems[0]
    if not one.loosened:
        raise NothingToDo(
            sentence=f"{found.project.name} loosens nothing, so there is nothing to trust", next="takeback policy"
        )
    require_person()
    trust.accept(found.data, os.fsencode(found.root), found.project.digest, time.time_ns())


def forget(one: Review) -> None:
    """Take back what was accepted. Raises NothingToDo, CannotWrite."""
    if not trust.forget(one.policies.data, os.fsencode(one.policies.root)):
        raise NothingToDo(sentence="the policy of this project is not trusted", next="takeback policy")


def findings(path: str | None = None) -> list[Finding]:
    """Return what is to be said of the policies: one line for each mistake, or one for both files."""
    try:
        found = review(path).policies
    except TakebackError:
        return []  # what keeps a project from being found is told elsewhere
    problems = [*found.user.problems, *found.project.problems]
    if problems:
        return [Finding("policy", False, str(problem), problem.hint_text) for problem in problems]
    files = [said.name for said in (found.user, found.project) if not said.empty]
    if not files:
        return []
    detail = "; ".join([f"read from {' and '.join(files)}", *found.policy.notes])
    return [Finding("policy", True, detail)]
