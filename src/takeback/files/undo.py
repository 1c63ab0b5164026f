"""Undo and redo: take back, or apply again, what steps and restores changed, around what others changed since.

    b  before the step      c == a  -> b             nobody touched it since
    a  after the step       c == b  -> nothing       it is back already
    c  now                  text    -> merge         other hands' lines stay
                            else    -> conflict      nothing at all is written

Redo is the same with a and b exchanged. Does not cover: which steps are meant (`timeline.algebra`).
"""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace

from takeback.errors import Conflict, Damaged
from takeback.files import gitparts, history, linked, names
from takeback.files import plan as plans
from takeback.files.apply import Applier
from takeback.files.gitrestore import held_elsewhere, lost_objects
from takeback.files.journal import Journal
from takeback.files.operation import carry_out, record
from takeback.files.plan import Plan, Snapshot
from takeback.files.record import Recorder
from takeback.files.restore import leave_out_databases, name_holders, plan_new_git, restore, take_own
from takeback.files.workspace import Workspace
from takeback.model import Checkpoint, Entry, EventKind, NotCovered, RestoreResult
from takeback.timeline import algebra
from takeback.timeline.fold import Done, Scope, Timeline

_MERGE_LIMIT = 4 * 1024 * 1024


@dataclass(frozen=True)
class Options:
    """What the caller asked for beside the step; `auto`: nobody did, the step failed and goes back by itself."""

    partial: bool = False
    shared: bool = False
    dry_run: bool = False
    yes: bool = False
    auto: bool = False


def undo(
    workspace: Workspace,
    recorder: Recorder,
    timeline: Timeline,
    scope: Scope,
    step: str | None,
    *,
    prompt: bool,
    options: Options,
) -> RestoreResult:
    """Take back the step that is meant; the caller holds the lock.

    Raises NothingToDo, UnknownId, Conflict, and what `restore` raises.
    """
    choice = algebra.choose_undo(timeline, scope, step, prompt=prompt, shared=options.shared)
    if choice.already is not None:
        return _already(workspace, recorder, scope, choice.already, options)
    if choice.back_to is not None:
        checkpoint = recorder.timeline.checkpoint(choice.back_to)
        if checkpoint is not None:
            return restore(workspace, recorder, checkpoint, dry_run=options.dry_run, yes=options.yes)
    result = _run(workspace, recorder, timeline, scope, choice.targets, EventKind.UNDO, options)
    running = tuple(f"{one.id} ({one.text}) is still running and is left alone" for one in choice.running)
    return replace(result, notes=result.notes + running)


def redo(
    workspace: Workspace, recorder: Recorder, timeline: Timeline, scope: Scope, step: str | None, *, options: Options
) -> RestoreResult:
    """Apply again what was taken back; raises as `undo` does."""
    choice = algebra.choose_redo(timeline, scope, step)
    return _run(workspace, recorder, timeline, scope, choice.targets, EventKind.REDO, options)


