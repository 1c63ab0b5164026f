"""What branches say about tasks: which hold one, whether it was taken back, which came later on the same lines.

Git is asked, not the records: a branch may have been merged, rebased or reverted by hand.
Does not cover: changing any branch (`landing`, `revert`).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from takeback.errors import NothingToDo, UsageError
from takeback.host.usergit import UserGit
from takeback.tasks import trees
from takeback.tasks.flags import changed
from takeback.tasks.model import Task

TASK, ATTEMPT, CHECKPOINT, REVERTS = "Task-Id", "Task-Attempt", "Task-Checkpoint", "Reverts-Task"
_REVERTS = re.compile(r"^This reverts commit ([0-9a-f]{40,64})\b", re.MULTILINE)


@dataclass(frozen=True)
class Landed:
    """One task's commit on a branch; `reverted_by` is the commit that took it back, or empty."""

    task: str
    attempt: int
    commit: str
    reverted_by: str = ""


@dataclass(frozen=True)
class Later:
    """A task that landed after another and touches the same files; `lines`: it changed lines the other had written."""

    task: str
    commit: str
    files: tuple[str, ...]
    lines: bool


def current(git: UserGit) -> str:
    """Return the branch that is out, empty when HEAD is detached."""
    return git.line("symbolic-ref", "-q", "--short", "HEAD", ok=(0, 1))


def landed(git: UserGit, range: str) -> list[Landed]:
    """Return the task commits of a range, newest first, each with whether a later commit of the range took it back."""
    form = "%x01%H%x00%(trailers:only=true,unfold=true)%x00%b"
    out = git.run("log", f"--format={form}", "--topo-order", range, "--").decode("utf-8", "replace")
    undone: dict[str, str] = {}
    found = []
    for record in out.split("\x01")[1:]:
        commit, trailer, body = record.split("\x00", 2)
        if commit not in undone:  # a revert that was itself reverted takes nothing back
            for target in _REVERTS.findall(body):
                undone[target] = commit
        values = dict(_pair(line) for line in trailer.splitlines())
        if TASK in values and REVERTS not in values and not _REVERTS.search(body):
            number = values.get(ATTEMPT, "")
            attempt = int(number) if number.isdigit() else 0
            found.append(Landed(values[TASK], attempt, commit, undone.get(commit, "")))
    return found


def trailers(git: UserGit, commit: str) -> list[tuple[str, str]]:
    """Return the trailers of a commit's message as git reads them, in their order."""
    out = git.run("log", "-1", "--format=%(trailers:only=true,unfold=true)", commit, "--").decode("utf-8", "replace")
    return [_pair(line) for line in out.splitlines() if line]


def _pair(line: str) -> tuple[str, str]:
    name, _, value = line.partition(":")
    return name.strip(), value.strip()


def holding(git: UserGit, task: Task) -> tuple[str, Landed]:
    """Return the branch a landed task is to be reverted on, and its commit there.

    The branch that is out goes first, then the one it landed on, then any other. Raises NothingToDo, UsageError.
    """
    if not task.commit:
        raise NothingToDo(sentence=f"task {task.id} has not landed: {task.outcome}", next=f"takeback show t:{task.id}")
    out = git.run("for-each-ref", "--format=%(refname)", f"--contains={task.commit}", "refs/heads/")
    have = [name.removeprefix("refs/heads/") for name in out.decode("utf-8", "surrogateescape").split("\n") if name]
    first = [name for name in (current(git), task.branch) if name]
    for branch in [name for name in first if name in have] or have[:2]:
        if branch not in first and len(have) > 1:
            raise UsageError(detail=f"task {task.id} is on several branches ({', '.join(have)}): switch to one of them")
        return branch, _on(git, branch, task, task.commit)
    for branch in first:  # by its name: rebased, picked or squashed
        tip = git.commit(f"refs/heads/{branch}")
        for one in landed(git, tip) if tip else ():
            if one.task == task.id:
                return branch, one
    raise NothingToDo(
        sentence=f"the commit of task {task.id} is on no branch any more",
        next=f"git show {task.commit[:12]}",
    )


