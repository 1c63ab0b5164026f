"""What is asked of a supervisor and what it tells, as records.

Times are in milliseconds, offsets in bytes of both streams together. Does not cover: bytes on the wire (`frames`).
"""

from __future__ import annotations

import os
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from takeback.machines.channel.frames import Fields, Tag, Value


@dataclass(frozen=True)
class Command:
    """A process to be started: `env` is complete, `uid`, `gid` and `groups` are numbers; timeout 0 is none.

    `session`: when it ends, everything left in its session is killed. `pty` is (columns, rows).
    """

    argv: Sequence[str | bytes]
    env: Mapping[str, str] = field(default_factory=dict)
    cwd: str | bytes = "/"
    uid: int = 0
    gid: int = 0
    groups: Sequence[int] = ()
    timeout_ms: int = 0
    stdin: bool = False
    pty: tuple[int, int] | None = None
    session: bool = True

    def fields(self) -> list[tuple[int, Value]]:
        """The body of SPAWN, without the follower."""
        found: list[tuple[int, Value]] = [(Tag.ARG, os.fsencode(arg)) for arg in self.argv]
        found += [(Tag.CWD, os.fsencode(self.cwd)), (Tag.UID, self.uid), (Tag.GID, self.gid)]
        found += [(Tag.GROUP, group) for group in self.groups]
        found += [(Tag.ENV, os.fsencode(f"{name}={value}")) for name, value in self.env.items()]
        found += [(Tag.STDIN, int(self.stdin)), (Tag.SESSION, int(self.session))]
        if self.timeout_ms:
            found.append((Tag.TIMEOUT_MS, self.timeout_ms))
        if self.pty is not None:
            found.append((Tag.PTY, struct.pack("<HH", *self.pty)))
        return found


@dataclass(frozen=True)
class Attached:
    """Answer to ATTACH."""

    version: int
    generation: int
    uptime_ms: int


@dataclass(frozen=True)
class Pong:
    """The machine's clocks, in nanoseconds."""

    wall_ns: int
    monotonic_ns: int


@dataclass(frozen=True)
class Output:
    """Bytes of one stream that begin at `offset`."""

    offset: int
    data: bytes
    stderr: bool


@dataclass(frozen=True)
class Gap:
    """Everything before `resume_at` that was not told is lost."""

    resume_at: int


@dataclass(frozen=True)
class Ended:
    """How a process ended: an exit code or a signal number, the other one is None; `total` bytes of output."""

    status: int | None
    signo: int | None
    timed_out: bool
    duration_ms: int
    total: int


Told = Output | Gap | Ended


@dataclass(frozen=True)
class Listed:
    """One entry of LIST. `argv` may be cut short; `first` is the oldest offset kept; times are wall clock."""

    id: int
    argv: tuple[bytes, ...]
    cwd: bytes
    uid: int
    pid: int
    ended: Ended | None
    started_ms: int
    ended_ms: int
    total: int
    first: int
    pty: bool
    stdin_open: bool
    stdin_total: int
    timeout_ms: int


def read_ended(fields: Fields) -> Ended:
    return Ended(
        status=fields.number(Tag.STATUS) if Tag.STATUS in fields else None,
        signo=fields.number(Tag.SIGNO) if Tag.SIGNO in fields else None,
        timed_out=bool(fields.number(Tag.TIMED_OUT)),
        duration_ms=fields.number(Tag.DURATION_MS),
        total=fields.number(Tag.TOTAL),
    )


def read_listed(ident: int, fields: Fields) -> Listed:
    return Listed(
        id=ident,
        argv=tuple(fields.all(Tag.ARG)),
        cwd=fields.data(Tag.CWD),
        uid=fields.number(Tag.UID),
        pid=fields.number(Tag.PID),
        ended=read_ended(fields) if fields.number(Tag.STATE) else None,
        started_ms=fields.number(Tag.STARTED_MS),
        ended_ms=fields.number(Tag.ENDED_MS),
        total=fields.number(Tag.TOTAL),
        first=fields.number(Tag.FIRST),
        pty=bool(fields.number(Tag.PTY)),
        stdin_open=bool(fields.number(Tag.STDIN_OPEN)),
        stdin_total=fields.number(Tag.STDIN_TOTAL),
        timeout_ms=fields.number(Tag.TIMEOUT_MS),
    )
