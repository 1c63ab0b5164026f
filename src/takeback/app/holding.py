"""Hold what cannot be taken back, and let a person approve it once, or deny it.

    hold        waiting ──approve──> approved ──it ran──> done         what an agent's identical retry is told: `answer`
                   ├──deny──> denied
                   └──its payload or the policy changed──> stale, nobody came in time──> expired

`approved` is written before anything runs: whoever is killed in between leaves a hold that was started and whose end is
not known, and that never runs again. Does not cover: what is held (`guard.policy`), or who is a person (`person`).
"""

from __future__ import annotations

import json
import os
import secrets
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from takeback import judge
from takeback.app.person import Person, hashed
from takeback.errors import HoldNotWaiting, HoldStale
from takeback.guard.model import Class, Verdict
from takeback.holds import inverses, payload
from takeback.holds.model import Answer, Hold, Ran, Request, State, Told, of_tool_call
from takeback.holds.store import HoldStore
from takeback.host import notice, proc
from takeback.redact import redacted

if TYPE_CHECKING:
    from takeback.app.opened import Opened
    from takeback.app.stepping import Stepping
    from takeback.guard.policy import Decision
    from takeback.model import StepResult

__all__ = [
    "Answer",
    "Hold",
    "Ran",
    "Request",
    "State",
    "Told",
    "answer",
    "approve",
    "deny",
    "hold",
    "list",
    "of_tool_call",
]

_TOLD_FOR = 3600 * 10**9  # after a retry was first told the result, so long an identical one is the same retry
_KEPT_FOR = 7 * 86400 * 10**9  # and so long a result or a denial waits for the first retry
_TAIL = 16 * 1024
# What is said when no inverse is known, of what stays here and of what leaves.
_UNDO = ("takeback undo, for what it changes in the project", "")


def hold(project: Opened, request: Request, verdict: Verdict, decision: Decision) -> Hold:
    """Keep an action for a person, and tell whom the settings name; an identical one that waits is used again.

    Raises Busy, DiskFull, Damaged.
    """
    settings = project._config.holds
    commands = _commands(verdict)
    rows = inverses.of(verdict)
    effects = tuple(dict.fromkeys(row.effect for row in rows))
    undone_by = inverses.in_words(rows) or _UNDO[verdict.cls is Class.OUTSIDE]
    now_payload = payload.fingerprint(request.cwd, commands, effects)
    policy = _policy(project)
    line = judge.policy(project.root).notify
    token = secrets.token_urlsafe(24) if line else ""
    again: Hold | None = None

    def make(id: str, there: Sequence[Hold]) -> tuple[Sequence[Hold], Hold | None]:
        nonlocal again
        now = time.time_ns()
        changed = [expired for one in there if (expired := _at(one, now)) is not one]
        for one in there:
            if one.request.key != request.key or _at(one, now).state is not State.WAITING:
                continue
            stale = _stale(one, now_payload, policy)
            if not stale:
                again = one
                return changed, None
            changed.append(replace(one, state=State.STALE, because=stale, ended_ns=now, token=""))
        return changed, Hold(
            id=id, request=request, cls=str(verdict.cls), reason=verdict.reason.value if verdict.reason else None,
            why=decision.why, state=State.WAITING, created_ns=now, expires_ns=now + int(settings.expire * 1e9),
            commands=commands, effects=effects, undone_by=undone_by, payload=now_payload, policy=policy,
            token=hashed(token) if token else "",
        )  # fmt: skip

    new = _store(project).add(make)
    if new is None:
        assert again is not None
        return again
    return _notify(project, new, line, token) if token else new