def _on(git: UserGit, branch: str, task: Task, commit: str) -> Landed:
    later = git.run("log", "--format=%x01%H%x00%b", "--topo-order", f"{commit}..refs/heads/{branch}", "--")
    undone: dict[str, str] = {}
    for record in later.decode("utf-8", "replace").split("\x01")[1:]:
        name, _, body = record.partition("\x00")
        if name not in undone:
            for target in _REVERTS.findall(body):
                undone[target] = name
    return Landed(task.id, task.landed_attempt, commit, undone.get(commit, ""))


def files(git: UserGit, commit: str) -> list[str]:
    """Return the paths a commit changed."""
    parent = git.commit(f"{commit}^")
    before = git.tree(parent) if parent else git.run("mktree", feed=b"").decode().strip()
    return [one.path for one in changed(git, before, git.tree(commit))]


def later(git: UserGit, branch: str, commit: str, *, lines: bool = False) -> list[Later]:
    """Return the tasks that landed on a branch after a commit and touch its files, newest first; those taken back not.

    With `lines` git is asked whose lines they changed.
    """
    mine = set(files(git, commit))
    found = []
    for one in landed(git, f"{commit}..refs/heads/{branch}"):
        shared = tuple(sorted(mine & set(files(git, one.commit))))
        if shared and not one.reverted_by:
            found.append(Later(one.task, one.commit, shared, lines and _same_lines(git, commit, one.commit, shared)))
    return found


def _same_lines(git: UserGit, earlier: str, later: str, paths: Sequence[str]) -> bool:
    """Whether a commit changed or deleted lines that an earlier one wrote."""
    for path in paths:
        patch = git.run("diff-tree", "-p", "-U0", "--no-color", "--no-ext-diff", f"{later}^", later, "--", path)
        ranges = []
        for start, count in re.findall(rb"^@@ -(\d+)(?:,(\d+))? ", patch, re.MULTILINE):
            if (number := int(count or b"1")) > 0:
                ranges += ["-L", f"{int(start)},+{number}"]
        if not ranges:
            continue
        blamed = git.finish("blame", "-s", "-l", "--root", *ranges, f"{later}^", "--", path)
        if blamed.code == 0 and earlier.encode() in {line.split(b" ")[0] for line in blamed.out.splitlines()}:
            return True
    return False


def without(git: UserGit, branch: str, commit: str) -> tuple[bool, list[str], list[str]]:
    """Say whether a commit can be taken off a branch as it is now, on which paths not, and which tasks must go first.

    The tasks are named in the order to revert them, newest first, and are as few as can be. Nothing is written.
    """
    tip = git.commit(f"refs/heads/{branch}")
    with trees.aside(git) as private:
        tree, conflicts = trees.without_commit(private, tip, commit)
        if tree:
            return True, [], []
        candidates = _related(git, branch, commit)
        if not _clean(private, tip, [one.commit for one in candidates] + [commit]):
            return False, conflicts, [one.task for one in candidates]
        for one in list(reversed(candidates)):
            rest = [other for other in candidates if other is not one]
            if _clean(private, tip, [other.commit for other in rest] + [commit]):
                candidates = rest
        return False, conflicts, [one.task for one in candidates]


def _related(git: UserGit, branch: str, commit: str) -> list[Landed]:
    """Return the tasks after a commit that touch its files, or files of one that does, newest first."""
    touched = set(files(git, commit))
    found = []
    for one in reversed(landed(git, f"{commit}..refs/heads/{branch}")):
        theirs = set(files(git, one.commit))
        if not one.reverted_by and theirs & touched:
            touched |= theirs
            found.append(one)
    return found[::-1]


def _clean(git: UserGit, tip: str, commits: Sequence[str]) -> bool:
    tree = tip
    for commit in commits:
        tree, _ = trees.without_commit(git, tree, commit)
        if not tree:
            return False
    return True
