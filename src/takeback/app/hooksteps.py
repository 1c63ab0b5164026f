"""Steps that hooks record: begun by one process, ended by another, or by none.

What is open is noted beside the timeline, by session and call; when that note is lost, a step is closed as one without
an owner is (docs/design/0002). Does not cover: whether a step may run (`hooked`).
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from takeback.app.finding import below
from takeback.app.hooked import Call
from takeback.app.opened import Opened
from takeback.files import checkpoint as checkpoints
from takeback.files import names, steps, views
from takeback.model import Event, EventKind

_MOST_OPEN = 64
_MOST_NAMED = 12
_REVERSALS = (EventKind.UNDO, EventKind.REDO, EventKind.RESTORE)


class HookSteps(Opened):
    """A project as hooks see it."""

    @property
    def paused(self) -> bool:
        """Whether a person said that nothing is saved for a while."""
        return bool(self._paused_until())

    @property
    def data(self) -> Path:
        """The data directory."""
        return self._config.data

    def begin(self, call: Call, *, named: Sequence[bytes], only: Sequence[bytes] | None, state: bool) -> str:
        """Take the checkpoint before a step and record its beginning."""
        own = self._named(call, named)
        limited = self._relative(only) if only is not None else None
        with self._working("step"):
            self._recorder.sync()
            # Not `_timeline`: it would close the open steps of other sessions, whose agents are still at them.
            step = steps.begin(
                self._w, self._recorder, text=call.text, session=_session(call), task=None, named=own, state=state,
                owner=None, only=limited or None,
            )  # fmt: skip
            noted = self._noted(call)
            note = {"step": step.id, "before": step.before, "state": state, "on": call.goes_on}
            if limited:
                note["only"] = [path.decode("latin-1") for path in limited]
            noted["open"].setdefault(_key(call), []).append(note)
            for key in list(noted["open"])[:-_MOST_OPEN]:
                del noted["open"][key]
            self._note(call, noted)
        return step.id

    def end(self, call: Call, *, exit: int | None, failed: bool, named: Sequence[bytes]) -> str:
        """Take the checkpoint after a step and record its end; one whose beginning no hook saw is recorded whole."""
        with self._working("step", remake=True):
            self._recorder.sync()
            noted = self._noted(call)
            waiting = noted["open"].get(_key(call), [])
            if not waiting:
                return self._missed(call, exit, named)
            note = waiting.pop()  # an older one of the same key was refused by the host
            if not waiting:
                del noted["open"][_key(call)]
            if call.goes_on:
                noted["on"] = [*noted["on"], note][-_MOST_OPEN:]
            else:
                self._finish(call, note, exit, failed)
            self._note(call, noted)
        return ""

    def close_open(self, call: Call) -> None:
        """Close the steps of a session that nobody ended; those that run on in the background stay open."""
        with self._working("step", remake=True):
            noted = self._noted(call)
            if not noted["open"]:
                return
            self._recorder.sync()
            for waiting in noted["open"].values():
                for note in waiting:
                    self._finish(call, note, None, False)
            noted["open"] = {}
            self._note(call, noted)

    def ready(self, call: Call) -> str:
        """See to it that there is a checkpoint, and say which is the last one."""
        with self._working("checkpoint"):
            self._recorder.sync()
            noted = self._noted(call)
            noted["told"] = self._store.last_seq
            self._note(call, noted)
            last = self._w.cursor.last
            if last and self._store.checkpoint(last) is not None:
                return f"last checkpoint {last}"
            made = checkpoints.take(self._w, self._recorder, text="", session=_session(call))
            return f"first checkpoint {made.id}, {made.files} files"

    def prompted(self, call: Call, text: str) -> str:
        """Record a prompt; returns which files were put back or forward since the session's last turn."""
        with self._working("prompt"):
            self._recorder.sync()
            noted = self._noted(call)
            told = int(noted["told"] or self._store.last_seq)
            sentences = self._changed_since(told)
            self._recorder.event(
                EventKind.PROMPT,
                lambda id: Event(
                    seq=0, id=id, kind=EventKind.PROMPT, at_ns=time.time_ns(), worktree=self._w.dir.key,
                    session=_session(call), text=text[:200],
                ),
            )  # fmt: skip
            noted["told"] = self._store.last_seq
            self._note(call, noted)
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

    def _finish(self, call: Call, note: dict[str, Any], exit: int | None, failed: bool) -> str:
        step = steps.Open(note["step"], note["before"], _session(call), None)
        code = exit if exit is not None else 1 if failed else None
        only = [path.encode("latin-1") for path in note["only"]] if note.get("only") else None
        data: dict[str, object] = {} if code is None else {"exit": code}
        return steps.finish(self._w, self._recorder, step, state=note["state"], data=data, only=only)

    def _missed(self, call: Call, exit: int | None, named: Sequence[bytes]) -> str:
        """Record a step that nobody saw begin: what changed since the last checkpoint is taken for its doing."""
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

    def _noted(self, call: Call) -> dict[str, Any]:
        fresh: dict[str, Any] = {"open": {}, "on": [], "told": 0}
        try:
            return {**fresh, **json.loads(self._store.get_meta(_meta(call)) or "{}")}
        except ValueError:
            return fresh

    def _note(self, call: Call, noted: dict[str, Any]) -> None:
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
