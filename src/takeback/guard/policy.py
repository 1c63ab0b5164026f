"""What is done about a step of a class: from a verdict and a policy to one act, the checkpoint, and the reason.

Pure: the policy is data (`config` reads it); whether a person is there is told. Does not cover: doing it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

from takeback.guard.model import Class, Reason, Verdict

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
        return list(Act).index(self)


@dataclass(frozen=True)
class Policy:
    """What to do for each class and reason, by names such as `files` and `machine.destroys`."""

    acts: Mapping[str, Act] = field(default_factory=dict)


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
    return f"{cls}.{reason.value}" if reason is not None else str(cls)


def decide(verdict: Verdict, policy: Policy, *, attended: bool, raised: Class | None = None) -> Decision:
    """Return what is done with a step.

    `attended`: a person can answer now. `raised`: the class an earlier such step turned out to have.
    """
    from takeback.model import Kind

    cls, reason, why = verdict.cls, verdict.reason, verdict.why
    if raised is not None and raised > cls:
        cls, reason, why = raised, None, f"{why}, but such a step changed more before"
    name = key(cls, reason)
    act = policy.acts.get(name, DEFAULTS.get(name, Act.HOLD))
    if verdict.brake:
        act, why = max(act, Act.HOLD, key=lambda one: one.strictness), "it reaches for what holds agents back"
    if act is Act.ASK and not attended:
        act = Act.HOLD
    kind = {Class.NONE: None, Class.FILES: Kind.FILES}.get(cls, Kind.STATE)
    if cls is Class.FILES and verdict.checkpoint is Kind.STATE:
        kind = Kind.STATE
    return Decision(act, None if act is Act.ALLOW else kind or Kind.FILES, why)