def answer(project: Opened, request: Request) -> Answer | None:
    """Return what an agent's retry of a held action is told, None when it is not held (so it is judged as a new one).

    Raises Busy, Damaged.
    """
    now = time.time_ns()
    policy = ""
    for one in reversed(_store(project).all()):
        if one.request.key != request.key:
            continue
        one = _at(one, now)
        if one.state in (State.STALE, State.EXPIRED) or _forgotten(one, now):
            return None
        found = payload.fingerprint(one.request.cwd, one.commands, one.effects)
        same = not payload.changes(one.payload, found) or (one.after and not payload.changes(one.after, found))
        if one.state is State.WAITING:
            policy = policy or _policy(project)
            return Answer(Told.WAITING, one) if same and one.policy == policy else None
        if one.state is State.APPROVED and one.runs_here:
            return Answer(Told.RUNNING if proc.ProcessId(*one.runner).alive() else Told.UNKNOWN, one)
        if not same:
            return None
        if one.state is State.DENIED:
            return Answer(Told.DENIED, one)
        return _give(project, one)
    return None


def approve(project: Stepping, id: str, *, person: Person, stdout_fd: int = 1) -> Ran:
    """Run a held action once, now, in its own folder and the caller's environment; its end is kept for the agent.

    A tool call that only the agent can make is not run: its next identical retry is let through.
    Raises UnknownId, HoldNotWaiting, HoldStale.
    """
    store = _store(project)
    found = store.get(id)
    now_payload = payload.fingerprint(found.request.cwd, found.commands, found.effects)
    policy = _policy(project)
    me = proc.myself()
    was: Hold = found

    def begin(one: Hold) -> Hold:
        nonlocal was
        now = time.time_ns()
        was = one = _at(one, now)
        if one.state is not State.WAITING:
            return one
        stale = _stale(one, now_payload, policy)
        if stale:
            return replace(one, state=State.STALE, because=stale, ended_ns=now, token="")
        until = now + one.expires_ns - one.created_ns
        return replace(
            one, state=State.APPROVED, started_ns=now, expires_ns=until, runner=(me.pid, me.start), by=person.how,
            token="",
        )  # fmt: skip

    begun = store.change(id, begin)
    if was.state is not State.WAITING:
        raise HoldNotWaiting(id=id, state=in_words(was))
    if begun.state is State.STALE:
        raise HoldStale(id=id, changed=begun.because)
    if not begun.runs_here:
        return Ran(begun, False)
    result = _run(project, store, begun, was, stdout_fd)
    after = payload.fingerprint(begun.request.cwd, begun.commands, begun.effects)
    done = store.change(
        id,
        lambda one: replace(
            one, state=State.DONE, ended_ns=time.time_ns(), exit=result.exit, tail=result.tail[-_TAIL:],
            step=result.id, after=after,
        ),
    )  # fmt: skip
    return Ran(done, True)


def _run(project: Stepping, store: HoldStore, begun: Hold, was: Hold, stdout_fd: int) -> StepResult:
    """Run it; when it could not even be started, because nothing can be saved before it, the hold waits again."""
    asked = begun.request
    argv = asked.argv if asked.argv is not None else (asked.shell, "-c", asked.source or "")
    started = False

    def starting() -> None:
        nonlocal started
        started = True

    try:
        return project.run(
            argv, message=asked.text, session=asked.session, task=asked.task, cwd=asked.cwd, terminal=False,
            stdout_fd=stdout_fd, starting=starting,
        )  # fmt: skip
    except BaseException:
        if not started:
            store.change(begun.id, lambda _: was)
        raise


def deny(project: Opened, id: str, because: str) -> Hold:
    """Say no to a held action; the agent's identical retry is told why.

    Also settles one that was started and whose end is not known. Raises UnknownId, HoldNotWaiting.
    """

    def end(one: Hold) -> Hold:
        now = time.time_ns()
        one = _at(one, now)
        runs = one.runs_here and proc.ProcessId(*one.runner).alive()
        if one.state is not State.WAITING and (one.state is not State.APPROVED or runs):
            raise HoldNotWaiting(id=id, state=in_words(one))
        return replace(one, state=State.DENIED, because=because, ended_ns=now, token="")

    return _store(project).change(id, end)


