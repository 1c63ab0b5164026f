"""The plain types every layer speaks: entries, checkpoints, events, plans and results.

Does not cover: behaviour. Paths are bytes, relative to the project's root, with `/` between names; times are
nanoseconds since 1970; ids carry their kind (`c12` checkpoint, `s7` step, `r8` restore, `u9` undo, `y10` redo).
"""

from __future__ import annotations

import stat
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NamedTuple


class Entry(NamedTuple):
    """What one path is: full st_mode, owner, mtime, and the id of its bytes ("" for a directory)."""

    mode: int
    uid: int
    gid: int
    mtime_ns: int
    oid: str

    @property
    def is_dir(self) -> bool:
        return stat.S_ISDIR(self.mode)

    @property
    def is_link(self) -> bool:
        return stat.S_ISLNK(self.mode)

    def same_value(self, other: Entry | None) -> bool:
        """Whether type, permission bits and bytes agree; owner and times do not count."""
        return other is not None and self.mode == other.mode and self.oid == other.oid


class Kind(StrEnum):
    """How much a checkpoint holds."""

    FILES = "files"
    STATE = "state"


class EventKind(StrEnum):
    ROOT = "root"
    CHECKPOINT = "checkpoint"
    STEP = "step"  # written when the step starts
    STEP_END = "step-end"  # targets = (step id,)
    PROMPT = "prompt"  # a person's new prompt to an agent: the mark `undo --prompt` goes back to
    RESTORE = "restore"  # targets = (checkpoint id,)
    UNDO = "undo"  # targets = events whose changes were taken back, newest first
    REDO = "redo"  # targets = events whose changes were applied again


@dataclass(frozen=True)
class Event:
    """One line of the append-only timeline.

    `before` and `after` are checkpoint ids; `worktree` is the worktree's key; `data` holds what only one kind has
    (step: `exit`, `tail`, `named` paths, `pid`, `start`; restore, undo and redo: `partial`).
    """

    seq: int
    id: str
    kind: EventKind
    at_ns: int
    worktree: str = ""
    session: str | None = None
    task: str | None = None
    before: str | None = None
    after: str | None = None
    targets: tuple[str, ...] = ()
    text: str = ""
    data: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class NotCovered:
    """A path a checkpoint does not hold, why, and the command that makes it again (or "")."""

    path: bytes
    why: str
    rebuild: str = ""


@dataclass(frozen=True)
class Checkpoint:
    """A saved state: its id, the commit in the private store, and what it holds.

    `only` names the paths a caller said could change; the rest of the tree is as last seen.
    """

    id: str
    commit: str
    kind: Kind
    at_ns: int
    worktree: str
    root: bytes
    text: str = ""
    session: str | None = None
    task: str | None = None
    files: int = 0
    only: tuple[bytes, ...] = ()


@dataclass(frozen=True)
class CheckpointResult:
    """What `checkpoint` did; `new` is false when nothing had changed and an earlier one is reused."""

    id: str
    kind: Kind
    ref: str
    tree: str
    new: bool
    files: int
    not_covered: tuple[NotCovered, ...]
    ms: float


class ChangeKind(StrEnum):
    ADDED = "added"
    DELETED = "deleted"
    MODIFIED = "modified"
    MODE = "mode"
    TYPE = "type"


@dataclass(frozen=True)
class Change:
    """One path that differs between two checkpoints; `where` is files, state, index or refs."""

    path: bytes
    kind: ChangeKind
    where: str
    before: str = ""
    after: str = ""
    added_lines: int | None = None
    deleted_lines: int | None = None


@dataclass(frozen=True)
class Action:
    """One thing a restore, undo or redo does (or would do).

    Verbs of paths: write, change, merge, delete, mode, time, mkdir, rmdir; of git state: index, move, delete, write,
    unfinished operation. `size` is in bytes of what is written.
    """

    path: bytes
    verb: str
    where: str = "files"
    size: int = 0


@dataclass(frozen=True)
class RestoreResult:
    """What a restore, undo or redo did (or would do, when `dry_run`)."""

    id: str
    dry_run: bool
    targets: tuple[str, ...]
    title: str
    age_s: float
    restored: tuple[Action, ...] = ()
    conflicts: tuple[NotCovered, ...] = ()
    shared: tuple[bytes, ...] = ()
    not_covered: tuple[NotCovered, ...] = ()
    not_undone: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    exact: bool = True
    checkpoint: str = ""
    undo_with: str = ""


@dataclass(frozen=True)
class Check:
    """One check that was run: its command, exit code (124 out of time, 128+n for signal n) and seconds."""

    cmd: str
    exit: int
    seconds: float


@dataclass(frozen=True)
class StepResult:
    """One recorded step: ids before and after, the exit code (128+n for signal n, 124 on timeout), what it changed.

    `checkpoint` is the kind that was taken, None for a step that only reads; `covers` is `project` when the step
    reached further. `rolled_back` is the undo that took a failed step back, `not_rolled_back` why that, or
    what of it, could not be.
    `escapes` are steps recorded on the way: what earlier ones had changed beyond their class.
    `hold` is the approved hold whose run this is the result of: nothing ran now.
    `tail` is the end of its output, "" when it had the terminal to itself.
    """

    id: str
    before: str
    after: str
    exit: int
    timed_out: bool
    changed: int
    ms: float
    undo_with: str
    cls: str = ""
    reason: str = ""
    checkpoint: Kind | None = None
    covers: str = "all"
    checks: tuple[Check, ...] = ()
    rolled_back: str = ""
    not_rolled_back: str = ""
    escapes: tuple[str, ...] = ()
    hold: str = ""
    tail: str = ""


@dataclass(frozen=True)
class Hooked:
    """An agent whose settings hold takeback's hooks: this project's settings, or a person's own (`user`)."""

    agent: str
    user: bool


@dataclass(frozen=True)
class Status:
    """What `takeback` alone prints."""

    protected: bool
    why: str
    root: bytes
    last_checkpoint: str
    last_checkpoint_ns: int
    steps: tuple[Event, ...]
    undo: str
    redo: str
    disk_bytes: int
    paused_until_ns: int = 0
    notes: tuple[str, ...] = ()
    holds: tuple[str, ...] = ()  # ids of those that wait for a person
    hooks: tuple[Hooked, ...] = ()


@dataclass(frozen=True)
class Finding:
    """One line of `doctor`: what was looked at, whether it is well, and the fix when it is not."""

    name: str
    ok: bool
    detail: str
    fix: str = ""


@dataclass(frozen=True)
class GcResult:
    """What `gc` removed (or would remove)."""

    dry_run: bool
    removed: tuple[str, ...]
    kept: int
    bytes_before: int
    bytes_after: int


@dataclass(frozen=True)
class Usage:
    """Disk used by one project's store, in bytes, by part."""

    total: int
    objects: int
    linked: int
    timeline: int
    worktrees: int
    checkpoints: int