def _run(
    w: Workspace,
    recorder: Recorder,
    timeline: Timeline,
    scope: Scope,
    targets: Sequence[Done],
    kind: EventKind,
    options: Options,
) -> RestoreResult:
    ends = [_ends(w, recorder, done, kind) for done in targets]
    if not options.dry_run:
        any(linked.put_back(w, end) for _, end in ends)
    state = any(start.has_state and end.has_state for start, end in ends)
    own, now = take_own(w, recorder, f"before {kind} {targets[0].id}", state=state, dry_run=options.dry_run)
    if plans.unseen(w, now, {path for start, end in ends for path in plans.between(w, start, end)[0]}):
        state = True
        own, now = take_own(w, recorder, f"before {kind} {targets[0].id}", state=True, dry_run=options.dry_run)
    maker = _Maker(w, now, options)
    for done, (start, end) in zip(targets, ends, strict=True):
        maker.add(start, end, done, bool(timeline.overlapping(done)))
    plan = maker.plan()
    if options.partial:
        leave_out_databases(w, plan)
    name_holders(w, plan)
    first = targets[0]
    ids = tuple(done.id for done in targets)
    back = f"takeback redo {ids[-1]}" if kind is EventKind.UNDO else f"takeback undo {ids[-1]}"
    result = RestoreResult(
        id="", dry_run=options.dry_run, targets=ids, title=first.text,
        age_s=_age_s(w, first),
        restored=tuple(plan.actions(w.objects)),
        conflicts=tuple(plan.conflicts), shared=tuple(plan.shared), not_covered=tuple(plan.not_covered),
        not_undone=tuple(plan.not_undone), notes=tuple(plan.notes), exact=plan.exact, checkpoint=own.id,
    )  # fmt: skip
    if options.dry_run:
        Applier(w, plan).preflight()
        return result
    if plan.conflicts and not options.partial:
        shown = ", ".join(f"{names.show(item.path)} ({item.why})" for item in plan.conflicts)
        paths = "1 path" if len(plan.conflicts) == 1 else f"{len(plan.conflicts)} paths"
        raise Conflict(count=paths, paths=shown, result=result)
    plans.check_share(w, plan, own.files, options.yes)
    facts = (("partial", plan.conflicts), ("shared", plan.shared), ("auto", options.auto))
    data = {name: True for name, said in facts if said}
    journal = Journal(plan, kind, own.id, ids, first.text, scope.session, scope.task, data)
    event = carry_out(w, recorder, journal, state=state) if plan else record(w, recorder, journal, own.id)
    saved = [done.data["history"] for done in targets if kind is EventKind.UNDO and done.data.get("history")]
    lost = [commit for commit in saved if history.put_back(w, commit)]
    if lost:
        result = replace(result, notes=(*result.notes, "reflogs and the commits only they named are back"))
    elif not (plan or plan.conflicts or plan.shared or plan.not_undone or plan.not_covered):
        result = replace(result, notes=(*result.notes, f"{' '.join(ids)} changed nothing, so there was nothing to do"))
    return replace(result, id=event.id, undo_with=back)


def _age_s(w: Workspace, done: Done) -> float:
    return max(0.0, (w.now_ns() - (done.ended_ns or done.started_ns)) / 1e9)


def _already(w: Workspace, recorder: Recorder, scope: Scope, done: Done, options: Options) -> RestoreResult:
    """Answer an undo right after a step went back by itself: once it does nothing, so that no older step is taken."""
    result = RestoreResult(
        id="", dry_run=options.dry_run, targets=(done.id,), title=done.text,
        age_s=_age_s(w, done),
        notes=(f"{done.id} failed and was taken back then; `takeback undo` again takes back the step before it",),
        undo_with=f"takeback redo {done.id}",
    )  # fmt: skip
    if options.dry_run:
        return result
    own, _ = take_own(w, recorder, f"before undo {done.id}", state=False)
    text = f"nothing, since {done.id} had gone back by itself: {done.text}"
    journal = Journal(Plan(), EventKind.UNDO, own.id, (), text, scope.session, scope.task, {"already": done.id})
    return replace(result, id=record(w, recorder, journal, own.id).id, checkpoint=own.id)


def _ends(w: Workspace, recorder: Recorder, done: Done, kind: EventKind) -> tuple[Snapshot, Snapshot]:
    """Return (where it stood, where it should go) for one target."""
    before = _checkpoint(recorder, done.before)
    after = _checkpoint(recorder, done.after)
    return (
        (Snapshot(w, after), Snapshot(w, before))
        if kind is EventKind.UNDO
        else (Snapshot(w, before), Snapshot(w, after))
    )


def _checkpoint(recorder: Recorder, id: str | None) -> Checkpoint:
    found = recorder.timeline.checkpoint(id) if id else None
    if found is None:
        raise Damaged(
            what=f"checkpoint {id}", detail="it is no longer in the store", next="`takeback log` shows what is"
        )
    return found


