"""Survive a kill between any two writes of a restore, undo or redo.

The whole plan is on disk before the first write and leaves after the timeline has the event. A plan names wanted
values, not steps, so carrying it out again from anywhere gives the same tree.
Does not cover: checkpoints, which change nothing that could be half done.
"""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import asdict, dataclass, field
from typing import Any

from takeback.errors import Damaged
from takeback.files.gitrestore import GitPlan
from takeback.files.listing import STAGE
from takeback.files.plan import Plan
from takeback.files.workspace import Workspace
from takeback.host import atomic
from takeback.model import Entry, EventKind

_FORMAT = 1


@dataclass(frozen=True)
class Journal:
    """One operation under way: its plan, its own checkpoint, and the event it will become."""

    plan: Plan
    kind: EventKind
    own: str
    targets: tuple[str, ...]
    text: str
    session: str | None = None
    task: str | None = None
    data: dict[str, Any] = field(default_factory=dict)
    seq: int = 0  # the newest event when it began: its own comes after


def write(workspace: Workspace, journal: Journal) -> None:
    """Put the journal on disk; after this the operation will be finished by whoever comes next."""
    plan = journal.plan
    doc = {
        "format": _FORMAT,
        "kind": journal.kind.value,
        "own": journal.own,
        "targets": journal.targets,
        "text": journal.text.encode("utf-8", "surrogateescape").decode("latin-1"),
        "session": journal.session,
        "task": journal.task,
        "data": journal.data,
        "seq": journal.seq,
        "paths": [[path.decode("latin-1"), now, want] for path, (now, want) in plan.paths.items()],
        "folder_times": [[path.decode("latin-1"), time] for path, time in plan.folder_times.items()],
        "rebuild_git": plan.rebuild_git,
        "fresh_times": plan.fresh_times,
        "git": {**asdict(plan.git), "index": [[p.decode("latin-1"), v] for p, v in plan.git.index.items()]},
    }
    atomic.write_bytes(workspace.dir.journal, json.dumps(doc).encode())


def clear(workspace: Workspace) -> None:
    """Take the journal away: the operation is over."""
    workspace.dir.journal.unlink(missing_ok=True)


def read(workspace: Workspace) -> Journal | None:
    """Return the journal a dead process left, or None.

    Raises Damaged when it cannot be read.
    """
    try:
        raw = workspace.dir.journal.read_bytes()
    except FileNotFoundError:
        return None
    try:
        doc = json.loads(raw)
        git = doc["git"]
        return Journal(
            plan=Plan(
                paths={_bytes(path): (_entry(now), _entry(want)) for path, now, want in doc["paths"]},
                folder_times={_bytes(path): time for path, time in doc["folder_times"]},
                rebuild_git=doc["rebuild_git"],
                fresh_times=doc["fresh_times"],
                git=GitPlan(
                    index={_bytes(path): tuple(tuple(item) for item in value) for path, value in git["index"]},
                    refs={name: (old, new) for name, (old, new) in git["refs"].items()},
                    symbolic=git["symbolic"],
                    head=git["head"],
                    stash=None if git["stash"] is None else tuple((oid, text) for oid, text in git["stash"]),
                    unfinished=git["unfinished"],
                    objects=git["objects"],
                ),
            ),
            kind=EventKind(doc["kind"]),
            own=doc["own"],
            targets=tuple(doc["targets"]),
            text=doc["text"].encode("latin-1").decode("utf-8", "surrogateescape"),
            session=doc["session"],
            task=doc["task"],
            data=doc["data"],
            seq=doc["seq"],
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise Damaged(
            what=os.fspath(workspace.dir.journal),
            detail=str(error),
            next="`takeback doctor --fix` sets it aside; its own checkpoint holds the tree before it",
        ) from None


def clean_stages(workspace: Workspace) -> None:
    """Remove stage folders; called with the worktree's lock held, so nobody is using one."""
    try:
        names = os.listdir(workspace.place.root)
    except OSError:
        return
    for name in names:
        if name.startswith(STAGE + b".") and name[len(STAGE) + 1 :].isdigit():
            shutil.rmtree(os.path.join(workspace.place.root, name), ignore_errors=True)


def _bytes(text: str) -> bytes:
    return text.encode("latin-1")


def _entry(value: list[Any] | None) -> Entry | None:
    return None if value is None else Entry(*value)
