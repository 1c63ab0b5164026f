"""A task from its first line to its last: tree, checkpoint, attempts, landing or the exact way back, clearing up.

    made ─ ready ─┬─ attempt ─ agent ─ saved ─ checked ─ judged ─┬─ landed ─ trial ─ cleared ─ ended
                  └────────────── not yet ───────────────────────┴─ rolled back ─── cleared ─ ended

Each word is a line of the record, written before the next thing begins: a run that was killed goes on from there.
Does not cover: what may be asked for (`start`).
"""

from __future__ import annotations

import os
import shutil

from takeback.errors import NothingToDo, RedCheck, TakebackError
from takeback.tasks import attempt as attempts
from takeback.tasks import ground, landing, scratch
from takeback.tasks.agents.base import Agent, Outcome
from takeback.tasks.attempt import HELD, INTERRUPTED, MOVED, PASSED
from takeback.tasks.checks import quoted, said
from takeback.tasks.flags import changed
from takeback.tasks.job import Job
from takeback.tasks.model import Attempt, Task, TaskOutcome

_NS = 1_000_000_000


def carry_out(job: Job, agent: Agent) -> Task:
    """Do a new task to its end. Raises RedCheck, SetupFailed and what a checkpoint raises: then there is no task."""
    try:
        prepare(job)
    except TakebackError:
        _clear(job)
        shutil.rmtree(job.folder.path, ignore_errors=True)  # there was no task: its id is free again
        raise
    return _go_on(job, agent)


def resume(job: Job, agent: Agent) -> Task:
    """Go on with a task whose run was ended. Raises NothingToDo for one that has ended by itself."""
    task = job.task
    if task.ended:
        raise NothingToDo(sentence=f"task {task.id} has ended: {task.outcome}", next=f"takeback show t:{task.id}")
    job.tools.runner.end_left(job.tools.marker(task.id))  # checks, and a git whose takeback was killed
    for one in task.attempts:
        if one.session and not one.saved:
            job.tools.runner.end_left(one.session)
    if not task.ready:
        prepare(job)
        return _go_on(job, agent)
    commit, n = landing.found(job)
    if commit:
        if not task.commit:
            landing.landed(job, next(one for one in task.attempts if one.n == n), commit)
        return _finish(job)
    last = task.attempts[-1] if task.attempts else None
    if last is None or last.saved:
        job.mend()
    if last is not None and not last.judged:
        if not last.saved:
            if not last.agent_outcome:
                attempts.interrupted(job, last.n)
            attempts.save_tree(job, last.n)
        attempts.judge(job, last.n)
    return _go_on(job, agent)


def prepare(job: Job) -> None:
    """Make the tree, save it, and see that the checks are green before anything is done."""
    task, tools = job.task, job.tools
    state: dict[str, str] = {}
    notes: list[str] = []
    if not task.wish.here:
        ground.add(tools.git.at(task.root, marker=tools.marker(task.id)), task.worktree, task.base, tools.trash)
        state, notes = tools.furnish(
            job.git,
            scratch.state_for(tools, task.base, task.root, but=task.id),
            job.folder.path / "setup.out",
            id=task.id,
        )
    with tools.opened(job.path) as saver:
        before = saver.checkpoint(f"before t:{task.id}", task=task.id)
    red = []
    for number, cmd in enumerate(task.wish.verify, 1):
        check = job.checker.one(cmd, job.path, job.folder.path / f"before.check-{number}.out", task=task.id)
        if check.exit != 0:
            if not task.wish.allow_red:
                raise RedCheck(cmd=cmd, how=said(check), tail=quoted(check.output))
            red.append(cmd)
    job.write("ready", before=before.id, red=red, state=state, notes=notes)
    for note in notes:
        tools.say(note)


def _go_on(job: Job, agent: Agent) -> Task:
    while True:
        task = job.task
        last = task.attempts[-1] if task.attempts else None
        if last is not None and last.outcome == PASSED and last.judged:
            if landing.land(job, last):
                return _finish(job)
            continue
        if last is not None and (over := _over(job, last)):
            return over
        if task.counted >= task.wish.attempts:
            return _fail(job, TaskOutcome.FAILED, last.reason if last else "no attempt was allowed")
        if task.wish.fresh and last is not None and last.outcome != INTERRUPTED:
            _put_back(job)
        attempts.make(job, agent)


