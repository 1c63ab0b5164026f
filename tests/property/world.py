"""One project, driven through `takeback.Project` and by hands, with a picture of every state that was saved.

Does not cover: which sequence is played. Every command is followed by the checks of what must hold after it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from takeback import Project
from takeback.errors import Conflict, Damaged, NothingToDo, OpenFileInUse
from takeback.files import tree as stored_trees
from takeback.files.plan import Snapshot
from takeback.model import RestoreResult
from takeback.timeline.fold import fold
from tests.property import expected, picture
from tests.property.expected import Way
from tests.property.hands import Change, Hands
from tests.property.picture import Picture
from tests.support import tree as trees

Session = str | None


@dataclass
class Deed:
    """A step or restore: what it changed, and when, in numbers of the model's own clock."""

    id: str
    session: Session
    before: Picture
    start: int
    state: bool
    named: tuple[bytes, ...] = ()
    after: Picture | None = None
    end: float = float("inf")
    undone_at: int = 0
    left: bool = False  # taken back but for what it shares
    needs: tuple[str, ...] = ()  # checkpoints


@dataclass
class Saved:
    """What a checkpoint holds; `chosen` are the only paths it was told to look at."""

    picture: Picture
    state: bool
    chosen: tuple[bytes, ...] = ()


class World:
    """The project at `root` and everything the model knows of it."""

    def __init__(self, root: Path, env: Mapping[str, str], blank: str) -> None:
        self.root = os.fsencode(root)
        self.env = env
        self.blank = blank
        self.hands = Hands(self.root, env)
        self.projects: dict[Session, Project] = {}
        self.saved: dict[str, Saved] = {}
        self.order: list[str] = []
        self.removed: set[str] = set()
        self.deeds: list[Deed] = []
        self.reversals: list[int] = []
        self.last_step: dict[Session, int] = {}
        self.asked: str | None = None
        self.clock = 0
        self.running: dict[str, tuple[AbstractContextManager[str], Deed]] = {}
        self.story: list[tuple[Any, ...]] = []

    def play(self, move: tuple[Any, ...]) -> None:
        """Carry out one move of a story and check everything."""
        self.story.append(move)
        name, *rest = move
        getattr(self, name)(*rest)

    def close(self) -> None:
        for way, _ in self.running.values():
            with suppress(Exception):
                way.__exit__(None, None, None)
        for project in self.projects.values():
            project.close()

    # -- looking ---------------------------------------------------------------------------------------------------

    def project(self, session: Session) -> Project:
        """Each session works through an object of its own, as two processes would."""
        key = session or "A"
        if key not in self.projects:
            self.projects[key] = Project.open(self.root)
        return self.projects[key]

    def now(self) -> Picture:
        return picture.take(self.root, self.env, self.blank)

    def everything(self) -> trees.Tree:
        """Every byte, mode and time in the project and its `.git`."""
        return trees.fingerprint(self.root, git=True)

    def untouched(self, before: trees.Tree) -> None:
        changed = trees.difference(before, self.everything())
        assert not changed, "what only looks changed the project:\n" + "\n".join(changed)

    def tick(self) -> int:
        self.clock += 1
        return self.clock

    def holds(self, id: str, seen: Picture, *, state: bool, chosen: tuple[bytes, ...] = ()) -> None:
        """Check that the store says of a checkpoint what the picture says."""
        project = self.project(None)
        checkpoint = project._checkpoint(id)
        snapshot = Snapshot(project._w, checkpoint)
        have: dict[bytes, picture.Node] = {}
        for part in (snapshot.parts.files, snapshot.parts.state if state else None):
            for path, entry in stored_trees.walk(project._w.objects, part) if part else ():
                have[path] = picture.Node(entry.mode, 0 if entry.is_dir else entry.mtime_ns, entry.oid)
        problems = []
        for path in sorted(have.keys() | seen.tree.keys()):
            if chosen and not expected.selected(path, chosen):
                continue
            if have.get(path) == seen.tree.get(path):
                continue
            if not state and path not in have and (seen.is_ignored(path) or seen.tree[path].is_dir):
                if path not in chosen:
                    continue
            problems.append(f"{path!r}: {id} has {have.get(path)}, there is {seen.tree.get(path)}")
        assert not problems, f"{id} lies (state: {state}):\n" + "\n".join(problems)

    def keep(self, id: str, seen: Picture, *, state: bool, chosen: tuple[bytes, ...] = ()) -> None:
        """Remember a checkpoint, or check that an earlier one that is used again is the same."""
        has_state = self.project(None)._checkpoint(id).kind == "state"
        if id not in self.saved and (state == has_state or chosen):
            self.saved[id] = Saved(seen, state, chosen)
            self.order.append(id)
        self.holds(id, seen, state=state, chosen=chosen)

    # -- moves -----------------------------------------------------------------------------------------------------

    def change(self, change: Change) -> None:
        self.hands.make(change)

    def checkpoint(self, session: Session, state: bool, chosen: tuple[bytes, ...] = ()) -> None:
        seen, before = self.now(), self.everything()
        project = self.project(session)
        done = project.checkpoint("words", session=session, state=state, paths=chosen or None)
        self.untouched(before)
        kind_state = done.kind == "state"
        held = project._checkpoint(done.id)
        if done.new:
            self.keep(done.id, seen, state=kind_state, chosen=held.only)
        else:
            assert not held.only or set(chosen) == set(held.only), f"{done.id} puts back {held.only}, not {chosen}"
            self.keep(done.id, seen, state=kind_state, chosen=chosen)
        self.asked = done.id

    def step(self, session: Session, state: bool, named: tuple[bytes, ...], changes: Sequence[Change]) -> None:
        key = f"{session}-whole"
        self.begin(session, state, named, key)
        for change in changes:
            self.hands.make(change)
        self.end(key)

    def begin(self, session: Session, state: bool, named: tuple[bytes, ...], key: str | None = None) -> None:
        key = key or str(session)
        if key in self.running:
            return
        seen, before = self.now(), self.everything()
        way = self.project(session).step("work", session=session, paths=named, state=state)
        id = way.__enter__()
        self.untouched(before)
        deed = Deed(id, session, seen, self.tick(), state, named)
        self.deeds.append(deed)
        self.last_step[session] = deed.start
        self.running[key] = (way, deed)

    def end(self, key: str) -> None:
        if key not in self.running:
            return
        way, deed = self.running.pop(key)
        seen, before = self.now(), self.everything()
        way.__exit__(None, None, None)
        self.untouched(before)
        deed.after, deed.end = seen, self.tick()
        events = fold(self.project(None)._store.events())
        found = events.done(deed.id)
        assert found is not None and found.before and found.after
        deed.needs = (found.before, found.after)
        self.keep(found.before, deed.before, state=deed.state)
        self.keep(found.after, deed.after, state=deed.state)

    def look(self, what: str, number: int) -> None:
        before = self.everything()
        project = self.project(None)
        id = self.order[number % len(self.order)] if self.order else None
        with suppress(NothingToDo, Conflict, OpenFileInUse, Damaged):
            if what == "log":
                for event in project.log(limit=3):
                    project.show(event.id)
            elif what == "status":
                project.status()
            elif what == "diff":
                project.diff(id, text=True)
            elif what == "undo":
                project.undo(dry_run=True, yes=True)
            elif what == "redo":
                project.redo(dry_run=True)
            elif what == "restore" and id:
                project.restore(id, dry_run=True, refs=bool(number % 2))
        self.untouched(before)

    def reopen(self, forget: bool) -> None:
        """Open the project anew; `forget` takes the scan's caches away, so that it must look at everything."""
        project = self.project(None)
        folder = project._w.dir
        if self.running:
            for one in self.projects.values():
                one._w._cursor = None
        else:
            for one in self.projects.values():
                one.close()
            self.projects.clear()
        if forget:
            for path in (folder.cursor, Path(os.fsdecode(folder.index)), folder.state):
                path.unlink(missing_ok=True)
            self.checkpoint(None, True)

    def gc(self, keep: int) -> None:
        before = self.everything()
        done = self.project(None).gc(keep=keep)
        self.untouched(before)
        self.removed |= set(done.removed)
        for id in done.removed:
            if self.saved.pop(id, None) is not None:
                self.order.remove(id)
        if self.asked in self.removed:
            self.asked = None

    def restore(self, number: int, refs: bool, chosen: tuple[bytes, ...]) -> None:
        if not self.order:
            return
        id = self.order[number % len(self.order)]
        saved = self.saved[id]
        have, before = self.now(), self.everything()
        try:
            result = self.project(None).restore(id, chosen, refs=refs, yes=True)
        except OpenFileInUse:
            blocked = chosen or saved.chosen
            assert not saved.state or blocked, f"refused to restore {id}"
            self.untouched(before)
            return
        self._restored(saved, have, result, refs=refs, chosen=chosen)

    def _restored(
        self, saved: Saved, have: Picture, result: RestoreResult, *, refs: bool, chosen: tuple[bytes, ...]
    ) -> None:
        got = self.now()
        self._check_own(result, have, got, saved.state)
        deed = Deed(result.id, None, have, self.tick(), saved.state, after=got, end=self.clock)
        self.deeds.append(deed)
        self._after(result.id, got, saved.state)
        fresh = any("present time" in note for note in result.notes)
        state = saved.state and not saved.chosen
        problems = expected.after_restore(
            saved.picture, have, got, state=state, chosen=chosen or saved.chosen, told=saved.chosen, refs=refs,
            fresh=fresh,
        )  # fmt: skip
        assert not problems, f"restore of {result.targets} is not exact:\n" + "\n".join(problems)

    def _check_own(self, result: RestoreResult, have: Picture, got: Picture, state: bool) -> None:
        """Check that the operation's own checkpoint has all that it replaced or deleted."""
        self.keep(result.checkpoint, have, state=state)
        project = self.project(None)
        own = Snapshot(project._w, project._checkpoint(result.checkpoint))
        for path, node in have.tree.items():
            if node.is_dir or got.tree.get(path) == node:
                continue
            entry = own.get(path)
            kept = entry and picture.Node(entry.mode, entry.mtime_ns, entry.oid)
            assert kept == node, f"{path!r} went {node} -> {got.tree.get(path)}, but {result.checkpoint} has {kept}"

    def _after(self, event: str, got: Picture, state: bool) -> None:
        """Check the checkpoint after a restore, undo or redo."""
        events = list(self.project(None)._store.events())
        found = next(one for one in reversed(events) if one.id == event)
        assert found.after
        self.keep(found.after, got, state=state)

    def restore_to(self, number: int) -> None:
        if not self.order:
            return
        id = self.order[number % len(self.order)]
        saved = self.saved[id]
        if saved.chosen:
            return
        before = self.everything()
        with tempfile.TemporaryDirectory() as folder:
            target = os.path.join(os.fsencode(folder), b"new")
            self.project(None).restore(id, to=target)
            self.untouched(before)
            got = picture.take(target, self.env, self.blank)
            problems = []
            for path in sorted(saved.picture.tree.keys() | got.tree.keys()):
                want, then = saved.picture.tree.get(path), got.tree.get(path)
                if want == then or (not saved.state and (saved.picture.is_ignored(path) or path.startswith(b".git/"))):
                    continue
                if not saved.state and want is not None and want.is_dir and then is None:
                    continue
                problems.append(f"{path!r} should be {want} but is {then}")
            for what in ("index", "refs", "unfinished"):
                problems += picture.difference(getattr(saved.picture, what), getattr(got, what))
            if (got.head, got.stash) != (saved.picture.head, saved.picture.stash):
                problems.append(f"HEAD, stash {got.head, got.stash}, not {saved.picture.head, saved.picture.stash}")
        assert not problems, f"restore of {id} into a new folder is not exact:\n" + "\n".join(problems)

    # -- undo and redo ---------------------------------------------------------------------------------------------

    def undo(self, session: Session, number: int | None, partial: bool, shared: bool) -> None:
        scope = [one for one in reversed(self.deeds) if session in (None, one.session)]
        if number is None:
            target = next((one for one in scope if one.after and not one.undone_at), None)
        else:
            done = [one for one in self.deeds if one.after]
            if not done:
                return
            target, session = done[number % len(done)], None
            if target.undone_at and not (shared and target.left):
                target_id, target = target.id, None
        id = None if number is None else (target.id if target else target_id)
        if target is None and number is None and session is None and not self.last_step and self.asked:
            self._undo_to_checkpoint()
            return
        options: dict[str, Any] = {"session": session, "partial": partial, "shared": shared, "yes": True}
        self._turn("undo", id, target, options)

    def _undo_to_checkpoint(self) -> None:
        assert self.asked is not None
        saved, have = self.saved[self.asked], self.now()
        try:
            result = self.project(None).undo(yes=True)
        except OpenFileInUse:
            assert not saved.state
            return
        assert result.targets == (self.asked,), f"undo went to {result.targets}, not {self.asked}"
        self._restored(saved, have, result, refs=False, chosen=())

    def redo(self, session: Session, number: int | None, partial: bool, shared: bool) -> None:
        options: dict[str, Any] = {"session": session, "partial": partial, "shared": shared, "yes": True}
        if number is not None:
            undone = [one for one in self.deeds if one.undone_at]
            if undone:
                options["session"] = None
                target = undone[number % len(undone)]
                self._turn("redo", target.id, target, options)
            return
        line = [
            one
            for one in self.deeds
            if one.undone_at and session in (None, one.session) and self.last_step.get(one.session, 0) < one.undone_at
        ]
        target = max(line, key=lambda one: one.undone_at) if line else None
        self._turn("redo", None, target, options)

    def _overlapped(self, deed: Deed) -> bool:
        if any(deed.start <= one <= deed.end for one in self.reversals):
            return True
        return any(one is not deed and one.start <= deed.end and one.end >= deed.start for one in self.deeds)

    def _turn(self, verb: str, id: str | None, deed: Deed | None, options: dict[str, Any]) -> None:
        have, before = self.now(), self.everything()
        turn = getattr(self.project(options["session"]), verb)
        try:
            result = turn(id, **options)
        except NothingToDo as error:
            assert deed is None, f"{verb} {id} {options}: {error}, but there is {deed and deed.id}"
            self.untouched(before)
            return
        except Damaged:
            assert deed is not None and self.removed & set(deed.needs)
            self.untouched(before)
            return
        except OpenFileInUse:
            assert deed is not None and not deed.state
            self.untouched(before)
            return
        except Conflict as error:
            self.untouched(before)
            assert deed is not None and not options["partial"]
            way = self._way(verb, deed, options["shared"])
            reasons = expected.reasons_for_conflict(way, have)
            assert reasons, f"{verb} {deed.id} refused without a reason: {error}"
            return
        assert deed is not None and result.targets == (deed.id,), f"{verb} took {result.targets}, not {deed}"
        got = self.now()
        self._check_own(result, have, got, deed.state)
        at = self.tick()
        self.reversals.append(at)
        deed.undone_at = at if verb == "undo" else 0
        deed.left = verb == "undo" and bool(result.shared)
        way = self._way(verb, deed, options["shared"], at)
        skipped = {one.path for one in result.conflicts}
        fresh = any("present time" in note for note in result.notes)
        problems = expected.after_change(way, have, got, skipped, fresh)
        assert not problems, f"{verb} {deed.id} of session {deed.session}:\n" + "\n".join(problems)
        self._after(result.id, got, deed.state)

    def _way(self, verb: str, deed: Deed, shared: bool, at: int | None = None) -> Way:
        assert deed.after is not None
        sides = (deed.after, deed.before) if verb == "undo" else (deed.before, deed.after)
        whole = shared or not self._overlapped(deed)
        named = deed.named or (b"\0",)
        return Way(*sides, lambda path: whole or expected.selected(path, named), whole, deed.state)


