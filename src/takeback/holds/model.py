"""The plain types of holds: what was asked, the hold made of it, and what a retry is told.

Does not cover: where holds are kept (`store`), or what their payload is (`payload`).
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from takeback.redact import redacted


@dataclass(frozen=True)
class Request:
    """A step that an agent asks for, exactly: shell source, or words for no shell, or a tool call as JSON.

    `cwd` is absolute; `shell` is the program that reads `source`.
    """

    cwd: str
    source: str | None = None
    argv: tuple[str, ...] | None = None
    call: str | None = None
    shell: str = "/bin/sh"
    session: str | None = None
    task: str | None = None
    agent: str | None = None

    @property
    def text(self) -> str:
        """The command as a person reads it; secrets are still in it."""
        if self.source is not None:
            return self.source
        return " ".join(self.argv) if self.argv is not None else self.call or ""

    @property
    def key(self) -> str:
        """The same for identical requests: what would run, and where; who asks does not count."""
        said = json.dumps([self.source, self.argv, self.call, self.shell, os.path.realpath(self.cwd)])
        return hashlib.sha256(said.encode()).hexdigest()


def of_tool_call(
    call: Mapping[str, Any],
    *,
    cwd: str,
    session: str | None = None,
    task: str | None = None,
    agent: str | None = None,
) -> Request:
    """Return the request of an agent's tool call: a shell's command as such, any other by its name and input."""
    from takeback.guard.toolcalls import parts_of

    name, given, command = parts_of(call)
    where = given.get("workdir", given.get("cwd"))
    cwd = os.path.join(cwd, where) if isinstance(where, str) and where else cwd
    if isinstance(command, str):
        return Request(cwd, source=command, shell="bash", session=session, task=task, agent=agent)
    if command is not None:
        return Request(cwd, argv=tuple(command), session=session, task=task, agent=agent)
    said = json.dumps({"tool": name, "input": given}, sort_keys=True)
    return Request(cwd, call=said, session=session, task=task, agent=agent)


class State(StrEnum):
    """Where a hold is; the last four are ends."""

    WAITING = "waiting"
    APPROVED = "approved"  # it was started, or (a tool call) the agent may do it once
    DENIED = "denied"
    DONE = "done"
    STALE = "stale"  # its payload or the policy changed
    EXPIRED = "expired"


@dataclass(frozen=True)
class Hold:
    """One held action; times in nanoseconds since 1970, 0 for not yet; `command` is exact, `shown` is for people.

    `payload` has a hash for each thing the action would send or use, by name; `after` the same when it had run.
    """

    id: str
    request: Request
    cls: str
    reason: str | None
    why: str
    state: State
    created_ns: int
    expires_ns: int
    commands: tuple[str, ...] = ()  # the single commands in it, as the guard read them
    effects: tuple[str, ...] = ()  # names in the table of inverses
    undone_by: str = ""  # what takes it back, and for how long that works
    payload: Mapping[str, str] = field(default_factory=dict)
    after: Mapping[str, str] = field(default_factory=dict)
    policy: str = ""
    token: str = ""  # hash of the token that the notification command was given
    notified: str = ""  # what went wrong with it
    started_ns: int = 0
    runner: tuple[int, str] = (0, "")  # process id and start time of who runs it
    ended_ns: int = 0
    told_ns: int = 0  # when the agent's retry was first given the result
    by: str = ""  # how the person was known: terminal, token
    step: str = ""
    exit: int | None = None
    tail: str = ""
    because: str = ""  # of a denial, or what made it stale

    @property
    def command(self) -> str:
        """The exact command; secrets are still in it."""
        return self.request.text

    @property
    def runs_here(self) -> bool:
        """Whether an approval can run it; another tool call of an agent is let through once instead."""
        return self.request.call is None

    @property
    def ended(self) -> bool:
        """Whether nothing more can come of it."""
        return self.state in (State.DENIED, State.DONE, State.STALE, State.EXPIRED)


class Told(StrEnum):
    """What an agent's identical retry is told."""

    WAITING = "waiting"
    DENIED = "denied"
    DONE = "done"  # it ran; its result comes with the answer, and nothing runs now
    RUNNING = "running"
    UNKNOWN = "unknown"  # it was started, and whoever ran it died
    GO = "go"  # approved, and only the agent can do it: this once


@dataclass(frozen=True)
class Answer:
    """What the retry of a held action is told; only with GO it may run."""

    told: Told
    hold: Hold

    @property
    def runs(self) -> bool:
        """Whether the step may run now."""
        return self.told is Told.GO

    @property
    def text(self) -> str:
        """The answer in words, for the model; secrets are blanked."""
        id = self.hold.id
        if self.told is Told.WAITING:
            return f"held as {id}: a person must approve it (takeback approve {id}); go on with other work meanwhile"
        if self.told is Told.DENIED:
            because = f": {redacted(self.hold.because)}" if self.hold.because else ""
            return f"a person denied this ({id}){because}"
        if self.told is Told.RUNNING:
            return f"approved as {id}, and it runs now; ask again for its result"
        if self.told is Told.UNKNOWN:
            return f"approved as {id} and started, but its end is not known; a person must look what it did"
        if self.told is Told.GO:
            return f"approved as {id}"
        tail = redacted(self.hold.tail)
        output = f"; its output ended with:\n{tail}" if tail else ""
        return (
            f"a person approved this as {id}, and it ran once with exit code {self.hold.exit}; nothing ran now{output}"
        )


@dataclass(frozen=True)
class Ran:
    """What an approval did: the hold as it is now, and whether it ran here (else the agent may do it once)."""

    hold: Hold
    ran: bool