def _over(job: Job, last: Attempt) -> Task | None:
    """Return the task when its last attempt leaves nothing to go on with, after a wait None when there is."""
    wish = job.task.wish
    if last.outcome == Outcome.LOGIN_EXPIRED and not _newly_begun(job, last):
        reason = f"the login of {wish.agent} has expired: log in, then `takeback task resume {wish.id}`"
        job.write("stopped", outcome=TaskOutcome.LOGIN_EXPIRED, reason=reason)
        return job.task
    if last.outcome == HELD and job.tools.waiting(job.task):
        job.write("stopped", outcome=TaskOutcome.HELD, reason=f"{last.reason}; then `takeback task resume {wish.id}`")
        return job.task
    spent = job.task.cost_usd
    if last.outcome == Outcome.BUDGET or (
        wish.budget_usd is not None and spent is not None and spent >= wish.budget_usd
    ):
        return _fail(job, TaskOutcome.BUDGET, last.reason or f"the budget of {wish.budget_usd} USD is spent")
    if last.outcome == MOVED:  # the next attempt would meet the same
        return _fail(job, TaskOutcome.FAILED, last.reason)
    if last.outcome == Outcome.USAGE_LIMIT:
        _wait(job, last)
    return None


def _newly_begun(job: Job, last: Attempt) -> bool:
    """Whether this very run is a resume after the person was told: then the agent is asked again."""
    stopped = [event for event in job.folder.events() if event["event"] == "stopped"]
    return bool(stopped) and stopped[-1]["at_ns"] > last.started_ns and job.task.outcome == TaskOutcome.LOGIN_EXPIRED


def _wait(job: Job, last: Attempt) -> None:
    """Wait until a usage limit is over. The attempt is given back."""
    told = [e.get("resets_at_ns") for e in job.folder.events() if e["event"] == "agent" and e["n"] == last.n]
    known = told[-1] if told else None
    now = job.tools.now_ns()
    until = known if known is not None else now + int(job.tools.settings.limit_wait * _NS)
    if until > now:
        job.tools.say(f"usage limit: waiting {(until - now) / _NS / 60:.0f} min, until it resets")
        while (left := until - job.tools.now_ns()) > 0:
            job.tools.sleep(min(left / _NS, 30.0))


def _put_back(job: Job) -> None:
    """Put the tree exactly to what it was before the task: HEAD, index, files, ignored state."""
    job.head_to_base()
    with job.tools.opened(job.path) as saver:
        saver.restore(job.task.before, yes=True)


def _fail(job: Job, outcome: TaskOutcome, reason: str) -> Task:
    if job.task.wish.here:
        _put_back(job)
        job.write("rolled-back", checkpoint=job.task.before)
    else:
        _save_rest(job)
        _clear(job)
        job.write("cleared")
    job.write("ended", outcome=outcome, reason=reason)
    return job.task


def _finish(job: Job) -> Task:
    """After landing: the trial, then the worktree goes."""
    if job.task.revertible is None:
        try:
            landing.trial(job)
        except TakebackError as error:
            job.write("trial", revertible=False, reason=f"it could not be tried: {error}")
    if not job.task.wish.here:
        _clear(job)
        job.write("cleared")
    job.write("ended", outcome=TaskOutcome.LANDED, reason="")
    return job.task


def _save_rest(job: Job) -> None:
    """Save what was written into the tree after its last checkpoint, before it goes; what checks left counts too."""
    if not os.path.isdir(job.path):
        return
    last = next((one for one in reversed(job.task.attempts) if one.saved), None)
    if last is not None and not changed(job.git, last.end_tree, job.tree_now()[0]):
        return
    with job.tools.opened(job.path) as saver:
        saver.checkpoint(f"t:{job.task.id} at its end", task=job.task.id)


def _clear(job: Job) -> None:
    """Take the task's worktree away. In the user's own tree there is nothing to clear."""
    if not job.task.wish.here:
        ground.remove(job.tools.git, job.task.worktree, job.tools.trash)
        job.tools.forget(job.task.worktree)
