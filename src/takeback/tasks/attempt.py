"""One attempt: the agent runs, its tree is saved at once, then flags and checks judge it.

Does not cover: how often (`run`), or what becomes of one that passed (`landing`).
"""

from __future__ import annotations

import os
import uuid
from concurrent.futures import ThreadPoolExecutor

from takeback.host import usergit
from takeback.tasks import flags, ground, outside, trees
from takeback.tasks.agents.base import Agent, Outcome, Report, Request
from takeback.tasks.checks import said, tail
from takeback.tasks.job import GONE, Job
from takeback.tasks.model import Attempt, Check, Flag
from takeback.tasks.record import save

PASSED, FAILED, FLAGGED, HOOK, INTERRUPTED = "passed", "failed", "flagged", "refused-by-hook", "interrupted"
SEEN = ("outside", "left-out")  # flags that are seen while it runs, not from its tree
MOVED, HELD = "branch-moved", "held"
_WORDS = 2000
_COMMITS = 1000


def make(job: Job, agent: Agent) -> Attempt:
    """Run the agent once more and judge what it did. Raises what a checkpoint raises."""
    task, tools = job.task, job.tools
    n = len(task.attempts) + 1
    session = str(uuid.uuid4())
    start = job.tree_now()[0]
    job.keep(f"start-{n}", start)
    job.write("attempt", n=n, session=session, start_tree=start)
    tools.say(f"attempt {n} of {task.wish.attempts + n - 1 - task.counted}: {agent.name}")
    spent = task.cost_usd or 0.0
    budget = None if task.wish.budget_usd is None else max(0.0, task.wish.budget_usd - spent)
    env = usergit.environment(tools.env, top=None if task.wish.here else job.path)
    request = Request(
        prompt=prompt(job), cwd=os.fsdecode(job.path), task=task.id, attempt=n, argv=task.wish.argv,
        timeout=task.wish.timeout, budget_usd=budget, env=env,
        output=os.fspath(job.folder.output(n)), session=session,
    )  # fmt: skip
    before, names = _look(job), outside.refs(tools.git, tools.common)
    report = agent.run(request, tools.runner)
    tools.say(f"agent: {report.outcome}{f' ({report.detail})' if report.detail else ''}")
    lost = [] if task.wish.here else outside.lost(tools.git, names, outside.refs(tools.git, tools.common))
    moved = outside.flag(before, _look(job), lost)
    _ended(job, n, report, [moved] if moved else [])
    save_tree(job, n)
    return judge(job, n)


def _look(job: Job) -> dict[bytes, outside.Stamp]:
    if job.task.wish.here:
        return {}
    tools = job.tools
    ours = os.fsencode(tools.tasks.path.parent)
    return outside.look(tools.git, tools.common, [os.fsencode(path) for path in job.task.state], ours)


def _ended(job: Job, n: int, report: Report, found: list[Flag]) -> None:
    job.write(
        "agent", n=n, agent_outcome=str(report.outcome), agent_exit=report.exit, cost_usd=report.cost_usd,
        words=report.words[-_WORDS:], detail=report.detail, output=os.fspath(job.folder.output(n)), flags=found,
        resets_at_ns=report.resets_at_ns,
    )  # fmt: skip


def interrupted(job: Job, n: int) -> None:
    """Record that takeback itself was ended while the agent ran."""
    job.write(
        "agent", n=n, agent_outcome=INTERRUPTED, agent_exit=None, cost_usd=None, words="", flags=[],
        detail="takeback was ended while it ran", output=os.fspath(job.folder.output(n)),
    )  # fmt: skip


def save_tree(job: Job, n: int) -> None:
    """Save the tree as the agent left it: a checkpoint, what would land as a git tree, the difference as a file."""
    task, tools = job.task, job.tools
    attempt = _nth(job, n)
    known = list(attempt.flags)
    if job.mend() == GONE:
        known.append(Flag("left-out", (), GONE))
    # Both only read the tree, and git has a processor of its own.
    with ThreadPoolExecutor(1) as beside, tools.opened(job.path) as saver:
        asked = beside.submit(job.tree_now)
        made = saver.checkpoint(f"t:{task.id} attempt {n}", task=task.id)
        end, left_out = asked.result()
    if left_out:
        known.append(Flag("left-out", (), "; ".join(left_out[:5])))
    earlier = [one for one in task.attempts if one.n < n and one.saved]
    base = job.base_tree if task.wish.fresh or not earlier else earlier[-1].tree
    start = attempt.start_tree
    if any(not job.git.has_tree(one) for one in {base, start} - {job.base_tree}):
        base = start = job.base_tree
        known.append(
            Flag("left-out", (), "the repository lost what the tree was before: set-up's files count as changes")
        )
    tree = trees.onto(job.git, base, start, end)
    job.keep(f"end-{n}", tree)
    if end != tree:
        job.keep(f"left-{n}", end)
    save(job.folder.diff(n), trees.diff(job.git, job.base_tree, tree))
    commits = job.git.run("rev-list", f"--max-count={_COMMITS}", "HEAD", f"^{task.base}").decode().split()
    job.write(
        "saved", n=n, checkpoint=made.id, ref=made.ref, diff=os.fspath(job.folder.diff(n)), tree=tree, end_tree=end,
        flags=known, commits=commits, holds=list(tools.waiting(task)),
    )  # fmt: skip


