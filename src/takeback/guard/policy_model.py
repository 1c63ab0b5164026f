"""What a policy is: acts by class, and what each settings file adds in rules, hosts and protected branches.

Does not cover: reading one (`config.policy`), or what follows from it (`policy`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

from takeback.guard.model import Class, Reason

if TYPE_CHECKING:
    from takeback.model import Kind


class Act(StrEnum):
    """What is done with a step, from loose to strict."""

    ALLOW = "allow"  # it runs, nothing is saved
    CHECKPOINT = "checkpoint"  # it runs after a checkpoint of the kind its class needs
    COPY = "copy"  # it runs in a copy of the machine
    ASK = "ask"  # a person who is there is asked
    HOLD = "hold"  # it waits for a person
    DENY = "deny"  # it does not run

    @property
    def strictness(self) -> int:
        """Orders acts."""
        return _STRICTNESS[self]


_STRICTNESS = {act: number for number, act in enumerate(Act)}

DEFAULTS: Mapping[str, Act] = {
    "none": Act.ALLOW,
    "files": Act.CHECKPOINT,
    "state": Act.CHECKPOINT,
    "machine.opaque": Act.CHECKPOINT,
    "machine.system": Act.CHECKPOINT,
    "machine.destroys": Act.ASK,
    "outside": Act.HOLD,
}


def key(cls: Class, reason: Reason | None) -> str:
    """Return the name a policy has for a class: `files`, `machine.destroys`."""
    if cls is Class.MACHINE:
        return f"machine.{(reason or Reason.OPAQUE).value}"
    return str(cls)


@dataclass(frozen=True)
class Rule:
    """An act for commands of a form; `cls` narrows it to effects of one class (`machine`, `machine.system`)."""

    match: tuple[str, ...]
    act: Act
    cls: str = ""
    where: str = ""  # the file and line it stands in

    def covers(self, name: str) -> bool:
        """Whether it is for effects of this class at all."""
        return not self.cls or name == self.cls or name.startswith(self.cls + ".")

    @property
    def text(self) -> str:
        """The form as it is written."""
        return " ".join(self.match)


@dataclass(frozen=True)
class Hosts:
    """Hosts, as globs: what writes to an allowed one gets `act`, and nothing goes to a denied one."""

    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    act: Act = Act.CHECKPOINT
    where: str = ""


@dataclass(frozen=True)
class Branches:
    """Branches, as globs: what rewrites or deletes a protected one is at least `act`.

    With `commits`, what adds to it as well.
    """

    protected: tuple[str, ...] = ()
    commits: bool = False
    act: Act = Act.ASK
    where: str = ""


@dataclass(frozen=True)
class Level:
    """What one file says. One that is not `trusted` can only make stricter."""

    name: str
    acts: Mapping[str, Act] = field(default_factory=dict)
    rules: tuple[Rule, ...] = ()
    hosts: Hosts = field(default_factory=Hosts)
    branches: Branches = field(default_factory=Branches)
    trusted: bool = True
    places: Mapping[str, str] = field(default_factory=dict)  # the file and line of each key of `acts`

    def where(self, name: str) -> str:
        """Return where the act of a class stands."""
        return self.places.get(name, self.name)


@dataclass(frozen=True)
class Policy:
    """What to do for each class and reason, by names such as `files` and `machine.destroys`.

    `acts` go before the defaults, `levels` before those: the user's first, then the project's. `branch` is checked out
    ("" when none is, None when that is not known). `notes` are for the person: what does not count, and why.
    """

    acts: Mapping[str, Act] = field(default_factory=dict)
    levels: tuple[Level, ...] = ()
    branch: str | None = None
    rollback_failed: bool = False  # whether a hook takes back a failed step
    on_error: Act = Act.DENY  # what a hook answers when takeback itself fails: deny or allow
    notify: str = ""  # a command line that is run when something is held
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Decision:
    """What is done with one step; `rule` says where that comes from."""

    act: Act
    kind: Kind | None
    why: str
    rule: str = "default"

    @property
    def runs(self) -> bool:
        """Whether the step runs without a person's word."""
        return self.act in (Act.ALLOW, Act.CHECKPOINT, Act.COPY)
