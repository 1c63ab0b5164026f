"""What branches say about tasks: which hold one, whether it was taken back, which came later on the same lines.

Git is asked, not the records: a branch may have been merged, rebased or reverted by hand.
Does not cover: changing any branch (`landing`, `revert`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from takeback.errors import NothingToDo, UsageError
from takeback.host.usergit import UserGit
from takeback.tasks import trees
from takeback.tasks.flags import changed
from takeback.tasks.model import Task

TASK, ATTEMPT, CHECKPOINT, REVERTS = "Task-Id", "Task-Attempt", "Task-Checkpoint", "Reverts-Task"
_REVERTS = re.compile(r"^This reverts commit ([0-9a-f]{40,64})\b", re.MULTILINE)
# What git calls the revert of a revert, since 2.43 and before.
_AGAIN = re.compile(r'Reapply "(.*)"|Revert "Revert "(.*)""')
# A whole message of ours inside another one: squashed by hand (as it was) or by `merge --squash` (indented).
_INSIDE = re.compile(rf"^[ \t]*{TASK}: (\S+)\n[ \t]*{ATTEMPT}: (\d+)$", re.MULTILINE)
_HEADER = re.compile(r"^commit [0-9a-f]{40,64}$", re.MULTILINE)
_TAKEN_INSIDE = re.compile(rf"^[ \t]*{REVERTS}: (\S+)$", re.MULTILINE)


@dataclass(frozen=True)
class Landed:
    """One task's commit on a branch; `reverted_by` is the commit that took it back, or empty.

    `squashed`: what all was squashed into this commit, when it is more than this task.
    """

    task: str
    attempt: int
    commit: str
    reverted_by: str = ""
    squashed: tuple[str, ...] = ()


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
    """Return the task commits of a range, newest first, each with whether a later commit of the range took it back.

    A commit into which several were squashed comes once for each of its tasks.
    """
    return _read(git, range)[0]


def _read(git: UserGit, range: str) -> tuple[list[Landed], _Undone]:
    form = "%x01%H%x00%s%x00%(trailers:only=true,unfold=true)%x00%b"
    out = git.run("log", f"--format={form}", "--topo-order", range, "--").decode("utf-8", "replace")
    undone = _Undone()
    found = []
    for record in out.split("\x01")[1:]:
        commit, subject, trailer, body = record.split("\x00", 3)
        pairs = [_pair(line) for line in trailer.splitlines()]
        values = dict(pairs)
        if held := _squashed(body, values):
            tasks, more = held
            found += [Landed(task, n, commit, undone.by(commit, task), more) for task, n in tasks.items()]
            continue
        if REVERTS in values or _REVERTS.search(body):
            undone.add(commit, subject, _REVERTS.findall(body), [value for name, value in pairs if name == REVERTS])
        elif TASK in values:
            number = values.get(ATTEMPT, "")
            attempt = int(number) if number.isdigit() else 0
            found.append(Landed(values[TASK], attempt, commit, undone.by(commit, values[TASK])))
    return found, undone


def _squashed(body: str, values: Mapping[str, str]) -> tuple[dict[str, int], tuple[str, ...]] | None:
    """Return the tasks with their attempts that a commit has from others squashed into it, and what `Landed` calls so.

    None for a commit that is nothing of the kind.
    """
    inside = {task: int(n) for task, n in _INSIDE.findall(body)}
    if len(inside) < 2 and (not inside or TASK in values or REVERTS in values or _REVERTS.search(body)):
        return None
    gone = set(_TAKEN_INSIDE.findall(body))
    tasks = {task: n for task, n in inside.items() if task not in gone}
    others = len(_HEADER.findall(body)) - len(inside) - len(gone)
    names = (*tasks, *(("other commits",) if others > 0 else ()))
    return tasks, names if len(names) > 1 else ()


class _Undone:
    """What was taken back, read from the newest commit to the oldest: by a commit's name, or after a rebase, which
    leaves stale names in messages, by a task's.
    """

    def __init__(self) -> None:
        self._commits: dict[str, str] = {}
        self._tasks: dict[str, str] = {}
        self._subjects: set[str] = set()

    def add(self, commit: str, subject: str, targets: Sequence[str], tasks: Sequence[str]) -> None:
        """Note a commit that takes others back, unless it was itself taken back, which takes nothing back."""
        if commit in self._commits or subject in self._subjects:
            self._subjects.discard(subject)
            return
        if again := _AGAIN.fullmatch(subject):
            self._subjects.add(f'Revert "{again[1] or again[2]}"')
        for target in targets:
            self._commits[target] = commit
        for task in tasks:
            self._tasks.setdefault(task, commit)

    def by(self, commit: str, task: str) -> str:
        """Return the commit that took back a task's commit, or an empty string."""
        return self._commits.get(commit) or self._tasks.get(task, "")


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
    for branch in first:
        if branch in have:
            return branch, _on(git, branch, task, task.commit)
        if one := _by_name(git, branch, task):
            return branch, one
    if len(have) > 1:
        raise UsageError(detail=f"task {task.id} is on several branches ({', '.join(have[:2])}): switch to one of them")
    if have:
        return have[0], _on(git, have[0], task, task.commit)
    raise NothingToDo(
        sentence=f"the commit of task {task.id} is on no branch any more",
        next=f"git show {task.commit[:12]}",
    )


def _by_name(git: UserGit, branch: str, task: Task) -> Landed | None:
    """Return a task's commit on a branch that has it under another name: rebased, picked or squashed."""
    tip = git.commit(f"refs/heads/{branch}")
    if not tip:
        return None
    # What the task began from cannot hold it.
    since = f"{task.base}..{tip}" if git.commit(task.base) else tip
    return next((one for one in landed(git, since) if one.task == task.id), None)


def _on(git: UserGit, branch: str, task: Task, commit: str) -> Landed:
    undone = _read(git, f"{commit}..refs/heads/{branch}")[1]
    return Landed(task.id, task.landed_attempt, commit, undone.by(commit, task.id))


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


def nothing_left(git: UserGit, branch: str, commit: str) -> bool:
    """Whether a branch would be the same without a commit: it was taken back in some way no message tells of."""
    tip = git.commit(f"refs/heads/{branch}")
    with trees.aside(git) as private:
        return trees.without_commit(private, tip, commit)[0] == git.tree(tip)


def _related(git: UserGit, branch: str, commit: str) -> list[Landed]:
    """Return the tasks after a commit that touch its files, or files of one that does, newest first."""
    touched = set(files(git, commit))
    found: list[Landed] = []
    for one in reversed(landed(git, f"{commit}..refs/heads/{branch}")):
        theirs = set(files(git, one.commit))
        if not one.reverted_by and theirs & touched and one.commit not in {other.commit for other in found}:
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