def judge(job: Job, n: int) -> Attempt:
    """Say what a saved attempt came to, by its tree and by exit codes, and record it."""
    attempt = _nth(job, n)
    outcome = attempt.agent_outcome
    if outcome in (Outcome.USAGE_LIMIT, Outcome.LOGIN_EXPIRED, INTERRUPTED):
        job.write("judged", n=n, outcome=outcome, reason=attempt.detail or outcome, refunded=True)
        return _nth(job, n)
    found = weighed(job, attempt.tree, [flag for flag in attempt.flags if flag.name in SEEN])
    if outcome != Outcome.DONE:
        reason = f"the agent ended with {outcome}" + (f": {attempt.detail}" if attempt.detail else "")
        job.write("judged", n=n, outcome=outcome, reason=reason, flags=found, refunded=False)
        return _nth(job, n)
    failing = [flag for flag in found if flag.fails]
    checks = run_checks(job, n)
    job.write("checked", n=n, verify=checks)
    bad = [check for check in checks if check.exit != 0]
    reasons = [f"check `{check.cmd}` failed: {said(check)}" for check in bad]
    reasons += [spelled(flag) for flag in failing]
    result = FAILED if bad else FLAGGED if failing else PASSED
    if result != PASSED and attempt.holds:
        result = HELD
        reasons.insert(0, f"{', '.join(attempt.holds)} wait for a person (`takeback holds`)")
    job.write("judged", n=n, outcome=result, reason="; ".join(reasons), flags=found, refunded=result == HELD)
    for flag in found:
        job.tools.say(f"flag {spelled(flag)}{'' if flag.fails else ' (allowed)'}")
    return _nth(job, n)


def run_checks(job: Job, n: int) -> list[Check]:
    """Run the task's checks in its tree."""
    return job.checker.run(job.task.wish.verify, job.path, lambda number: job.folder.check(n, number), task=job.task.id)


def weighed(job: Job, tree: str, more: list[Flag]) -> list[Flag]:
    """Return the flags of a tree that would land, with what policy allows marked so."""
    settings = job.tools.settings
    found = flags.judge(job.git, job.base_tree, tree, settings)
    return flags.weigh([*found, *more], {*settings.allow, *job.task.wish.allow})


def spelled(flag: Flag) -> str:
    """Return a flag in words, with some of its paths."""
    paths = ", ".join(flag.paths[:3]) + (f" and {len(flag.paths) - 3} more" if len(flag.paths) > 3 else "")
    rest = ": ".join(part for part in (paths, flag.detail) if part)
    return f"{flag.name}: {rest}" if rest else flag.name


def prompt(job: Job) -> str:
    """Return what the agent is asked: the task, and for a later attempt what was wrong with the one before."""
    wish = job.task.wish
    tried = [one for one in job.task.attempts if one.judged and one.outcome != Outcome.USAGE_LIMIT]
    if not tried:
        return wish.prompt
    last = tried[-1]
    where = (
        "The tree is as it was before that attempt: start again." if wish.fresh
        else "The tree is as that attempt left it: carry on from there."
    )  # fmt: skip
    lines = [wish.prompt.rstrip(), "", f"An attempt before this one did not pass. {where}"]
    if last.reason:
        lines.append(f"Why: {last.reason}")
    for check in last.verify:
        if check.exit != 0 and (end := tail(check.output)):
            lines += ["", f"The end of what `{check.cmd}` said:", end.rstrip()]
    if last.outcome == HOOK and (end := tail(os.fspath(job.folder.path / f"attempt-{last.n}.commit.out"))):
        lines += ["", "What the commit hook said:", end.rstrip()]
    return "\n".join(lines) + "\n"


def _nth(job: Job, n: int) -> Attempt:
    return next(one for one in job.task.attempts if one.n == n)


def copy_state(job: Job) -> None:
    """Keep the state files a landed task ended with, for the next one on its branch."""
    if not job.task.wish.here:
        ground.keep_state(job.git, os.fsencode(job.folder.state), job.tools.settings)
