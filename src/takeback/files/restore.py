"""Restore: put the whole tree, or some paths, to a checkpoint.

Does not cover: taking back what one step changed (`undo`).
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace

from takeback.errors import CannotWrite, OpenFileInUse
from takeback.files import checkpoint as checkpoints
from takeback.files import gitparts, linked, names, tree
from takeback.files import plan as plans
from takeback.files.apply import Applier
from takeback.files.gitrestore import GitPlan, held_elsewhere, lost_objects, refs_between
from takeback.files.journal import Journal
from takeback.files.operation import carry_out
from takeback.files.place import Place
from takeback.files.plan import Plan, Snapshot
from takeback.files.record import Recorder
from takeback.files.workspace import Workspace
from takeback.host import proc
from takeback.host.process import Child
from takeback.model import Checkpoint, EventKind, Kind, NotCovered, RestoreResult


def restore(
    workspace: Workspace,
    recorder: Recorder,
    checkpoint: Checkpoint,
    paths: Sequence[bytes] = (),
    *,
    refs: bool = False,
    dry_run: bool = False,
    yes: bool = False,
    partial: bool = False,
) -> RestoreResult:
    """Put the worktree (or `paths`) to a checkpoint; the caller holds the lock.

    `partial` leaves out databases that are in use.

    Raises what stands in the way before the first write: TooManyDeletes, DatabaseInUse, IndexLocked, DiskFull,
    OpenFileInUse, CannotWrite, Damaged.
    """
    wanted = Snapshot(workspace, checkpoint)
    state = checkpoint.kind is Kind.STATE
    if not dry_run and not paths:
        linked.put_back(workspace, wanted)
    own, now = take_own(workspace, recorder, f"before restore {checkpoint.id}", state=state, dry_run=dry_run)
    chosen = tuple(paths) or checkpoint.only
    plan = make_plan(workspace, now, wanted, chosen, refs=refs)
    told = [path for path in checkpoint.only if plans.selected(path, chosen)]
    if plans.unseen(workspace, now, [*plan.paths, *told]):
        state = True
        own, now = take_own(workspace, recorder, f"before restore {checkpoint.id}", state=True, dry_run=dry_run)
        plan = make_plan(workspace, now, wanted, chosen, refs=refs)
    if partial:
        leave_out_databases(workspace, plan)
    name_holders(workspace, plan)
    result = RestoreResult(
        id="",
        dry_run=dry_run,
        targets=(checkpoint.id,),
        title=checkpoint.text,
        age_s=max(0.0, (workspace.now_ns() - checkpoint.at_ns) / 1e9),
        restored=tuple(plan.actions(workspace.objects)),
        not_covered=tuple(plan.not_covered),
        not_undone=tuple(plan.not_undone),
        notes=tuple(plan.notes),
        conflicts=tuple(plan.conflicts),
        exact=plan.exact,
        checkpoint=own.id,
    )
    if dry_run:
        Applier(workspace, plan).preflight()
        return result
    plans.check_share(workspace, plan, own.files, yes)
    journal = Journal(plan, EventKind.RESTORE, own.id, (checkpoint.id,), checkpoint.text)
    event = carry_out(workspace, recorder, journal, state=state)
    return replace(result, id=event.id, undo_with=f"takeback undo {event.id}")


def take_own(
    w: Workspace, recorder: Recorder, text: str, *, state: bool, dry_run: bool = False
) -> tuple[Checkpoint, Snapshot]:
    """Take the checkpoint that an operation is undone with, and return it opened as well.

    Of a dry run it is not recorded: it has no id.
    """
    if dry_run:
        draft, parts = checkpoints.peek(w, recorder, state=state)
        return draft, Snapshot(w, draft, parts)
    own = checkpoints.take(w, recorder, text=text, state=state, own=True)
    checkpoint = recorder.timeline.checkpoint(own.id)
    assert checkpoint is not None
    return checkpoint, Snapshot(w, checkpoint)


def make_plan(workspace: Workspace, now: Snapshot, wanted: Snapshot, chosen: tuple[bytes, ...], *, refs: bool) -> Plan:
    """Return the plan that leads from one checkpoint to another."""
    if wanted.has_state or now.parts.files == wanted.parts.files:
        return _plan(workspace, now, wanted, chosen, refs, None)
    with workspace.scanner.listing.start_ignored() as ignored:  # side by side with all the rest
        return _plan(workspace, now, wanted, chosen, refs, ignored)


def _plan(
    workspace: Workspace, now: Snapshot, wanted: Snapshot, chosen: tuple[bytes, ...], refs: bool, ignored: Child | None
) -> Plan:
    plan = Plan()
    pairs, plan.touches_state = plans.between(workspace, now, wanted)
    plan.paths = {
        path: pair for path, pair in pairs.items() if plans.selected(path, chosen) and not (chosen and path == b"")
    }
    plans.settle_deletes(plan, now, wanted)
    for path, above in plans.blocked(workspace, plan).items():
        why = f"{names.show(above)} above it is no folder any more"
        raise OpenFileInUse(path=names.show(path), why=why)
    plan.not_covered = [item for item in wanted.not_covered if plans.selected(item.path, chosen)]
    known = {item.path for item in plan.not_covered}
    plan.not_covered += [
        item for item in now.not_covered if item.path not in known and plans.selected(item.path, chosen)
    ]
    for path in {b"", *(path.rpartition(b"/")[0] for path in plan.paths)}:
        entry = now.get(path) if chosen and path == b"" else wanted.get(path)
        if entry is not None and entry.is_dir:
            plan.folder_times[path] = entry.mtime_ns
    if any(pair[1] is not None and not pair[1].is_dir for pair in plan.paths.values()):
        plan.fresh_times = plans.newer_outputs(workspace, wanted, ignored)
        if plan.fresh_times:
            plan.notes.append(
                "changed files get the present time: ignored build outputs newer than the checkpoint stay"
            )
    _plan_git(workspace, plan, now, wanted, chosen, refs)
    if told := wanted.checkpoint.only:
        if all(plans.selected(path, told) for path in chosen):
            plan.notes.append("this checkpoint was told which paths could change; only those are put back")
        else:
            plan.notes.append(
                "this checkpoint was told which paths could change; others are put back as last seen before"
            )
    return plan


def _plan_git(w: Workspace, plan: Plan, now: Snapshot, wanted: Snapshot, chosen: tuple[bytes, ...], refs: bool) -> None:
    if wanted.parts.refs is None:
        return
    plan.rebuild_git = not w.has_git and not chosen
    if plan.rebuild_git:
        refs = True
        plan.notes.append(
            "`.git` was gone and is made again from the checkpoint; reflogs other than the stash are not kept"
        )
    elif not w.has_git:
        return
    changes = gitparts.diff_index(w.store, w.objects, now.parts.index, wanted.parts.index)
    plan.git.index = {path: after for path, (_, after) in changes.items() if plans.selected(path, chosen)}
    old, new = gitparts.read_refs(w.objects, now.parts.refs), gitparts.read_refs(w.objects, wanted.parts.refs)
    if chosen:
        return
    if w.has_git:
        plan.git.objects = lost_objects(w.place, w.store, w.objects, new, wanted.parts.index)
    if refs:
        elsewhere = set() if plan.rebuild_git else held_elsewhere(w.place)
        plan.git.refs = refs_between(old, new, elsewhere)
        if plan.rebuild_git:  # remotes too, and the names that stand for others
            plan.git.refs = {name: ("", oid) for name, (oid, _) in new.refs.items() if name != "refs/stash"}
        plan.git.symbolic = {
            name: new.symbolic.get(name, "")
            for name in old.symbolic.keys() | new.symbolic.keys()
            if old.symbolic.get(name) != new.symbolic.get(name) and not name.startswith("refs/remotes/")
        }
        if old.head != new.head:
            plan.git.head = new.head
        if old.stash != new.stash:
            plan.git.stash = new.stash
    head_then = new.head_commit()
    head_now = head_then if refs else old.head_commit()
    if now.parts.unfinished != wanted.parts.unfinished and head_now == head_then:
        plan.git.unfinished = wanted.parts.unfinished or ""


def restore_to(
    workspace: Workspace, checkpoint: Checkpoint, target: bytes, paths: Sequence[bytes], *, dry_run: bool
) -> RestoreResult:
    """Write a checkpoint (or some of its paths) into a new or empty folder; the project itself need not exist.

    Raises OpenFileInUse when the folder has something in it, CannotWrite when it cannot be made.
    """
    if os.path.lexists(target) and (not os.path.isdir(target) or os.listdir(target)):
        raise OpenFileInUse(path=names.show(target), why="it is not an empty folder")
    wanted = Snapshot(workspace, checkpoint)
    plan = Plan(not_covered=list(wanted.not_covered))
    chosen = tuple(paths)
    for part in (wanted.parts.files, wanted.parts.state):
        for path, entry in tree.walk(workspace.objects, part) if part else ():
            if plans.selected(path, chosen) and path != b".git":
                plan.paths.setdefault(path, (None, entry))
    if chosen or wanted.parts.refs is None:
        plan.paths = {path: pair for path, pair in plan.paths.items() if not path.startswith(b".git/")}
    else:
        plan_new_git(workspace, plan, wanted)
    plan.folder_times = {path: want.mtime_ns for path, (_, want) in plan.paths.items() if want and want.is_dir}
    result = RestoreResult(
        id="", dry_run=dry_run, targets=(checkpoint.id,), title=checkpoint.text,
        age_s=max(0.0, (workspace.now_ns() - checkpoint.at_ns) / 1e9), restored=tuple(plan.actions(workspace.objects)),
        not_covered=tuple(plan.not_covered), notes=tuple(plan.notes), exact=True, checkpoint=checkpoint.id,
        undo_with=f"rm -r {names.show(target)}",
    )  # fmt: skip
    if dry_run:
        return result
    made = not os.path.lexists(target)
    try:
        os.makedirs(target, exist_ok=True)
    except OSError as error:
        raise CannotWrite(path=names.show(target), why=error.strerror, next="name another folder") from error
    elsewhere = workspace.at(Place(os.path.realpath(target)))
    try:
        applier = Applier(elsewhere, plan)
        applier.preflight()
        applier.run(f"takeback: restore {checkpoint.id}")
    except BaseException:
        if made and not os.listdir(target):
            os.rmdir(target)
        raise
    finally:
        elsewhere.close()
    return result


def leave_out_databases(workspace: Workspace, plan: Plan) -> None:
    """Take databases that a process holds open out of a plan."""
    for path, why in Applier(workspace, plan).databases_in_use().items():
        plan.paths.pop(path, None)
        plan.exact = False
        plan.conflicts.append(NotCovered(path, why))


def name_holders(w: Workspace, plan: Plan) -> None:
    """Say which running processes keep the old content of what is replaced or deleted."""
    gone = {w.real(path): path for path, (now, _) in plan.paths.items() if now is not None and not now.is_dir}
    if len(gone) > 5000:
        return
    by_process: dict[int, list[bytes]] = {}
    for full, pids in proc.holders(gone).items():
        for pid in pids:
            by_process.setdefault(pid, []).append(gone[full])
    for pid, held in sorted(by_process.items()):
        plan.not_undone.append(
            f"process {pid} ({proc.command_of(pid)}) still has {names.show(held[0])} open, with its content of now"
        )


def plan_new_git(w: Workspace, plan: Plan, wanted: Snapshot) -> None:
    """Add to a plan all that makes a repository where there is none."""
    refs = gitparts.read_refs(w.objects, wanted.parts.refs)
    plan.rebuild_git = True
    changes = gitparts.diff_index(w.store, w.objects, None, wanted.parts.index)
    plan.git = GitPlan(
        index={path: after for path, (_, after) in changes.items()},
        refs={name: ("", oid) for name, (oid, _) in refs.refs.items() if name != "refs/stash"},
        symbolic=dict(refs.symbolic),
        head=refs.head,
        stash=refs.stash or None,
        unfinished=wanted.parts.unfinished,
    )