class _Maker:
    """Makes the plan: decides path by path, target by target, each on top of the one before."""

    def __init__(self, w: Workspace, now: Snapshot, options: Options) -> None:
        self._w = w
        self._now = now
        self._options = options
        self._wants: dict[bytes, Entry | None] = {}
        self._plan = Plan(touches_state=False)
        self._refs_now = gitparts.read_refs(w.objects, now.parts.refs)
        self._elsewhere = held_elsewhere(w.place) if w.has_git else set()

    def plan(self) -> Plan:
        """Return what came out."""
        plan = self._plan
        for path, want in self._wants.items():
            now = self._now.get(path)
            if now != want:
                plan.paths[path] = (now, want)
        for path in [path for path, (now, want) in plan.paths.items() if _file_over_folder(now, want)]:
            self._check_folder(path)
        self._leave_out_conflicts()
        for path, above in plans.blocked(self._w, plan).items():
            self._conflict(path, f"{names.show(above)} is no folder any more")
        self._leave_out_conflicts()
        plan.touches_state |= any(self._now.in_state(path) for path in plan.paths)
        return plan

    def _leave_out_conflicts(self) -> None:
        bad = {item.path for item in self._plan.conflicts}
        self._plan.paths = {path: pair for path, pair in self._plan.paths.items() if path not in bad}

    def add(self, start: Snapshot, end: Snapshot, done: Done, overlapped: bool) -> None:
        """Add the way from `start` to `end`, the two sides of one step."""
        pairs, state = plans.between(self._w, start, end)
        self._plan.touches_state |= state
        known = self._complete_rules(pairs, start, end)
        unknown = end.unknown({path: was for path, (was, _) in pairs.items() if was is not None})
        # Of what the step may only not have seen, that is written which nothing stands in the place of.
        hidden = start.unknown({path: want for path, (_, want) in pairs.items() if want is not None})
        unknown |= {path for path in hidden if self._w.reader.look(path) is not None}
        unknown -= known
        for item in end.not_covered:
            if item not in self._plan.not_covered:
                self._plan.not_covered.append(item)
        made_git = start.parts.refs is not None and end.parts.refs is None
        # Deepest first, so that a folder is decided after what is in it.
        escape = bool(done.data.get("escape_of"))
        for path in sorted(pairs, reverse=True):
            if path in unknown or (made_git and path.startswith(b".git/")):
                continue
            if escape and path not in done.named:
                continue  # others' work since the last look
            was, want = pairs[path]
            if overlapped and not plans.selected(path, done.named or (b"\0",)) and not self._options.shared:
                if not (was is not None and want is not None and was.is_dir and want.same_value(was)):
                    self._plan.shared.append(path)
                continue
            self._decide(path, was, want)
        if escape:
            above = {folder for path in done.named for folder in names.parents(path)}
            self._folder_times({path: pair for path, pair in pairs.items() if path in above}, end)
            if done.data.get("git"):
                self._git(start, end, False)
            return
        self._folder_times(pairs, end)
        if made_git and b".git" in pairs:
            pass  # only the link of a worktree, which is a file like others
        elif made_git:
            self._plan.not_undone.append("the repository this step made stays: remove `.git` yourself if you mean it")
        else:
            self._git(start, end, overlapped and not self._options.shared)
        if any(want is not None and not want.is_dir for _, want in pairs.values()):
            if plans.newer_outputs(self._w, end) and not self._plan.fresh_times:
                self._plan.fresh_times = True
                self._plan.notes.append(
                    "changed files get the present time: ignored build outputs newer than this step stay"
                )

    def _complete_rules(self, pairs: plans.Pairs, start: Snapshot, end: Snapshot) -> set[bytes]:
        """Fill in the side of rules files that ignored themselves there: a checkpoint has at least their text."""
        known: set[bytes] = set()
        for path, (was, want) in pairs.items():
            if was is None and want is not None and path in start.rules and not want.is_dir:
                now = self._current(path)
                if now is None or not stat.S_ISREG(now.mode):
                    continue
                if self._w.objects.read(now.oid, "blob") == start.rules[path].text:
                    pairs[path] = (now, want)
                    known.add(path)
            elif want is None and was is not None and path in end.rules and stat.S_ISREG(was.mode):
                rule = end.rules[path]
                oid = self._w.objects.write("blob", rule.text)
                pairs[path] = (was, was._replace(mode=rule.mode, mtime_ns=rule.mtime_ns, oid=oid))
                known.add(path)
        return known

    def _current(self, path: bytes) -> Entry | None:
        return self._wants[path] if path in self._wants else self._now.get(path)

    def _conflict(self, path: bytes, why: str) -> None:
        self._plan.conflicts.append(NotCovered(path, why))

    def _decide(self, path: bytes, was: Entry | None, want: Entry | None) -> None:
        now = self._current(path)
        if _is_dir(was) or _is_dir(want):
            self._decide_folder(path, was, want, now)
        elif was is not None and _same(was, want):
            if was.same_value(now) and now is not None and now.mtime_ns == was.mtime_ns:
                self._wants[path] = want  # only the time differed, and nobody set another since
        elif _same(now, was):
            self._wants[path] = want
        elif _same(now, want):
            return
        else:
            merged = self._merge(was, want, now)
            if merged is None:
                self._conflict(path, _why(now, was, want))
            else:
                self._wants[path] = merged
                self._plan.merged.add(path)

    def _decide_folder(self, path: bytes, was: Entry | None, want: Entry | None, now: Entry | None) -> None:
        if _is_dir(was) and _is_dir(want):
            assert was is not None and want is not None
            if was.mode != want.mode and now is not None and now.is_dir:
                if now.mode == was.mode:
                    self._wants[path] = want
                elif now.mode != want.mode:
                    self._conflict(path, "its mode was changed again")
        elif want is None:
            if _is_dir(now):
                self._wants[path] = None  # goes if it is empty by then
        elif want.is_dir:
            if now is None or _same(now, was):
                self._wants[path] = want
            elif not now.is_dir:
                self._conflict(path, "something else is there now")
        elif _is_dir(now) or now is None:  # a folder came where a file was
            self._wants[path] = want
        elif not _same(now, want):
            self._conflict(path, "something else is there now")

    def _merge(self, was: Entry | None, want: Entry | None, now: Entry | None) -> Entry | None:
        """Return `now` with the change from `was` to `want` applied, or None when that cannot be."""
        if was is None or want is None or now is None:
            return None
        if not all(stat.S_ISREG(entry.mode) for entry in (was, want, now)):
            return None
        mode = want.mode if now.mode == was.mode else now.mode
        if was.mode != want.mode and now.mode not in (was.mode, want.mode):
            return None
        if was.oid == want.oid:
            return now._replace(mode=mode)
        if now.oid == was.oid:
            return now._replace(mode=mode, oid=want.oid, mtime_ns=want.mtime_ns)
        if now.oid == want.oid:
            return now._replace(mode=mode)
        sizes = self._w.objects.sizes([was.oid, want.oid, now.oid])
        if len(sizes) < len({was.oid, want.oid, now.oid}) or max(sizes.values()) > _MERGE_LIMIT:
            return None
        texts = [self._w.objects.read(entry.oid, "blob") for entry in (now, was, want)]
        if any(b"\0" in text for text in texts):
            return None
        merged = self._merge_text(texts)
        if merged is None:
            return None
        oid = self._w.objects.write("blob", merged)
        return Entry(mode, now.uid, now.gid, self._w.now_ns(), oid)

    def _merge_text(self, texts: list[bytes]) -> bytes | None:
        with tempfile.TemporaryDirectory(prefix="merge-", dir=self._w.dir.path) as folder:
            files = []
            for name, text in zip(("now", "was", "want"), texts, strict=True):
                files.append(os.path.join(folder, name))
                with open(files[-1], "wb") as file:
                    file.write(text)
            done = self._w.store.start("merge-file", "-p", "-q", *files).finish()
            return done.out if done.code == 0 else None

    def _check_folder(self, path: bytes) -> None:
        """A file comes back where a folder is: all that is in the folder must be going."""
        below = path + b"/"
        for full, dirs, files in os.walk(self._w.real(path)):
            for name in [*dirs, *files]:
                inner = os.path.relpath(os.path.join(full, name), self._w.place.root)
                if inner.startswith(below) and self._wants.get(inner, inner) is not None:
                    self._conflict(path, f"a folder is there now, with {names.show(inner)} in it")
                    return

    def _folder_times(self, pairs: plans.Pairs, end: Snapshot) -> None:
        for path, (was, want) in pairs.items():
            if _is_dir(was) and _is_dir(want) and was is not None and want is not None:
                now = self._now.get(path)
                # Of several steps the newer one's undo has already set a time, and this one goes on from it.
                if now is not None and self._plan.folder_times.get(path, now.mtime_ns) == was.mtime_ns:
                    self._plan.folder_times[path] = want.mtime_ns
        for above in {b"", *(path.rpartition(b"/")[0] for path in self._wants)}:
            if above not in pairs and above not in self._plan.folder_times:
                now = self._now.get(above)
                if now is not None:
                    self._plan.folder_times[above] = now.mtime_ns

    # -- index, refs, stash ----------------------------------------------------------------------------------------

    def _git(self, start: Snapshot, end: Snapshot, shared: bool) -> None:
        w = self._w
        if end.parts.refs is None:
            return
        if not w.has_git:
            if linked.is_lost(w, end):
                self._plan.notes.append("the worktree is linked to its repository again")
            elif start.parts.refs is None:
                plan_new_git(w, self._plan, end)
                self._plan.notes.append("`.git` is made again; reflogs other than the stash are not kept")
            return
        was, want = gitparts.read_refs(w.objects, start.parts.refs), gitparts.read_refs(w.objects, end.parts.refs)
        now = self._refs_now
        index = gitparts.diff_index(w.store, w.objects, start.parts.index, end.parts.index)
        if shared:
            moved = {name for name in was.refs.keys() | want.refs.keys() if was.refs.get(name) != want.refs.get(name)}
            self._plan.shared += [name.encode("utf-8", "surrogateescape") for name in sorted(moved)]
            self._plan.shared += [b"index: " + path for path in sorted(index)]
            return
        since = gitparts.diff_index(w.store, w.objects, start.parts.index, self._now.parts.index)
        for path, (old, new) in index.items():
            value = self._plan.git.index.get(path, since[path][1] if path in since else old)
            if value == old:
                self._plan.git.index[path] = new
            elif value != new:
                self._conflict(b"index: " + path, "staged again since")
        self._move_refs(was, want, now)
        self._plan.git.objects = lost_objects(w.place, w.store, w.objects, want, end.parts.index)
        if end.parts.unfinished not in (start.parts.unfinished, self._now.parts.unfinished):
            head = self._plan.git.head
            refs = {**{name: oid for name, (oid, _) in now.refs.items()}, **{
                name: new for name, (_, new) in self._plan.git.refs.items()
            }}  # fmt: skip
            shown = head if head is not None else now.head
            commit = refs.get(shown[4:], "") if shown.startswith("ref ") else shown
            if self._now.parts.unfinished == start.parts.unfinished and commit == want.head_commit():
                self._plan.git.unfinished = end.parts.unfinished or ""
            else:
                self._plan.not_undone.append("an unfinished merge or rebase is left as it is: HEAD is elsewhere now")

    def _move_refs(self, was: gitparts.Refs, want: gitparts.Refs, now: gitparts.Refs) -> None:
        git = self._plan.git
        for name in sorted(was.refs.keys() | want.refs.keys()):
            old, new = was.refs.get(name, ("", ""))[0], want.refs.get(name, ("", ""))[0]
            if old == new or name == "refs/stash":
                continue
            shown = name.encode("utf-8", "surrogateescape")
            if name.startswith("refs/remotes/"):
                self._plan.not_undone.append(f"{name} moved in this step: what left this machine is not taken back")
                continue
            current = git.refs[name][1] if name in git.refs else now.refs.get(name, ("", ""))[0]
            if name in self._elsewhere and current != new:
                self._plan.not_undone.append(f"{name} is checked out in another worktree and stays where it is")
            elif current == old:
                git.refs[name] = (current, new)
            elif current != new:
                self._conflict(shown, "moved again since")
        for name in sorted(was.symbolic.keys() | want.symbolic.keys()):
            if name.startswith("refs/remotes/") or was.symbolic.get(name) == want.symbolic.get(name):
                continue
            current_target = git.symbolic.get(name, now.symbolic.get(name, ""))
            if current_target == was.symbolic.get(name, ""):
                git.symbolic[name] = want.symbolic.get(name, "")
            elif current_target != want.symbolic.get(name, ""):
                self._conflict(name.encode("utf-8", "surrogateescape"), "changed again since")
        if was.head != want.head:
            current = git.head if git.head is not None else now.head
            if current == was.head:
                git.head = want.head
            elif current != want.head:
                self._conflict(b"HEAD", "moved again since")
        if was.stash != want.stash:
            stash = git.stash if git.stash is not None else now.stash
            if stash == was.stash:
                git.stash = want.stash
            elif stash != want.stash:
                self._conflict(b"refs/stash", "changed again since")


def _is_dir(entry: Entry | None) -> bool:
    return entry is not None and entry.is_dir


def _same(one: Entry | None, other: Entry | None) -> bool:
    return one is None if other is None else other.same_value(one)


def _file_over_folder(now: Entry | None, want: Entry | None) -> bool:
    return _is_dir(now) and want is not None and not want.is_dir


def _why(now: Entry | None, was: Entry | None, want: Entry | None) -> str:
    if now is None:
        return "deleted since"
    if was is None:
        return "made again since"
    if want is None:
        return "edited since, and undoing would delete it"
    if now.oid == was.oid:
        return "its mode was changed again"
    return "edited since, and the edits do not merge"