# -- many projects alike, old enough to be believed -------------------------------------------------------------------


@dataclass
class Pool:
    """Projects made ahead and left to age: takeback believes no stat data younger than two seconds."""

    top: Path
    with_git: bool
    batch: int
    ready: list[Path] = field(default_factory=list)
    made: int = 0

    @property
    def env(self) -> dict[str, str]:
        """The whole environment of the hands' git; equal times make equal commits."""
        return {
            "PATH": os.environ["PATH"],
            "HOME": str(self.top / "home"),
            "TAKEBACK_HOME": str(self.top / "data"),
            "GIT_CONFIG_NOSYSTEM": "1",
            "LANG": "C.UTF-8",
            **{f"GIT_{who}_{what}": "someone" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")},
            **{f"GIT_{who}_DATE": "1700000000 +0000" for who in ("AUTHOR", "COMMITTER")},
        }

    @property
    def blank(self) -> str:
        return str(self.top / "blank.git")

    def take(self) -> Path:
        if not self.ready:
            self._fill()
        return self.ready.pop()

    def _fill(self) -> None:
        template = self.top / "template"
        if not template.exists():
            (self.top / "home").mkdir(parents=True)
            subprocess.run(["git", "init", "-q", "--bare", "--template=", self.blank], env=self.env, check=True)
            self._template(template)
        for _ in range(self.batch):
            self.made += 1
            copy = self.top / f"project{self.made}"
            subprocess.run(["cp", "-a", str(template), str(copy)], check=True)
            if self.with_git:
                subprocess.run(["git", "update-index", "-q", "--refresh"], cwd=copy, env=self.env, check=True)
            self.ready.append(copy)
        time.sleep(2.3)

    def _template(self, root: Path) -> None:
        hands = Hands(os.fsencode(root), self.env)
        root.mkdir()
        if self.with_git:
            hands.git("init", "-q", "--template=", "-b", "main")
        files = {
            b"a.txt": 3,
            b"b.bin": 5,
            b"run.sh": 1,
            b"d/x": 3,
            b"d/e/z": 7,
            b"\xff\xfe": 8,
            b"build/o": 6,
            b".env": 2,
        }
        for path, number in files.items():
            hands.make(("write", path, number))
        hands.make(("chmod", b"run.sh", 0o755))
        hands.make(("chmod", b".env", 0o600))
        hands.make(("link", b"to-d", b"d"))
        hands.make(("mkdir", b"empty"))
        hands.make(("rules", b".gitignore", b"*.log\nbuild/\n.env\n"))
        if self.with_git:
            hands.make(("add -A",))
            hands.make(("commit",))
            hands.make(("switch -c", "topic"))
            hands.make(("edit", b"a.txt", 11))
            hands.make(("commit -a",))
            hands.make(("switch", "main"))
            hands.make(("edit", b"a.txt", 0))
            hands.make(("append", b"a.txt"))
            hands.make(("commit -a",))
        hands.make(("write", b"top", 1))
        for folder, _, names in os.walk(root):
            for name in names:
                os.utime(os.path.join(folder, name), ns=(10**18, 10**18), follow_symlinks=False)

    def remove(self, root: Path) -> None:
        for path in (root, self.top / "data"):
            subprocess.run(["chmod", "-R", "u+rwx", str(path)], capture_output=True)
            shutil.rmtree(path, ignore_errors=True)


def told(story: Sequence[tuple[Any, ...]]) -> str:
    """Return a story as text that can be played again."""
    return "[\n" + "".join(f"    {move!r},\n" for move in story) + "]"
