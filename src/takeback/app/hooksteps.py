"""Steps that hooks record: begun by one process, ended by another, or by none.

What is open is noted beside the timeline, by session and call; when that note is lost, a step is closed as one without
an owner is (docs/design/0002). Does not cover: whether a step may run (`hooked`).
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from takeback import judge
from takeback.app import holding
from takeback.app.finding import below
from takeback.app.guarding import Guarding, Judged
from takeback.app.hooked import Call
from takeback.files import checkpoint as checkpoints
from takeback.files import names, steps, views
from takeback.guard.model import Class, Verdict
from takeback.holds.model import Told, of_tool_call
from takeback.model import Event, EventKind, Kind, StepResult
from takeback.timeline.fold import Timeline, fold

_MOST_OPEN = 64
_MOST_NAMED = 12
_REVERSALS = (EventKind.UNDO, EventKind.REDO, EventKind.RESTORE)


class HookSteps(Guarding):
    """A project as hooks see it."""

    @property
    def paused(self) -> bool:
        """Whether a person said that nothing is saved for a while."""
        return bool(self._paused_until())

    @property
    def data(self) -> Path:
        """The data directory."""
        return self._config.data

    def decided(self, call: Call, verdict: Verdict) -> Judged:
        """Return what is done about a call of this class."""
        return self._decided(verdict, call.text, call.attended)

    def held(self, call: Call, judged: Judged) -> str:
        """Keep a call for a person and say so, or what became of it; empty when it was approved and may run now."""
        given = {"tool_name": call.tool_name, "tool_input": dict(call.tool_input)}
        request = of_tool_call(given, cwd=call.cwd, session=_session(call), agent=call.host)
        told = holding.answer(self, request)
        if told is None:
            made = holding.hold(self, request, judged.verdict, judged.decision)
            told = holding.Answer(Told.WAITING, made)
        return "" if told.runs else told.text

    def begin(self, call: Call, judged: Judged, named: Sequence[bytes]) -> str:
        """Take the checkpoint before a step, if it needs one, and record its beginning."""
        kind = judged.decision.kind
        step, _ = self._begin_of(
            kind, call.text, _session(call), None, self._named(call, named), {**judged.about(), "agent": call.host},
            owned=False, keep_history=judged.reaches_history,
        )  # fmt: skip
        with self._noting(call) as noted:
            note = {"step": step.id, "before": step.before, "kind": kind}
            noted["open"].setdefault(_key(call), []).append(note)
            for key in list(noted["open"])[:-_MOST_OPEN]:
                del noted["open"][key]
        return step.id

    def end(self, call: Call, verdict: Verdict, *, exit: int | None, failed: bool, named: Sequence[bytes]) -> str:
        """Take the checkpoint after a step and record its end; one whose beginning no hook saw is recorded whole."""
        with self._noting(call) as noted:
            waiting = noted["open"].get(_key(call), [])
            note = waiting.pop() if waiting else None  # an older one of the same key was refused by the host
            if not waiting:
                noted["open"].pop(_key(call), None)
        if note is None:
            return "" if verdict.cls is Class.NONE else self._missed(call, exit, named)
        if call.goes_on:
            return ""  # the next event of the session ends it
        after = self._close(note, call, exit, failed)
        if failed and note["before"] != after and judge.policy(self.root).rollback_failed:
            return self._rolled_back(note, call, exit, after)
        return ""

    def close_open(self, call: Call) -> None:
        """Close the steps of a session that nobody ended; those that run on in the background stay open."""
        with self._noting(call) as noted:
            left = [note for waiting in noted["open"].values() for note in waiting]
            noted["open"] = {}
        for note in left:
            self._close(note, call, None, False)

    def _timeline(self) -> Timeline:
        """The timeline as it is: steps without an owner stay open, for their agents may still be at them."""
        self._recorder.sync()
        return fold(self._store.events())

    def _close(self, note: dict[str, Any], call: Call, exit: int | None, failed: bool) -> str:
        step = steps.Open(note["step"], note["before"], _session(call), None)
        code = exit if exit is not None else 1 if failed else None
        data: dict[str, object] = {} if code is None else {"exit": code}
        kind = None if note["kind"] is None else Kind(note["kind"])
        return self._finish_of(kind, step, data)[0]

    def _rolled_back(self, note: dict[str, Any], call: Call, exit: int | None, after: str) -> str:
        result = StepResult(note["step"], note["before"], after, exit or 1, False, 0, 0, "")
        result = self._roll_back(result, _session(call), None)
        if not result.rolled_back:
            return f"takeback: the step failed, and could not be taken back: {result.not_rolled_back}"
        return (
            f"takeback: the step failed and was taken back, nothing of it is left ({result.rolled_back}). What it said"
            " above is all that remains of it; read files again before you go on."
        )

    def ready(self, call: Call) -> str:
        """See to it that there is a checkpoint, and say which is the last one."""
        with self._noting(call) as noted:
            noted["told"] = self._store.last_seq
        with self._working("checkpoint"):
            self._recorder.sync()
            last = self._w.cursor.last
            if last and self._store.checkpoint(last) is not None:
                return f"last checkpoint {last}"
            made = checkpoints.take(self._w, self._recorder, text="", session=_session(call))
            return f"first checkpoint {made.id}, {made.files} files"

    def prompted(self, call: Call, text: str) -> str:
        """Record a prompt; returns which files were put back or forward since the session's last turn."""
        with self._noting(call) as noted:
            last = self._store.last_seq
            told, noted["told"] = last if noted["told"] is None else int(noted["told"]), last
        self._sync()
        sentences = self._changed_since(told)
        self.mark_prompt(text[:200], session=_session(call))
        return "\n".join(sentences)

    def _changed_since(self, seq: int) -> list[str]:
        found = []
        for event in list(self._store.events(seq)):
            if event.worktree != self._w.dir.key or event.kind not in _REVERSALS:
                continue
            _, _, changes = views.show(self._w, self._store, event.id, self._checkpoint)
            paths = sorted({names.show(change.path) for change in changes})
            if not paths:
                continue
            more = f" and {len(paths) - _MOST_NAMED} more" if len(paths) > _MOST_NAMED else ""
            verb = {EventKind.UNDO: "took back", EventKind.REDO: "applied again"}.get(event.kind, "put the files to")
            found.append(
                f"takeback: since your last turn the person {verb} {' '.join(event.targets)}. These are not as you"
                f" last saw them, read them again: {', '.join(paths[:_MOST_NAMED])}{more}."
            )
        return found

    def _missed(self, call: Call, exit: int | None, named: Sequence[bytes]) -> str:
        """Record a step that nobody saw begin: what changed since the last checkpoint is taken for its doing."""
        with self._working("step", remake=True):
            self._recorder.sync()
            last = self._w.cursor.last
            before = self._store.checkpoint(last) if last else None
            after = checkpoints.take(
                self._w, self._recorder, text=f"after: {call.text}", session=_session(call), own=before is not None
            )
        if before is None or before.id == after.id:
            return ""
        data: dict[str, Any] = {"named": self._named(call, named), "missed": True}
        if exit is not None:
            data["exit"] = exit
        event = self._recorder.event(
            EventKind.STEP,
            lambda id: Event(
                seq=0, id=id, kind=EventKind.STEP, at_ns=time.time_ns(), worktree=self._w.dir.key,
                session=_session(call), before=before.id, after=after.id, text=call.text, data=data,
            ),
        )  # fmt: skip
        return (
            f"takeback: its hook did not run before this step. It is recorded as {event.id} all the same; tell the"
            " person that `takeback doctor` says what is wrong."
        )

    def _named(self, call: Call, written: Sequence[bytes]) -> list[bytes]:
        found = set(self._relative(written))
        if call.command is not None:
            cwd = os.path.realpath(os.fsencode(call.cwd))
            found.update(steps.named_paths([], call.command, cwd, self.root))
        return sorted(found)

    def _relative(self, paths: Sequence[bytes]) -> list[bytes]:
        result = []
        for path in paths:
            above, name = os.path.split(os.path.normpath(path))
            full = os.path.join(os.path.realpath(above), name)
            if below(full, self.root) and full != self.root:
                result.append(os.path.relpath(full, self.root))
        return sorted(set(result))

    @contextmanager
    def _noting(self, call: Call) -> Iterator[dict[str, Any]]:
        """Give the notes of a session to be changed, while no other hook changes them."""
        with self._store.transaction():
            noted: dict[str, Any] = {"open": {}, "told": None}
            try:
                noted.update(json.loads(self._store.get_meta(_meta(call)) or "{}"))
            except ValueError:
                pass
            yield noted
            self._store.set_meta(_meta(call), json.dumps(noted))


def _session(call: Call) -> str:
    # The end of it: of ids that begin with their time, two sessions of one minute share the beginning.
    return f"{call.host}-{call.session[-8:]}" if call.session else call.host


def _meta(call: Call) -> str:
    return f"agent {call.host} {call.session}"


def _key(call: Call) -> str:
    """Return what tells a call from others of its session, also where the host gives it no id."""
    if call.call_id:
        return call.call_id
    given = json.dumps([call.tool_name, dict(call.tool_input)], sort_keys=True, default=str)
    return hashlib.sha256(given.encode("utf-8", "replace")).hexdigest()[:20]
