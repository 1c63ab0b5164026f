"""Look for what is wrong with a project's private data, and mend it when asked.

Does not cover: the user's own repository, beyond what takeback needs of it.
"""

from __future__ import annotations

import os

from takeback.errors import Damaged, TakebackError
from takeback.files import gc, leftovers, mend, operation
from takeback.files import journal as journals
from takeback.files.listing import STAGE
from takeback.files.mend import Damage
from takeback.files.names import human
from takeback.files.record import Recorder
from takeback.files.views import folder_size
from takeback.files.workspace import Workspace
from takeback.host import git, locks
from takeback.model import Finding

_LOW = 1024 * 1024 * 1024
_CHECKED = 200


def examine(workspace: Workspace, recorder: Recorder, *, rebuilt: int | None, fix: bool) -> list[Finding]:
    """Return one finding per thing looked at; `fix` mends what can be mended, `rebuilt` events were just made again."""
    found = [_git(), _space(workspace)]
    if rebuilt is not None:
        found.append(Finding("timeline", True, f"made again from the store: {rebuilt} events"))
    else:
        found.append(_timeline(workspace, recorder, fix))
    found.append(_locks(workspace))
    found.append(_leftovers(workspace, recorder, fix))
    damage = mend.look(workspace)
    if damage.lines and fix:
        with workspace.locked("doctor"):
            mend.set_aside(workspace, damage)
    found.append(_cache(workspace, fix))
    found.append(_objects(damage, fix))
    found.append(_checkpoints(workspace, recorder, damage.objects))
    return found


def _git() -> Finding:
    try:
        text = ".".join(map(str, git.version()))
    except TakebackError as error:
        return Finding("git", False, str(error), error.hint_text)
    return Finding("git", True, f"version {text}")


def _space(w: Workspace) -> Finding:
    disk = os.statvfs(w.project.path)
    free = disk.f_bavail * disk.f_frsize
    text = f"{human(free)} free where checkpoints are kept, {human(folder_size(w.project.store))} used"
    return Finding(
        "disk", free > _LOW, text, "" if free > _LOW else "free some space, or `takeback gc --max-size 500M`"
    )


def _timeline(w: Workspace, recorder: Recorder, fix: bool) -> Finding:
    problems = list(recorder.timeline.verify())
    if problems:
        return Finding("timeline", False, problems[0], "takeback doctor --rebuild")
    problems = recorder.problems()
    if problems and fix:
        with w.locked("doctor"):
            recorder.mend()
        left = recorder.problems()
        return Finding("timeline", not left, "; ".join(left[:5]) or "written into the store again", "takeback gc")
    if problems:
        return Finding("timeline", False, "; ".join(problems[:5]), "takeback doctor --fix")
    try:
        recorder.sync()
    except Damaged as error:
        return Finding("timeline", False, str(error), "takeback doctor --rebuild")
    return Finding("timeline", True, f"{recorder.timeline.last_seq} events")


def _locks(w: Workspace) -> Finding:
    held = [path for path in (w.dir.lock, w.project.lock) if path.exists() and locks.is_held(path)]
    if held:
        return Finding("locks", False, f"held by {locks.owner(held[0])}", "wait for it to end")
    return Finding("locks", True, "none held")


def _leftovers(w: Workspace, recorder: Recorder, fix: bool) -> Finding:
    root = w.place.root
    stages = [name for name in os.listdir(root) if name.startswith(STAGE)] if os.path.isdir(root) else []
    temps = leftovers.in_store(w)
    index_lock = w.dir.index + b".lock"
    if not (stages or temps or w.dir.journal.exists() or os.path.exists(index_lock)):
        return Finding("leftovers", True, "none")
    if not fix:
        what = "an interrupted restore" if w.dir.journal.exists() else "files of a command that was killed"
        return Finding("leftovers", False, what, "takeback doctor --fix (the next command also finishes it)")
    with w.locked("doctor"):
        try:
            operation.recover(w, recorder)
        except Damaged:
            if w.dir.journal.exists():
                os.replace(w.dir.journal, w.dir.journal.with_suffix(".damaged"))
        journals.clean_stages(w)
        leftovers.clean_scratch(w)
        leftovers.clean_store(w)
    return Finding("leftovers", True, "cleaned")


def _cache(w: Workspace, fix: bool) -> Finding:
    tree = w.cursor.tree
    if tree is None or not w.store.missing([tree]):
        return Finding("cache", True, "the scan's cache fits the store")
    if fix:
        with w.locked("doctor"):
            w.dir.cursor.unlink(missing_ok=True)
            w.drop_cursor()
        return Finding("cache", True, "dropped; the next checkpoint scans everything")
    return Finding("cache", False, "it names objects that are gone", "takeback doctor --fix")


def _objects(damage: Damage, fix: bool) -> Finding:
    if not damage.lines:
        return Finding("objects", True, "every object is there and whole")
    what = f"{len(damage.lines)} problems: {damage.lines[0]}"
    if fix:
        return Finding("objects", False, f"{what}; set aside", "takeback checkpoint, which saves again what is on disk")
    return Finding(
        "objects", False, what, "takeback doctor --fix, then `takeback checkpoint` saves again what is on disk"
    )


def _checkpoints(w: Workspace, recorder: Recorder, damaged: frozenset[str]) -> Finding:
    bad: list[str] = []
    newest = [one for one, _ in zip(recorder.timeline.checkpoints(), range(_CHECKED), strict=False)]
    for checkpoint in newest:
        problem = gc.problem_with(w, checkpoint, damaged)
        if problem:
            bad.append(f"{checkpoint.id}: {problem}")
    if bad:
        return Finding(
            "checkpoints", False, "; ".join(bad[:5]), "the others can be restored; `takeback checkpoint` saves anew"
        )
    return Finding("checkpoints", True, f"the newest {len(newest)} can be restored whole")
