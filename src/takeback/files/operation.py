"""Carry out a plan as one operation: journal, write, verify, checkpoint, event. Shared by restore, undo and redo.

Does not cover: making the plan.
"""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from dataclasses import replace

from takeback.errors import Damaged, TakebackError
from takeback.files import checkpoint as checkpoints
from takeback.files import gitparts, leftovers, names
from takeback.files import journal as journals
from takeback.files.apply import Applier
from takeback.files.gitrestore import GitPlan, free_dead_lock
from takeback.files.journal import Journal
from takeback.files.plan import Plan
from takeback.files.reader import Seen
from takeback.files.record import Recorder
from takeback.files.workspace import Workspace
from takeback.model import Entry, Event


def carry_out(workspace: Workspace, recorder: Recorder, journal: Journal, *, state: bool) -> Event:
    """Do it all and return the event; the worktree's lock is held and `journal.own` is the state now.

    Raises what Applier raises, with the tree put back as it was where that is possible.
    """
    applier = Applier(workspace, journal.plan)
    applier.preflight()
    workspace.objects.flush()
    journal = replace(journal, seq=recorder.timeline.last_seq)
    journals.write(workspace, journal)
    return _finish(workspace, recorder, journal, applier, state=state)


def recover(workspace: Workspace, recorder: Recorder) -> Event | None:
    """Finish what a killed process left half done; the worktree's lock is held."""
    journals.clean_stages(workspace)
    leftovers.clean_scratch(workspace)
    if workspace.after_death:
        leftovers.clean_store(workspace)
    journal = journals.read(workspace)
    if journal is None:
        return None
    recorder.sync()
    done = [e for e in recorder.timeline.events(journal.seq) if e.before == journal.own and e.kind is journal.kind]
    if done:
        journals.clear(workspace)
        return done[-1]
    if workspace.has_git:
        free_dead_lock(workspace.place)
    rest = _remaining(workspace, journal.plan)
    Applier(workspace, Plan(folder_times=rest.folder_times)).run("")  # what the next line saves is what will be
    # Whoever found the half-done tree may have worked in it: what this overwrites must be in a checkpoint.
    found = checkpoints.take(workspace, recorder, text=f"half of {journal.kind} {' '.join(journal.targets)}", own=True)
    journal = replace(journal, plan=rest, data={**journal.data, "found": found.id})
    return _finish(workspace, recorder, journal, Applier(workspace, rest), state=True)


def _finish(workspace: Workspace, recorder: Recorder, journal: Journal, applier: Applier, *, state: bool) -> Event:
    times = _folder_times(workspace, journal.plan)
    try:
        applier.run(f"takeback: {journal.kind} {' '.join(journal.targets)}")
    except (TakebackError, OSError):
        _back_out(workspace, recorder, journal, times)
        raise
    wrong = applier.verify()
    if wrong:
        journals.clear(workspace)  # else every later command would do it again, over the other program's work
        raise Damaged(
            what=f"the result of this {journal.kind}",
            detail="these paths are not as wanted: " + ", ".join(names.show(path) for path in wrong[:10]),
            next=f"another program may be writing here; `takeback restore {journal.own}` puts back the tree before it",
        )
    after = checkpoints.take(
        workspace, recorder, text=f"after {journal.kind} {' '.join(journal.targets)}", state=state,
        session=journal.session, task=journal.task, just_scanned=_touched(journal.plan),
        same_git=not journal.plan.git, own=True,
    )  # fmt: skip
    event = record(workspace, recorder, journal, after.id)
    journals.clear(workspace)
    return event


def record(workspace: Workspace, recorder: Recorder, journal: Journal, after: str) -> Event:
    """Append the event of an operation that led to the checkpoint `after`."""
    return recorder.event(
        journal.kind,
        lambda id: Event(
            seq=0,
            id=id,
            kind=journal.kind,
            at_ns=workspace.now_ns(),
            worktree=workspace.dir.key,
            session=journal.session,
            task=journal.task,
            before=journal.own,
            after=after,
            targets=journal.targets,
            text=journal.text,
            data=journal.data,
        ),
    )


def _touched(plan: Plan) -> list[bytes] | None:
    """The paths to look at again; None when everything must be walked."""
    if plan.rebuild_git or plan.touches_state:
        return None
    return list(plan.paths)


def _remaining(workspace: Workspace, plan: Plan) -> Plan:
    """The part of a plan that is not done yet, from what is on disk now."""
    rest: dict[bytes, tuple[Entry | None, Entry | None]] = {}
    times = dict(plan.folder_times)
    for path, (_, want) in plan.paths.items():
        now = on_disk(workspace, path)
        if now != want:
            rest[path] = (now, want)
        if want is not None and want.is_dir:
            times[path] = want.mtime_ns  # also of a folder that is as wanted: the rest of the work moves it again
    return replace(plan, paths=rest, folder_times=times)


def on_disk(workspace: Workspace, path: bytes) -> Entry | None:
    """Return what is at a path now."""
    found = workspace.reader.look(path)
    if found is None:
        return None
    if stat.S_ISDIR(found.st_mode):
        return Entry(found.st_mode, found.st_uid, found.st_gid, found.st_mtime_ns, "")
    read = workspace.reader.read(path)
    return read.entry if isinstance(read, Seen) else None


def _folder_times(workspace: Workspace, plan: Plan) -> dict[bytes, int]:
    """The times of the folders a plan will touch, before it does."""
    folders = {b"", *plan.folder_times, *(path.rpartition(b"/")[0] for path in plan.paths)}
    looked = {path: workspace.reader.look(path) for path in folders}
    return {path: found.st_mtime_ns for path, found in looked.items() if found is not None}


def _back_out(workspace: Workspace, recorder: Recorder, journal: Journal, times: dict[bytes, int]) -> None:
    """Put the paths and the git state back as they were; if that fails too the journal stays."""
    back = Plan(
        paths={path: (on_disk(workspace, path), now) for path, (now, _) in journal.plan.paths.items()},
        folder_times=times,
    )
    back.paths = {path: (disk, want) for path, (disk, want) in back.paths.items() if disk != want}
    with suppress(TakebackError, OSError):
        if journal.plan.git and not journal.plan.rebuild_git:
            back.git = _git_before(workspace, recorder, journal)
        Applier(workspace, back).run("takeback: put back")
        if os.path.exists(workspace.place.root):
            journals.clear(workspace)


def _git_before(workspace: Workspace, recorder: Recorder, journal: Journal) -> GitPlan:
    """What a plan changes in the repository, as the operation's own checkpoint has it."""
    own = recorder.timeline.checkpoint(journal.own)
    if own is None:
        raise Damaged(what=f"checkpoint {journal.own}", detail="it is gone", next="`takeback doctor`")
    parts, objects, plan = checkpoints.read_parts(workspace.objects, own), workspace.objects, journal.plan.git
    refs = gitparts.read_refs(objects, parts.refs)
    return GitPlan(
        index={path: gitparts.index_value(workspace.store, objects, parts.index, path) for path in plan.index},
        refs={name: (new, old) for name, (old, new) in plan.refs.items()},
        symbolic={name: refs.symbolic.get(name, "") for name in plan.symbolic},
        head=None if plan.head is None else refs.head,
        stash=None if plan.stash is None else refs.stash,
        unfinished=None if plan.unfinished is None else parts.unfinished or "",
    )
