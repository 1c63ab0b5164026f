"""What the guard says of a step: its class, the effects that make it, and how the command was read.

Does not cover: what is done about a class (policy), or how effects are found.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum, IntEnum, StrEnum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from takeback.model import Kind


class Class(IntEnum):
    """How far a step reaches, from light to heavy, and so how it can be taken back."""

    NONE = 0
    FILES = 1
    STATE = 2
    MACHINE = 3
    OUTSIDE = 4

    def __str__(self) -> str:
        return self.name.lower()


class Reason(StrEnum):
    """Why a step is of class `machine`."""

    OPAQUE = "opaque"  # what it does cannot be seen: tests, builds, scripts, dev servers
    SYSTEM = "system"  # installs outside the project, containers, services, processes
    DESTROYS = "destroys"  # deletes or overwrites outside the project, disks, volumes, local databases


class What(StrEnum):
    """What kind of thing an effect touches."""

    READ = "read"
    WRITE = "write"
    DELETE = "delete"
    REFS = "refs"  # refs, index, stash and work tree of a repository
    METADATA = "metadata"  # .git/config, hooks, whatever a commit does not hold
    PROCESS = "process"
    SERVICE = "service"
    PACKAGE = "package"
    NETWORK = "network"
    DATABASE = "database"
    CODE = "code"  # something runs that was not looked into
    SHELL = "shell"  # a shell or an interpreter is opened, and what is typed into it is not seen
    BRAKE = "brake"  # takeback's own data, policy and settings, and the agents' hook settings


@dataclass(frozen=True, slots=True)
class Effect:
    """One thing a step does; `why` is a plain sentence without a full stop."""

    cls: Class
    what: What
    why: str
    target: str = ""  # a path, a host, a database
    method: str = ""  # of HTTP
    reason: Reason | None = None

    @property
    def weight(self) -> tuple[int, int]:
        """Orders effects: class first, then what is hardest to take back."""
        return (self.cls, _REASONS.index(self.reason))


_REASONS = (None, Reason.SYSTEM, Reason.OPAQUE, Reason.DESTROYS)


class Deed(Enum):
    """A class together with its reason, as rules name it."""

    NONE = (Class.NONE, None)
    FILES = (Class.FILES, None)
    STATE = (Class.STATE, None)
    OPAQUE = (Class.MACHINE, Reason.OPAQUE)
    SYSTEM = (Class.MACHINE, Reason.SYSTEM)
    DESTROYS = (Class.MACHINE, Reason.DESTROYS)
    OUTSIDE = (Class.OUTSIDE, None)


@dataclass(slots=True)
class Part:
    """One command as it was read: its text, how it is reached, what it does, and what runs inside it.

    `words` is the command as its program gets it, or the name of a tool; none for what is no command. Variables
    that are set before it stand there only if they do something.
    """

    text: str
    how: str = ""
    effects: list[Effect] = field(default_factory=list)
    parts: list[Part] = field(default_factory=list)
    words: tuple[str, ...] = ()

    def walk(self) -> Iterator[Part]:
        """Yield this part and all below it, in the order they are read."""
        stack = [self]
        while stack:
            part = stack.pop()
            yield part
            stack.extend(reversed(part.parts))


@dataclass(frozen=True)
class Verdict:
    """The answer: the class is the maximum over all effects."""

    cls: Class
    reason: Reason | None
    effects: tuple[Effect, ...]
    part: Part

    @property
    def why(self) -> str:
        """The heaviest effect in plain words."""
        return max(self.effects, key=lambda effect: effect.weight).why if self.effects else "reads only"

    @property
    def checkpoint(self) -> Kind | None:
        """The lightest checkpoint to take before the step; of `machine` it covers the project only."""
        # Here, because the hook asks for a class in a process of its own, and that module takes its time.
        from takeback.model import Kind

        if self.cls is Class.FILES and any(effect.target.endswith(".gitignore") for effect in self.effects):
            return Kind.STATE  # which files are seen, and which ignored, changes under the step
        return {Class.FILES: Kind.FILES, Class.STATE: Kind.STATE, Class.MACHINE: Kind.STATE}.get(self.cls)

    @property
    def brake(self) -> bool:
        """Whether the step reaches for what holds agents back: such a step waits for a person."""
        return any(effect.what is What.BRAKE for effect in self.effects)

    def as_dict(self) -> dict[str, Any]:
        """Return the verdict in plain types, for JSON."""
        return {
            "class": str(self.cls),
            "reason": self.reason.value if self.reason else None,
            "why": self.why,
            "checkpoint": self.checkpoint.value if self.checkpoint else None,
            "brake": self.brake,
            "effects": [
                {
                    "class": str(effect.cls),
                    "what": effect.what.value,
                    "target": effect.target,
                    "method": effect.method,
                    "reason": effect.reason.value if effect.reason else None,
                    "why": effect.why,
                }
                for effect in self.effects
            ],
        }


def verdict(part: Part) -> Verdict:
    """Sum up a part and all below it."""
    seen: dict[Effect, None] = {}
    for one in part.walk():
        seen.update(dict.fromkeys(one.effects))
    effects = tuple(seen)
    if not effects:
        return Verdict(Class.NONE, None, (), part)
    heaviest = max(effects, key=lambda effect: effect.weight)
    return Verdict(heaviest.cls, heaviest.reason, effects, part)
