"""Write the timeline: each event as a small commit in the store, then into the timeline database, which is a cache.

    refs/checkpoints/c12       a checkpoint
    refs/checkpoints/timeline  the newest event; parents lead back to the root event

Does not cover: what the events mean (`timeline`).
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace

from takeback.errors import Damaged, GitFailed
from takeback.files.objects import Objects
from takeback.files.workspace import Workspace
from takeback.host import locks
from takeback.model import Checkpoint, Event, EventKind
from takeback.store.base import TimelineStore
from takeback.timeline import codec

REF = "refs/checkpoints/"
_TIP = "timeline_tip"
_PREFIX = {
    EventKind.STEP: "s",
    EventKind.RESTORE: "r",
    EventKind.UNDO: "u",
    EventKind.REDO: "y",
    EventKind.PROMPT: "p",
    EventKind.STEP_END: "e",
}


class Recorder:
    """Appends to one project's timeline."""

    def __init__(self, workspace: Workspace, timeline: TimelineStore) -> None:
        self._w = workspace
        self.timeline = timeline

    def checkpoint(self, tree: str, keep: str | None, draft: Checkpoint, *, own: bool) -> Checkpoint:
        """Give the draft an id, write its commit and ref, and return it whole."""
        with self._project():
            self._catch_up()
            number = self.timeline.next_number("c")
            made = replace(draft, id=f"c{number}")
            commit = self._w.objects.write("commit", _commit_text(tree, keep, made))
            made = replace(made, commit=commit)
            event = Event(
                seq=0, id=made.id, kind=EventKind.CHECKPOINT, at_ns=made.at_ns, worktree=made.worktree,
                session=made.session, task=made.task, after=made.id, text=made.text,
                data={"own": True} if own else {},
            )  # fmt: skip
            self._append(event, made)
            return made

    def event(self, kind: EventKind, fill: Callable[[str], Event]) -> Event:
        """Append an event; `fill` gets the id it will have."""
        with self._project():
            self._catch_up()
            number = self.timeline.next_number(_PREFIX[kind])
            return self._append(fill(f"{_PREFIX[kind]}{number}"), None)

    def sync(self) -> None:
        """Bring the database up to what the store's own timeline says; another process may have been killed between."""
        tip = self._tip_in_store()
        if tip != (self.timeline.get_meta(_TIP) or ""):
            with self._project():
                self._catch_up()

    def rebuild(self) -> int:
        """Make the database's content again from the store alone; returns the number of events."""
        with self._project():
            self.timeline.set_meta(_TIP, "")
            self._catch_up()
            self._adopt()
            return self.timeline.last_seq

    def problems(self) -> list[str]:
        """Return what the store lacks of what the database knows: the chain of events, refs of checkpoints."""
        found = []
        known, tip = self.timeline.get_meta(_TIP) or "", self._tip_in_store()
        if known and not tip:
            found.append(f"{REF}timeline is gone from the store")
        elif tip and not self._is_event(tip):
            found.append(f"{REF}timeline names an object that cannot be read")
        found += [f"the ref of {one.id} is gone from the store" for one in self._without_ref()]
        return found

    def mend(self) -> None:
        """Put into the store again what the database knows, as far as the objects are there."""
        with self._project():
            self._catch_up()
            lost = self._without_ref()
            missing = self._w.store.missing(one.commit for one in lost)
            feed = b"".join(
                f"update {REF}{one.id}\0{one.commit}\0\0".encode() for one in lost if one.commit not in missing
            )
            if feed:
                self._w.store.run("update-ref", "--no-deref", "--stdin", "-z", feed=feed)

    def _without_ref(self) -> list[Checkpoint]:
        out = self._w.store.run("for-each-ref", "--format=%(refname)", f"{REF}c*").decode().split()
        present = {name.removeprefix(REF) for name in out}
        return [one for one in self.timeline.checkpoints() if one.id not in present]

    def _is_event(self, name: str) -> bool:
        try:
            _read_event(self._w.objects, name)
        except Damaged:
            return False
        return True

    def _adopt(self) -> None:
        """Checkpoints whose events are lost are known again by their refs, and their numbers are never used twice."""
        out = self._w.store.run("for-each-ref", "--format=%(refname)", f"{REF}c*").decode().split()
        for id in (name.removeprefix(REF) for name in out):
            if self.timeline.checkpoint(id) is None:
                try:
                    checkpoint = read_checkpoint(self._w, id)
                except Damaged:
                    continue
                if checkpoint is not None:
                    self.timeline.put_checkpoint(checkpoint)

    def _write_chain(self) -> str:
        """Write the events the database has into the store again, and return the newest one's commit."""
        at = ""
        for event in self.timeline.events():
            at = self._w.objects.write("commit", _event_text(self._w.objects, at, event))
        self._w.objects.flush()
        if at:
            self._w.store.run("update-ref", "--no-deref", f"{REF}timeline", at)
        return at

    def _project(self) -> locks.Holding:
        return locks.held(self._w.project.lock, what="timeline", wait=self._w.settings.lock_wait)

    def _append(self, event: Event, checkpoint: Checkpoint | None) -> Event:
        tip = self.timeline.get_meta(_TIP) or ""
        event = replace(event, seq=self.timeline.last_seq + 1)
        zero = "0" * len(self._w.objects.empty_tree)
        name = self._w.objects.write("commit", _event_text(self._w.objects, tip, event))
        feed = f"update {REF}timeline\0{name}\0{tip or zero}\0".encode()
        if checkpoint is not None:
            feed += f"update {REF}{checkpoint.id}\0{checkpoint.commit}\0{zero}\0".encode()
        self._w.objects.flush()
        self._w.store.run("update-ref", "--no-deref", "--stdin", "-z", feed=feed)
        with self.timeline.transaction():
            if checkpoint is not None:
                self.timeline.put_checkpoint(checkpoint)
            self.timeline.append(event)
            self.timeline.set_meta(_TIP, name)
        return event

    def _tip_in_store(self) -> str:
        path = os.path.join(self._w.project.store, b"refs/checkpoints/timeline")
        try:
            with open(path, "rb") as file:
                return file.read().strip().decode()
        except FileNotFoundError:
            out = self._w.store.run("rev-parse", "-q", "--verify", f"{REF}timeline", ok=(0, 1, 128))
            return out.decode().strip()

    def _catch_up(self) -> None:
        """Replay events the store has and the database does not."""
        tip = self._tip_in_store()
        known = self.timeline.get_meta(_TIP) or ""
        if tip == known:
            return
        if known and (not tip or not self._is_event(tip)):
            # The store lost its chain and the database has it.
            self.timeline.set_meta(_TIP, self._write_chain())
            return
        missing: list[Event] = []
        at = tip
        while at and at != known:
            parent, event = _read_event(self._w.objects, at)
            missing.append(event)
            at = parent
        have = set()
        if at != known or not known:
            have = {event.seq for event in self.timeline.events()}
        with self.timeline.transaction():
            for event in reversed(missing):
                if event.kind is EventKind.CHECKPOINT:
                    checkpoint = read_checkpoint(self._w, event.id)
                    if checkpoint is not None:
                        self.timeline.put_checkpoint(checkpoint)
                if event.seq not in have:
                    self.timeline.append(event)
            self.timeline.set_meta(_TIP, tip)


