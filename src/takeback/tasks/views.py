"""Look at tasks: the list, and one with what could be done about it now.

Does not cover: changing anything.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from takeback.errors import GitFailed, NothingToDo, UsageError
from takeback.tasks import branches
from takeback.tasks.branches import Later
from takeback.tasks.job import Tools
from takeback.tasks.model import Task, TaskOutcome


@dataclass
class Now:
    """A landed task as its branch has it now.

    `applies`: whether its revert applies, None when it has not landed or was taken back. `first` must be reverted
    before it, in this order.
    """

    branch: str = ""
    files: list[str] = field(default_factory=list)
    applies: bool | None = None
    conflicts: list[str] = field(default_factory=list)
    first: list[str] = field(default_factory=list)
    later: list[Later] = field(default_factory=list)
    reverted_by: str = ""
    reason: str = ""


def listed(tools: Tools) -> list[Task]:
    """Return all tasks, oldest first, each as it stands: one whose run has ended without a word is interrupted."""
    return [as_it_stands(tools, task) for task in tools.tasks.tasks()]


def as_it_stands(tools: Tools, task: Task) -> Task:
    """Return a task with `interrupted` for one that says it runs while nobody works on it."""
    if task.outcome is TaskOutcome.RUNNING and not tools.tasks.folder(task.id).is_running():
        task.outcome = TaskOutcome.INTERRUPTED
        task.reason = f"its run was ended; `takeback task resume {task.id}` goes on"
    return task


def now(tools: Tools, task: Task) -> Now:
    """Return what git says about a task at this moment."""
    found = Now()
    git = tools.git
    try:
        found.branch, mine = branches.holding(git, task)
        found.files = branches.files(git, mine.commit)
        found.reverted_by = mine.reverted_by
        found.later = branches.later(git, found.branch, mine.commit, lines=True)
        if mine.squashed:
            found.reason = f"squashed into one commit with {', '.join(mine.squashed)}: git revert {mine.commit[:12]}"
        elif not mine.reverted_by and branches.nothing_left(git, found.branch, mine.commit):
            found.reason = f"taken back already: {found.branch} would be the same without it"
        elif not mine.reverted_by:
            found.applies, found.conflicts, found.first = branches.without(git, found.branch, mine.commit)
    except (NothingToDo, UsageError, GitFailed) as error:
        found.reason = str(error)
    return found
