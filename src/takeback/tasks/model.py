"""The plain types of tasks: what was asked for, what an attempt came to, what is known of a task.

Does not cover: how they are kept (`record`). Object names are of the project's own repository, checkpoints of the
private store; times are nanoseconds since 1970 unless a name says seconds.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from takeback import model


class TaskOutcome(StrEnum):
    """How a task stands; of all these only `landed` is success."""

    LANDED = "landed"
    FAILED = "failed"
    HELD = "held"  # what it would do outside waits for a person, and without that it did not pass
    BUDGET = "budget"  # the money was spent before it was done
    LOGIN_EXPIRED = "login-expired"  # waits for a person, then `resume`
    INTERRUPTED = "interrupted"  # takeback itself was ended; `resume` goes on
    RUNNING = "running"


# What can be said against an attempt whose checks pass.
FLAGS = (
    "no-edits", "edited-tests", "deleted-tests", "fewer-tests", "edited-instructions", "outside", "only-formatting",
    "nested-repository", "left-out",
)  # fmt: skip


@dataclass(frozen=True)
class Wish:
    """What was asked for when the task was made; times in seconds."""

    id: str
    prompt: str
    verify: tuple[str, ...]
    agent: str
    argv: tuple[str, ...] = ()
    attempts: int = 3
    fresh: bool = False
    timeout: float | None = None
    check_timeout: float = 600.0
    budget_usd: float | None = None
    here: bool = False
    onto: str | None = None
    allow_red: bool = False
    allow: tuple[str, ...] = ()
    message: str = ""
    session: str = ""


@dataclass(frozen=True)
class Check(model.Check):
    """One check that was run, with the file that has its output."""

    output: str = ""


@dataclass(frozen=True)
class Flag:
    """Something about an attempt's changes that should be seen; `fails` when policy does not allow it."""

    name: str
    paths: tuple[str, ...] = ()
    detail: str = ""
    fails: bool = True


@dataclass
class Attempt:
    """One attempt: what it came to, and where everything about it is.

    `outcome`: running, passed, failed (a check), flagged, refused-by-hook, branch-moved, crash, timeout, refused,
    budget, usage-limit, login-expired, held, interrupted. `refunded`: it does not count.
    """

    n: int
    outcome: str = "running"
    started_ns: int = 0
    session: str = ""
    agent_outcome: str = ""
    agent_exit: int | None = None
    cost_usd: float | None = None
    words: str = ""
    detail: str = ""
    checkpoint: str = ""
    ref: str = ""
    diff: str = ""
    output: str = ""
    tree: str = ""  # what would land, as git's tree
    start_tree: str = ""  # the whole worktree before the agent began
    end_tree: str = ""
    commits: tuple[str, ...] = ()  # the agent's own, kept reachable by the checkpoint
    holds: tuple[str, ...] = ()  # outside actions of this task that waited for a person when it ended
    verify: tuple[Check, ...] = ()
    flags: tuple[Flag, ...] = ()
    refunded: bool = False
    reason: str = ""
    saved: bool = False
    judged: bool = False


@dataclass
class Task:
    """All that is known of one task."""

    wish: Wish
    created_ns: int
    root: bytes  # the tree the person was in
    base: str  # the commit it began from
    branch: str  # where it lands, without refs/heads/
    branch_tip: str = ""  # the branch's tip when it began, empty when there was no such branch
    worktree: bytes = b""
    before: str = ""  # the checkpoint before it
    ready: bool = False
    red: tuple[str, ...] = ()  # checks that failed before it began
    state: dict[str, str] = field(default_factory=dict)  # state file -> digest of the user's copy
    attempts: list[Attempt] = field(default_factory=list)
    outcome: TaskOutcome = TaskOutcome.RUNNING
    reason: str = ""
    commit: str = ""
    landed_attempt: int = 0
    landed_ns: int = 0
    revertible: bool | None = None
    revert_reason: str = ""
    rolled_back: str = ""
    cleared: bool = False
    reverted_by: str = ""
    ended: bool = False
    notes: tuple[str, ...] = ()

    @property
    def id(self) -> str:
        return self.wish.id

    @property
    def undo(self) -> str:
        """The command that takes it back, empty when there is nothing to take back."""
        return f"takeback revert {self.id}" if self.commit and not self.reverted_by else ""

    @property
    def flags(self) -> tuple[str, ...]:
        """Every flag some attempt raised, in order, once."""
        return tuple(dict.fromkeys(flag.name for attempt in self.attempts for flag in attempt.flags))

    @property
    def holds(self) -> tuple[str, ...]:
        """Every hold that some attempt left waiting, once."""
        return tuple(dict.fromkeys(id for attempt in self.attempts for id in attempt.holds))

    @property
    def counted(self) -> int:
        """How many attempts count."""
        return sum(1 for attempt in self.attempts if not attempt.refunded and attempt.outcome != "running")

    @property
    def cost_usd(self) -> float | None:
        """What the agent said it cost, None when it never said."""
        known = [attempt.cost_usd for attempt in self.attempts if attempt.cost_usd is not None]
        return sum(known) if known else None


def plain(value: Any) -> Any:
    """Return a value of these types as JSON has it; bytes as latin-1 text."""
    if isinstance(value, bytes):
        return value.decode("latin-1")
    if isinstance(value, tuple | list):
        return [plain(one) for one in value]
    if isinstance(value, dict):
        return {key: plain(one) for key, one in value.items()}
    if hasattr(value, "__dataclass_fields__"):
        return {name: plain(getattr(value, name)) for name in value.__dataclass_fields__}
    return value
