"""The record of a task: an append-only file of lines, each synced before what comes after it begins.

```
tasks/ID/record.jsonl    CRC32 SP JSON LF, the CRC (eight hex digits) of the JSON's bytes
         lock            held by whoever works on the task
         attempt-2.diff  attempt-2.out  attempt-2.check-1.out  state/
```

A last line that is torn was never there; another that is damaged ends the reading, and the task is named damaged.
Does not cover: doing anything (`run`, `revert`), or what git knows of a task (`landed`).
"""

from __future__ import annotations

import json
import os
import re
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from takeback.errors import Damaged, TaskExists, TaskLanded, UnknownId, UsageError
from takeback.host import atomic, locks
from takeback.tasks.model import Attempt, Check, Flag, Task, TaskOutcome, Wish, plain

FORMAT = 1
_ID = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,62}[A-Za-z0-9_-])?")
_WAIT = 5.0


def check_id(id: str) -> str:
    """Return a task's id without `t:`. Raises UsageError for what cannot be one."""
    id = id.removeprefix("t:")
    if not _ID.fullmatch(id) or ".." in id or id.endswith(".lock"):
        raise UsageError(detail=f"{id!r} cannot be a task's id: letters, digits, `.`, `_` and `-`, at most 64")
    return id


@dataclass(frozen=True)
class Folder:
    """Where everything about one task is."""

    path: Path
    id: str

    @property
    def record(self) -> Path:
        return self.path / "record.jsonl"

    @property
    def state(self) -> Path:
        return self.path / "state"

    def diff(self, n: int) -> Path:
        return self.path / f"attempt-{n}.diff"

    def output(self, n: int) -> Path:
        return self.path / f"attempt-{n}.out"

    def check(self, n: int, number: int) -> Path:
        return self.path / f"attempt-{n}.check-{number}.out"

    def worktree(self, root: bytes) -> bytes:
        """Return where the task's tree is; its last name is the project's, which programs show."""
        name = os.path.basename(root) or b"tree"
        return os.path.join(os.fsencode(self.path), b"tree", name)

    @contextmanager
    def working(self, what: str) -> Iterator[None]:
        """Hold the task. Raises Busy while another process works on it."""
        with locks.held(self.path / "lock", what=what, wait=_WAIT):
            yield

    def is_running(self) -> bool:
        """Whether a process works on it now."""
        return locks.is_held(self.path / "lock")

    def append(self, event: str, **fields: Any) -> None:
        """Add a line and see that it is on the disk; a torn line before it is cut off first."""
        body = json.dumps({"event": event, **plain(fields)}, ensure_ascii=True).encode()
        line = b"%08x " % zlib.crc32(body) + body + b"\n"
        fd = os.open(self.record, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            end = _whole(os.pread(fd, os.fstat(fd).st_size, 0))
            os.ftruncate(fd, end)
            os.pwrite(fd, line, end)
            os.fsync(fd)
        finally:
            os.close(fd)

    def events(self) -> list[dict[str, Any]]:
        """Return the lines that are whole. Raises Damaged when one in the middle is not."""
        try:
            raw = self.record.read_bytes()
        except FileNotFoundError:
            return []
        found = []
        for number, line in enumerate(raw[: _whole(raw)].splitlines(), 1):
            body = line[9:]
            if line[:9] != b"%08x " % zlib.crc32(body):
                raise Damaged(
                    what=os.fspath(self.record), detail=f"line {number} has another checksum",
                    next="the commits and checkpoints of the task are not touched; move the file away",
                )  # fmt: skip
            found.append(json.loads(body))
        return found

    def task(self) -> Task | None:
        """Return the task as its record tells it, None when it was never begun. Raises Damaged."""
        events = self.events()
        return fold(events) if events else None


def _whole(raw: bytes) -> int:
    return raw.rfind(b"\n") + 1


class Tasks:
    """All tasks of one project."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def make(self, id: str) -> Folder:
        """Make the folder of a new task. Raises TaskExists."""
        folder = Folder(self.path / id, id)
        self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        try:
            folder.path.mkdir(mode=0o700)
        except FileExistsError:
            if folder.record.exists():
                more = "" if _has_ended(folder) else f", `takeback task resume {id}` goes on with it"
                raise TaskExists(id=id, more=more) from None  # else a command died between these two lines
        return folder

    def folder(self, id: str) -> Folder:
        """Return the folder of a task that is there. Raises UnknownId."""
        id = check_id(id)
        folder = Folder(self.path / id, id)
        if not folder.record.exists():
            import difflib

            known = [one.id for one in self.all()]
            near = difflib.get_close_matches(id, known, 3, 0.3)
            raise UnknownId(
                what="task", id=id,
                nearest=f"nearest: {', '.join(near)}" if near else "`takeback tasks` lists them all",
            )  # fmt: skip
        return folder

    def get(self, id: str) -> Task:
        """Return a task. Raises UnknownId, Damaged."""
        task = self.folder(id).task()
        assert task is not None
        return task

    def all(self) -> list[Folder]:
        """Return the folders of all tasks, oldest first."""
        if not self.path.is_dir():
            return []
        found = [Folder(one, one.name) for one in self.path.iterdir() if (one / "record.jsonl").exists()]
        return sorted(found, key=lambda one: (_created(one), one.id))

    def tasks(self) -> list[Task]:
        """Return all tasks whose records can be read, oldest first."""
        found = []
        for folder in self.all():
            try:
                task = folder.task()
            except Damaged:
                continue
            if task is not None:
                found.append(task)
        return sorted(found, key=lambda one: one.created_ns)

    def refuse_landed(self, id: str) -> None:
        """Raise TaskLanded for a task whose commit is there: an undo of its steps would not take that back."""
        if not _ID.fullmatch(id) or not (self.path / id / "record.jsonl").exists():
            return
        task = self.get(id)
        if task.commit and not task.reverted_by:
            raise TaskLanded(id=id, commit=task.commit[:12])

    def checkpoint_of(self, name: str) -> str:
        """Return the checkpoint of an attempt: `t:name/2`, or `t:name` for the last one. Raises UnknownId."""
        id, _, number = name.removeprefix("t:").partition("/")
        found = [one for one in self.get(id).attempts if one.checkpoint and number in ("", str(one.n))]
        if not found:
            raise UnknownId(what="attempt", id=name, nearest=f"`takeback attempts {id}` lists them")
        return found[-1].checkpoint

    def checkpoints(self) -> set[str]:
        """Return the checkpoints that tasks name: evidence, which `gc` keeps."""
        found = set()
        for task in self.tasks():
            found |= {task.before, *(attempt.checkpoint for attempt in task.attempts)}
        return found - {""}


def _has_ended(folder: Folder) -> bool:
    try:
        task = folder.task()
    except Damaged:
        return True  # nothing can go on with it
    return task is None or task.ended


def _created(folder: Folder) -> int:
    try:
        with open(folder.record, "rb") as file:
            return int(json.loads(file.readline()[9:])["at_ns"])
    except (OSError, ValueError, KeyError):
        return 0


def save(path: Path, data: bytes) -> None:
    """Write a file of evidence, whole or not at all."""
    atomic.write_bytes(path, data, durable=False)


def fold(events: list[dict[str, Any]]) -> Task:
    """Return what the lines of a record come to."""
    first = events[0]
    wish: dict[str, Any] = first["wish"]
    known = Wish.__dataclass_fields__
    asked: dict[str, Any] = {name: tuple(v) if isinstance(v, list) else v for name, v in wish.items() if name in known}
    task = Task(
        wish=Wish(**asked),
        created_ns=int(first["at_ns"]), root=first["root"].encode("latin-1"), base=first["base"],
        branch=first["branch"], branch_tip=first["branch_tip"], worktree=first["worktree"].encode("latin-1"),
    )  # fmt: skip
    for event in events[1:]:
        _apply(task, event)
    return task


def _apply(task: Task, event: dict[str, Any]) -> None:
    kind = event["event"]
    if kind == "ready":
        task.before, task.red, task.state = event["before"], tuple(event["red"]), event["state"]
        task.ready = True
        task.notes = tuple(event.get("notes", ()))
    elif kind == "attempt":
        task.attempts.append(
            Attempt(event["n"], started_ns=event["at_ns"], session=event["session"], start_tree=event["start_tree"])
        )
        task.outcome, task.reason = TaskOutcome.RUNNING, ""
    elif kind in ("agent", "saved", "checked", "judged"):
        attempt = next(one for one in task.attempts if one.n == event["n"])
        for name, value in event.items():
            if name == "verify":
                attempt.verify = tuple(Check(**one) for one in value)
            elif name == "flags":
                attempt.flags = tuple(Flag(**{**one, "paths": tuple(one["paths"])}) for one in value)
            elif name in ("commits", "holds"):
                setattr(attempt, name, tuple(value))
            elif name in Attempt.__dataclass_fields__ and name != "n":
                setattr(attempt, name, value)
        attempt.saved |= kind == "saved"
        attempt.judged |= kind == "judged"
    elif kind == "landed":
        task.commit, task.landed_attempt, task.outcome = event["commit"], event["n"], TaskOutcome.LANDED
        task.landed_ns, task.reason = event["at_ns"], ""
    elif kind == "trial":
        task.revertible, task.revert_reason = event["revertible"], event["reason"]
    elif kind == "rolled-back":
        task.rolled_back = event["checkpoint"]
    elif kind == "stopped":
        task.outcome, task.reason = TaskOutcome(event["outcome"]), event["reason"]
    elif kind == "cleared":
        task.cleared = True
    elif kind == "ended":
        task.ended = True
        task.outcome, task.reason = TaskOutcome(event["outcome"]), event["reason"]
    elif kind == "reverted":
        task.reverted_by = event["commit"]