def list(project: Opened, all: bool = False) -> tuple[Hold, ...]:
    """Return the holds that wait or run, oldest first; with `all` also those that ended. Raises Damaged."""
    now = time.time_ns()
    return tuple(
        one for one in (_at(found, now) for found in _store(project, write=False).all()) if all or not one.ended
    )


def get(project: Opened, id: str) -> Hold:
    """Return one hold as it is now. Raises UnknownId, Damaged."""
    return _at(_store(project, write=False).get(id), time.time_ns())


def in_words(one: Hold) -> str:
    """Return the state of a hold for people."""
    if one.state is State.APPROVED and one.runs_here:
        running = proc.ProcessId(*one.runner).alive()
        return "approved, and it runs now" if running else "started, end unknown"
    if one.state is State.APPROVED:
        return "approved; the agent may do it once"
    if one.state is State.DONE:
        return "done" if one.exit is None else f"done, exit code {one.exit}"
    return one.state.value


def _store(project: Opened, *, write: bool = True) -> HoldStore:
    place = project._w.project
    if write:
        place.writable()
    return HoldStore(place.path / "holds", place.lock, project._w.settings.lock_wait)


def _at(one: Hold, now: int) -> Hold:
    """Return a hold as it is at a time: what nobody answered in time has expired."""
    open = one.state is State.WAITING or (one.state is State.APPROVED and not one.runs_here)
    if open and now >= one.expires_ns:
        return replace(one, state=State.EXPIRED, ended_ns=one.expires_ns, token="")
    return one


def _forgotten(one: Hold, now: int) -> bool:
    """Whether a result or a denial is so old that the same command is a new wish."""
    if not one.ended:
        return False
    return now > (one.told_ns + _TOLD_FOR if one.told_ns else one.ended_ns + _KEPT_FOR)


def _stale(one: Hold, now_payload: Mapping[str, str], policy: str) -> str:
    if not os.path.isdir(one.request.cwd):  # a task's tree goes with the task
        return f"the folder it was to run in is gone: {one.request.cwd}"
    changed = payload.changes(one.payload, now_payload)
    if one.policy != policy:
        changed.append("the policy changed")
    return "; ".join(changed[:8]) + (f"; {len(changed) - 8} more" if len(changed) > 8 else "")


def _give(project: Opened, one: Hold) -> Answer | None:
    """Tell a retry what became of it; what only the agent can do may be done once."""
    told = Told.DONE

    def tell(now_is: Hold) -> Hold:
        nonlocal told
        if now_is.state is State.APPROVED:
            told = Told.GO
            return replace(now_is, state=State.DONE, ended_ns=time.time_ns(), told_ns=time.time_ns() - _TOLD_FOR)
        return now_is if now_is.told_ns else replace(now_is, told_ns=time.time_ns())

    given = _store(project).change(one.id, tell)
    return Answer(told, given)


def _notify(project: Opened, one: Hold, line: str, token: str) -> Hold:
    said = {
        "schema": 1, "id": one.id, "command": redacted(one.command), "class": one.cls, "why": redacted(one.why),
        "cwd": one.request.cwd, "undone_by": one.undone_by, "session": one.request.session,
        "task": one.request.task, "agent": one.request.agent, "project": os.fsdecode(project.root),
        "created_ns": one.created_ns, "expires_ns": one.expires_ns,
    }  # fmt: skip
    wrong = notice.tell(
        line,
        json.dumps(said).encode(),
        env={"TAKEBACK_HOLD": one.id, "TAKEBACK_TOKEN": token},
        seconds=project._config.holds.notify_seconds,
    )
    if not wrong:
        return one
    return _store(project).change(one.id, lambda now_is: replace(now_is, notified=f"the notification failed: {wrong}"))


def _commands(verdict: Verdict) -> tuple[str, ...]:
    return tuple(dict.fromkeys(part.text for part in verdict.part.walk() if part.text.strip()))


def _policy(project: Opened) -> str:
    return judge.fingerprint(project.root)