def _event_text(objects: Objects, parent: str, event: Event) -> bytes:
    when = f"takeback <takeback@localhost> {event.at_ns // 10**9} +0000"
    head = f"tree {objects.write('tree', b'')}\n" + (f"parent {parent}\n" if parent else "")
    return f"{head}author {when}\ncommitter {when}\n\n".encode() + codec.encode(event) + b"\n"


def _read_event(objects: Objects, name: str) -> tuple[str, Event]:
    head, _, body = objects.read(name, "commit").partition(b"\n\n")
    parent = next((line[7:].decode() for line in head.splitlines() if line.startswith(b"parent ")), "")
    return parent, codec.decode(body.strip())


def _commit_text(tree: str, keep: str | None, made: Checkpoint) -> bytes:
    when = f"takeback <takeback@localhost> {made.at_ns // 10**9} +0000"
    subject = " ".join(made.text.split())[:200].encode("utf-8", "replace").decode() or f"checkpoint {made.id}"
    head = f"tree {tree}\n" + (f"parent {keep}\n" if keep else "")
    body = codec.encode_checkpoint(replace(made, commit="")).decode()
    trailers = f"Checkpoint: {made.id}\nKind: {made.kind}\nCheckpoint-Data: {body}\n"
    text = f"{head}author {when}\ncommitter {when}\n\n{subject}\n\n{trailers}"
    return text.encode()


def read_checkpoint(workspace: Workspace, id: str) -> Checkpoint | None:
    """Return a checkpoint as the store itself describes it, or None when its ref or commit is gone.

    Raises Damaged when the commit is not one of ours.
    """
    out = workspace.store.run("rev-parse", "-q", "--verify", f"{REF}{id}", ok=(0, 1, 128)).decode().strip()
    if not out:
        return None
    found = workspace.objects.find(out.encode())
    if found is None or found[0] != "commit":
        return None
    for line in found[1].splitlines():
        if line.startswith(b"Checkpoint-Data: "):
            return replace(codec.decode_checkpoint(line.partition(b": ")[2]), commit=out)
    raise Damaged(what=f"checkpoint {id}", detail="its commit has no data", next="`takeback doctor`")


def parents_of(objects: Objects, commit: str) -> list[str]:
    """Return the parents of a commit in the store: a checkpoint's is its keep commit, whose are the tips.

    Raises Damaged.
    """
    head = objects.read(commit, "commit").partition(b"\n\n")[0]
    return [line[7:].decode() for line in head.splitlines() if line.startswith(b"parent ")]


def delete_refs(workspace: Workspace, names: list[str]) -> None:
    """Delete refs of the store, those that are there."""
    try:
        feed = b"".join(f"delete {name}\0\0".encode() for name in names)
        workspace.store.run("update-ref", "--no-deref", "--stdin", "-z", feed=feed)
    except GitFailed:
        for name in names:
            workspace.store.run("update-ref", "-d", name, ok=(0, 1, 128))
