"""Landing: one commit with the user's identity and hooks, the branch moved once, and a trial of taking it back.

Does not cover: reverting for real (`revert`).
"""

from __future__ import annotations

import os
import re

from takeback.errors import GitFailed
from takeback.host.usergit import UserGit
from takeback.tasks import attempt as attempts
from takeback.tasks import branches, ground, scratch
from takeback.tasks.attempt import HOOK, MOVED
from takeback.tasks.branches import ATTEMPT, CHECKPOINT, REVERTS, TASK
from takeback.tasks.checks import said
from takeback.tasks.job import Job
from takeback.tasks.model import Attempt, Task
from takeback.tasks.record import save

_SUBJECT = 72
_OURS = f"(?:{TASK}|{ATTEMPT}|{CHECKPOINT}|{REVERTS})"


def land(job: Job, attempt: Attempt) -> bool:
    """Commit an attempt's tree as one commit on the task's branch; False when a hook, or the branch, refused.

    Raises GitFailed when git itself cannot.
    """
    job.head_to_base()
    git = job.git
    if job.task.wish.here or not job.index.give(git, attempt.tree):
        git.run("read-tree", "--reset", attempt.tree)
        git.finish("update-index", "-q", "--refresh")
    note = job.folder.path / f"attempt-{attempt.n}.message"
    save(note, message(job.task, attempt).encode("utf-8", "surrogateescape"))
    done = git.commit_with_hooks(
        job.task.root, "-q", "--no-edit", "--no-status", "--cleanup=whitespace", "-F", os.fspath(note),
        env={"TASK_ID": job.task.id},
    )  # fmt: skip
    words = done.err.decode("utf-8", "replace")
    save(job.folder.path / f"attempt-{attempt.n}.commit.out", words.encode())
    commit = git.commit("HEAD")
    if done.code != 0 or commit == job.task.base:
        job.head_to_base()
        return _refused(job, attempt, f"the commit was refused: {_last(words) or f'git ended with {done.code}'}")
    if why := _more(job, commit) or _other(job, attempt, commit):
        job.head_to_base()
        return _refused(job, attempt, why)
    commit, why = _named(job, attempt, commit)
    if why:
        job.head_to_base()
        return _refused(job, attempt, why)
    if not job.task.wish.here and (why := _move(job, commit)):
        job.head_to_base()
        return _refused(job, attempt, why, MOVED)
    landed(job, attempt, commit)
    return True


def landed(job: Job, attempt: Attempt, commit: str) -> None:
    """Record that it landed, and keep the state it ended with."""
    attempts.copy_state(job)
    job.write("landed", n=attempt.n, commit=commit)
    job.tools.say(f"landed as {commit[:12]} on {job.task.branch}")


def found(job: Job) -> tuple[str, int]:
    """Return the commit and attempt of this task that is on its branch, whatever the record says; ("", 0) for none."""
    git = job.tools.git
    tip = git.commit(f"refs/heads/{job.task.branch}")
    if not tip:
        return "", 0
    for one in branches.landed(git, f"{job.task.base}..{tip}"):
        if one.task == job.task.id and one.attempt:
            return one.commit, one.attempt
    return "", 0


def message(task: Task, attempt: Attempt) -> str:
    """Return the commit's message: what was asked for, and who the commit belongs to."""
    text = task.wish.message.strip() or task.wish.prompt.strip()
    subject, _, rest = text.partition("\n")
    subject = " ".join(subject.split())
    if len(subject) > _SUBJECT:
        cut = subject[: _SUBJECT - 3].rpartition(" ")[0] or subject[: _SUBJECT - 3]
        subject, rest = cut + "...", text
    # A line that looks like a trailer of ours, in a prompt, must not be taken for one.
    rest = re.sub(rf"^([ \t]*)(?={_OURS}\s*:)", r"\1> ", rest.strip(), flags=re.M | re.I)
    body = f"{rest}\n\n" if rest else ""
    trailer = "".join(f"{name}: {value}\n" for name, value in _trailers(task, attempt))
    return f"{subject or f'Task {task.id}'}\n\n{body}{trailer}"


def _trailers(task: Task, attempt: Attempt) -> list[tuple[str, str]]:
    return [(TASK, task.id), (ATTEMPT, str(attempt.n)), (CHECKPOINT, task.before)]


def _more(job: Job, commit: str) -> str:
    """Return what is wrong with a commit that is not the only one since the base, or a merge. Empty when it is well."""
    parents = job.git.line("rev-list", "--parents", "-n", "1", commit, "--").split()[1:]
    if parents == [job.task.base]:
        return ""
    return "a commit hook made more than the one commit of the task, which could not be taken back as one"


