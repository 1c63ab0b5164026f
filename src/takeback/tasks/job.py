"""What work on one task has at hand: its record, its tree, and everything that is passed in from outside.

Does not cover: the order of things (`run`).
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

from takeback.errors import SetupFailed
from takeback.host import copies
from takeback.host.headless import Runner
from takeback.host.usergit import UserGit
from takeback.model import CheckpointResult, Event
from takeback.tasks import ground, mending, trees
from takeback.tasks.agents.base import Agent
from takeback.tasks.checks import Checker, quoted, said
from takeback.tasks.model import Task
from takeback.tasks.record import Folder, Tasks, fold
from takeback.tasks.settings import TaskSettings

GONE = "the agent removed the task's tree with what it had done there"  # what `Job.mend` says of that
# What an operation of git's that was not ended leaves: the next commit would be its end, with other parents or authors.
_UNFINISHED = (
    "MERGE_HEAD", "MERGE_MODE", "MERGE_MSG", "AUTO_MERGE", "SQUASH_MSG", "CHERRY_PICK_HEAD", "REVERT_HEAD",
)  # fmt: skip
_UNFINISHED_FOLDERS = ("rebase-merge", "rebase-apply", "sequencer")


class Saver(Protocol):
    """A worktree that can be saved and put back: a project."""

    def checkpoint(self, message: str = "", *, task: str | None = None) -> CheckpointResult:
        """Save the worktree now, files and state."""

    def step(self, text: str, *, task: str | None = None) -> AbstractContextManager[str]:
        """Record the block as one step and give its id, an empty one while takeback is paused."""

    def show(self, id: str) -> tuple[Event, object, object]:
        """Return what is recorded under an id, first the event."""

    def restore(self, id: str, *, yes: bool = False) -> object:
        """Put the whole worktree exactly to a checkpoint."""


@dataclass(frozen=True)
class Tools:
    """What work on tasks of one project needs; times in nanoseconds for `now_ns`, in seconds for `sleep`."""

    git: UserGit  # in the tree the person is in
    common: bytes  # the repository's common directory
    key: str  # the project's key
    settings: TaskSettings
    env: Mapping[str, str]
    tasks: Tasks
    trash: bytes  # what is to be deleted waits there
    runner: Runner
    opened: Callable[[bytes], AbstractContextManager[Saver]]
    forget: Callable[[bytes], None]
    waiting: Callable[[Task], Sequence[str]]  # holds: the task's actions outside that wait for a person
    now_ns: Callable[[], int]
    sleep: Callable[[float], None]
    say: Callable[[str], None]

    def checker(self, id: str, timeout: float) -> Checker:
        """Return what runs the checks of a task."""
        return Checker(self.runner, self.env, timeout, self.say, self.marker(id))

    def marker(self, id: str) -> str:
        """Return what marks the processes of a task's checks, and git's in its tree."""
        return f"takeback-task-{self.key}-{id}"

    def furnish(self, git: UserGit, state: ground.State, output: Path, *, id: str) -> tuple[dict[str, str], list[str]]:
        """Give a new worktree state files and dependencies, and run the set-up; return digests and notes.

        Raises SetupFailed.
        """
        settings = self.settings
        digests, notes = state.fill(self.git.at(state.user), git.cwd, settings)
        ground.dependencies(state.user, git.cwd, settings, copies.clone)
        if settings.setup:
            done = self.checker(id, settings.setup_timeout).one(settings.setup, git.cwd, output, task=id)
            if done.exit != 0:
                raise SetupFailed(cmd=settings.setup, how=said(done), tail=quoted(done.output))
        return digests, notes


class Job:
    """Work on one task; whoever has it holds the task's lock."""

    def __init__(self, tools: Tools, folder: Folder, task: Task, agent: Agent | None = None) -> None:
        self.tools = tools
        self.folder = folder
        self.task = task
        self.agent = agent
        self.path = task.root if task.wish.here else task.worktree
        self.git = tools.git.at(self.path, marker=tools.marker(task.id), top=not task.wish.here)
        self.checker = tools.checker(task.id, task.wish.check_timeout)
        self.index = trees.Index(os.fspath(folder.path / "index"))

    def write(self, event: str, **fields: Any) -> None:
        """Add a line to the record, and know it."""
        self.folder.append(event, at_ns=self.tools.now_ns(), **fields)
        self.task = fold(self.folder.events())

    def close(self) -> None:
        """Forget what was kept to be faster."""
        self.index.drop()

    def tree_now(self) -> tuple[str, list[str]]:
        """Return the tree that git would commit now, and what it cannot take. Raises GitFailed."""
        return trees.write(self.git, self.index, self.base_tree, self.links)

    def mend(self) -> str:
        """See that the task's own worktree is there and git works in it; return what was wrong, "" for nothing.

        Raises what a restore raises.
        """
        if self.task.wish.here:
            return ""
        if not os.path.isdir(self.path) or os.path.islink(self.path):
            self.remake()
            return GONE
        tools = self.tools
        aside = self.folder.path / f"attempt-{len(self.task.attempts)}.git"
        wrong = mending.mend(self.git, tools.git, tools.common, self.task.base, tools.trash, aside)
        if wrong:
            tools.say(f"the worktree's own `.git`, HEAD or index was broken and is repaired: {wrong}")
        return wrong

    def remake(self) -> None:
        """Make a worktree that is gone once more, as the newest checkpoint of the task has it."""
        ground.add(self.tools.git, self.path, self.task.base, self.tools.trash)
        self.git.forget_paths()
        saved = [one.checkpoint for one in self.task.attempts if one.checkpoint]
        with self.tools.opened(self.path) as saver:
            saver.restore(saved[-1] if saved else self.task.before, yes=True)

    def keep(self, name: str, tree: str) -> None:
        """Keep a tree that no commit has from `git gc`, by a ref and its log that only this worktree has."""
        if tree != self.base_tree and not self.task.wish.here:
            # Of other worktrees git heeds the logs alone, and in these commits alone.
            ref, commit = f"refs/worktree/takeback/{name}", trees.commit_of(self.git, tree)
            self.git.run("update-ref", "--create-reflog", "-m", "takeback", ref, commit)

    @property
    def links(self) -> list[str]:
        """Shared directories in the tree, which no commit may hold."""
        return [] if self.task.wish.here else list(ground.links_of(self.tools.settings, self.path))

    @cached_property
    def base_tree(self) -> str:
        return self.tools.git.tree(self.task.base)

    def head_to_base(self) -> None:
        """Put HEAD where the task began, whatever the agent did with it; files and index stay."""
        self._unlock()
        git = self.git
        self._end_unfinished()
        if self.task.wish.here:
            branch = f"refs/heads/{self.task.branch}"
            if git.line("symbolic-ref", "-q", "HEAD", ok=(0, 1)) != branch:
                git.run("symbolic-ref", "-m", "takeback: back to the task's branch", "HEAD", branch)
            if git.commit(branch) != self.task.base:
                git.run("update-ref", "-m", f"takeback: task {self.task.id}", branch, self.task.base)
        elif git.commit("HEAD") != self.task.base or git.line("symbolic-ref", "-q", "HEAD", ok=(0, 1)):
            git.run("update-ref", "--no-deref", "-m", f"takeback: task {self.task.id}", "HEAD", self.task.base)

    def _end_unfinished(self) -> None:
        """Forget a merge, pick, revert or rebase that the agent began and did not end; files and index stay."""
        for name in _UNFINISHED:
            with suppress(FileNotFoundError):
                os.unlink(self.git.path(name))
        for name in _UNFINISHED_FOLDERS:
            shutil.rmtree(self.git.path(name), ignore_errors=True)

    def _unlock(self) -> None:
        """Remove an index.lock that a killed git of the agent left in the task's own worktree."""
        if self.task.wish.here:
            return
        try:
            os.unlink(self.git.path("index.lock"))
        except FileNotFoundError:
            pass