def _named(job: Job, attempt: Attempt, commit: str) -> tuple[str, str]:
    """Return the commit with the task's trailers as git reads them, and what is wrong when it cannot have them.

    A hook may rewrite the message and lose them. They are put back rather than the commit refused: no agent could mend
    the hook, so every further attempt, each paid for, would meet the same. What else the hook wrote stays.
    """
    git, ours = job.git, _trailers(job.task, attempt)
    if _has(git, commit, ours):
        return commit, ""
    text = git.run("log", "-1", "--format=%B", commit, "--")
    text = re.sub(rf"^[ \t]*{_OURS}[ \t]*:.*\n?".encode(), b"", text, flags=re.M | re.I)
    more = [word for name, value in ours for word in ("--trailer", f"{name}: {value}")]
    try:
        text = git.run(
            "interpret-trailers", "--no-divider", "--where=end", "--if-exists=add", "--if-missing=add", *more,
            feed=text.rstrip() + b"\n",
        )  # fmt: skip
        # Of the message alone, whatever a hook has left in the index; this git runs no hooks.
        git.run("commit", "-q", "--amend", "--only", "--no-status", "--cleanup=verbatim", "-F", "-", feed=text)
    except GitFailed as error:
        return (
            commit,
            f"a commit hook removed the task's trailers from the message, and they cannot be put back: {error}",
        )
    named = git.commit("HEAD")
    if _has(git, named, ours) and not _more(job, named) and git.tree(named) == git.tree(commit):
        return named, ""
    return commit, "a commit hook removed the task's trailers from the message, and they cannot be put back"


def _has(git: UserGit, commit: str, wanted: list[tuple[str, str]]) -> bool:
    """Whether git reads exactly these trailers of ours from a commit's message."""
    names = [name for name, _ in wanted]
    return [one for one in branches.trailers(git, commit) if one[0] in names] == wanted


def _other(job: Job, attempt: Attempt, commit: str) -> str:
    """Return what is wrong with a commit whose tree is not the judged one: a hook changed it. Empty when it is well."""
    tree = job.git.tree(commit)
    if tree == attempt.tree:
        return ""
    outside = [flag for flag in attempt.flags if flag.name in attempts.SEEN]
    failing = [flag for flag in attempts.weighed(job, tree, outside) if flag.fails]
    if failing:
        return f"a commit hook changed the tree, and now: {'; '.join(attempts.spelled(flag) for flag in failing)}"
    job.git.run("checkout-index", "-q", "-f", "-a")
    checks = attempts.run_checks(job, attempt.n)
    job.write("checked", n=attempt.n, verify=checks, tree=tree)
    bad = [check for check in checks if check.exit != 0]
    return f"a commit hook changed the tree, and now `{bad[0].cmd}` fails: {said(bad[0])}" if bad else ""


def _move(job: Job, commit: str) -> str:
    """Move the branch to the commit; return why not when somebody else moved it meanwhile, or has it out."""
    task, git = job.task, job.tools.git
    if (place := ground.holder(git, task.branch)) is not None:
        return f"branch {task.branch} was checked out meanwhile in {os.fsdecode(place)}"
    old = task.branch_tip or "0" * len(commit)
    done = git.finish("update-ref", "-m", f"takeback: task {task.id}", f"refs/heads/{task.branch}", commit, old)
    if done.code == 0:
        return ""
    now = git.commit(f"refs/heads/{task.branch}")
    return f"branch {task.branch} moved while the task ran, to {now[:12] or 'nothing'}"


def _refused(job: Job, attempt: Attempt, why: str, outcome: str = HOOK) -> bool:
    job.write("judged", n=attempt.n, outcome=outcome, reason=why, refunded=False)
    job.tools.say(why)
    return False


def _last(words: str) -> str:
    lines = [line.strip() for line in words.splitlines() if line.strip()]
    return lines[-1][:300] if lines else ""


def trial(job: Job) -> None:
    """Try to take the landed commit back in a scratch worktree, with the checks, and record the verdict."""
    task = job.task
    if task.wish.here:
        with scratch.at(job.tools, task.commit, id=task.id) as git:
            verdict, why = _tried(job, git)
    else:
        # The task's own tree, with the state it ended with: a change of state that the commit does not hold shows here.
        if _leaves_out(job.git) and not _leaves_out(job.tools.git):  # the agent's own doing: the revert needs all files
            job.git.finish("sparse-checkout", "disable")
        job.git.run("reset", "-q", "--hard", task.commit)
        verdict, why = _tried(job, job.git)
    job.write("trial", revertible=verdict, reason=why)
    if not verdict:
        job.tools.say(f"too big or landed wrong: {why}")


def _leaves_out(git: UserGit) -> bool:
    """Whether a worktree has, or had, a sparse checkout."""
    return os.path.exists(os.path.join(os.path.dirname(git.path("index")), b"info/sparse-checkout"))


def _tried(job: Job, git: UserGit) -> tuple[bool, str]:
    task = job.task
    try:
        git.run("revert", "--no-commit", task.commit)
    except GitFailed as error:
        return False, f"git cannot revert it: {error}"
    green = [cmd for cmd in task.wish.verify if cmd not in task.red]
    for number, cmd in enumerate(green, 1):
        check = job.checker.one(cmd, git.cwd, job.folder.path / f"trial.check-{number}.out", task=task.id)
        if check.exit != 0:
            return False, f"when it is reverted, `{cmd}` fails: {said(check)}"
    return True, ""
