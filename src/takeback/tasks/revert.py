"""Revert a landed task: `git revert` of exactly its commit, tried in a scratch worktree, then one move of its branch.

Does not cover: what is on which branch (`branches`).
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field

from takeback.errors import GitFailed, NothingToDo, RevertRefused
from takeback.host.git import checked
from takeback.host.usergit import UserGit
from takeback.tasks import branches, ground, scratch
from takeback.tasks.branches import REVERTS, Landed
from takeback.tasks.checks import said
from takeback.tasks.job import Tools
from takeback.tasks.model import Check, Task


@dataclass
class Reverted:
    """What a revert did, or would do; `outcome` is reverted, would-revert, conflict or check-failed.

    `reverts` are pairs of a task and the commit that takes it back, in the order they were made.
    """

    task: str
    commit: str
    branch: str
    outcome: str
    reverts: list[tuple[str, str]] = field(default_factory=list)
    conflicts: list[str] = field(default_factory=list)
    dependants: list[str] = field(default_factory=list)
    verify: list[Check] = field(default_factory=list)
    reason: str = ""
    checkpoint: str = ""
    undo: str = ""


def revert(
    tools: Tools, task: Task, *, dependants: bool = False, verify: Sequence[str] = (), dry_run: bool = False
) -> Reverted:
    """Take a landed task back, with `dependants` also those that stand in its way.

    Raises NothingToDo, UsageError, RevertRefused when the tree that has the branch out stands in the way, GitFailed.
    """
    git = tools.git
    branch, mine = branches.holding(git, task)
    if mine.reverted_by:
        raise NothingToDo(
            sentence=f"task {task.id} was taken back already, by {mine.reverted_by[:12]} on {branch}",
            next=f"it comes back with: {_again(git, branch, [mine.reverted_by])}",
        )
    _refuse_squashed(task, branch, mine)
    if branches.nothing_left(git, branch, mine.commit):
        raise NothingToDo(
            sentence=f"task {task.id} was taken back already: {branch} would be the same without {mine.commit[:12]}",
            next=f"git log {shlex.quote(branch)}",
        )
    result = Reverted(task.id, mine.commit, branch, "would-revert" if dry_run else "reverted")
    applies, result.conflicts, result.dependants = branches.without(git, branch, mine.commit)
    if not applies and not (dependants and result.dependants):
        result.outcome = "conflict"
        result.reason = f"{', '.join(result.conflicts) or 'what it changed'} changed since"
        return result
    tip = git.commit(f"refs/heads/{branch}")
    later = {one.task: one for one in branches.landed(git, f"{mine.commit}..{tip}") if not one.reverted_by}
    order = [later[id] for id in result.dependants] + [mine]
    for one in order:
        _refuse_squashed(task, branch, one)
    with scratch.at(tools, tip, id=task.id) as tree:
        for one in order:
            try:
                if made := _one(tools, tree, one):
                    result.reverts.append((one.task, made))
            except GitFailed as error:
                result.outcome, result.reason = "conflict", str(error)
                return result
        new = result.reverts[-1][1] if result.reverts else tip
        result.verify = _checks(tools, tree, task, verify)
    bad = [check for check in result.verify if check.exit != 0]
    if bad:
        result.outcome = "check-failed"
        result.reason = f"without it `{bad[0].cmd}` fails: {said(bad[0])}"
        result.dependants = [one.task for one in branches.later(git, branch, mine.commit)]
        return result
    if dry_run:
        return result
    result.checkpoint = _apply(tools, task, branch, tip, new)
    for id, commit in result.reverts:
        if (tools.tasks.path / id / "record.jsonl").exists():
            tools.tasks.folder(id).append("reverted", at_ns=tools.now_ns(), commit=commit)
    result.undo = _again(git, branch, [commit for _, commit in reversed(result.reverts)])
    return result


def _refuse_squashed(task: Task, branch: str, one: Landed) -> None:
    """Raise RevertRefused for a commit that holds more than one task: git could only take all of them back."""
    if one.squashed:
        raise RevertRefused(
            id=task.id,
            why=f"commit {one.commit[:12]} on {branch} holds several at once: {', '.join(one.squashed)}",
            next=f"git revert {one.commit[:12]} takes all of it back",
        )


def _again(git: UserGit, branch: str, commits: Sequence[str]) -> str:
    """Return the command that brings back what these commits took back, wherever the branch is out."""
    words = f"revert {' '.join(commit[:12] for commit in commits)}"
    if branches.current(git) == branch:
        return f"git {words}"
    place = ground.holder(git, branch)
    if place is not None:
        return f"git -C {shlex.quote(os.fsdecode(place))} {words}"
    return f"git switch {shlex.quote(branch)} && git {words}"


def _one(tools: Tools, git: UserGit, one: Landed) -> str:
    """Revert one commit in the scratch worktree, with the user's name and hooks; return the new commit.

    An empty string when that would change nothing.
    """
    git.run("revert", "--no-commit", one.commit)
    if git.finish("diff-index", "--cached", "--quiet", "HEAD", "--").code == 0:
        git.finish("revert", "--quit")
        return ""
    subject = git.line("log", "-1", "--format=%s", one.commit)
    message = f'Revert "{subject}"\n\nThis reverts commit {one.commit}.\n\n{REVERTS}: {one.task}\n'
    before = git.commit("HEAD")
    done = git.commit_with_hooks(
        tools.git.cwd, "-q", "--no-status", "--cleanup=whitespace", "-F", "-",
        feed=message.encode("utf-8", "surrogateescape"),
    )  # fmt: skip
    checked(["commit"], done)
    made = git.commit("HEAD")
    if git.line("rev-list", "--parents", "-n", "1", made, "--").split()[1:] != [before]:
        raise RevertRefused(
            id=one.task, why="a commit hook made more than the one commit, which one command could not bring back",
            next=f"git revert {one.commit[:12]}, by hand",
        )  # fmt: skip
    return made


def _checks(tools: Tools, git: UserGit, task: Task, more: Sequence[str]) -> list[Check]:
    """Run the task's checks that were green before it, and those asked for now."""
    green = [cmd for cmd in task.wish.verify if cmd not in task.red]
    cmds = list(dict.fromkeys([*green, *more]))
    folder = tools.tasks.folder(task.id)
    checker = tools.checker(task.id, task.wish.check_timeout)
    return checker.run(cmds, git.cwd, lambda number: folder.path / f"revert.check-{number}.out", task=task.id)


def _apply(tools: Tools, task: Task, branch: str, tip: str, new: str) -> str:
    """Move the branch to its new tip, and the tree that has it out along; return the checkpoint of that tree before.

    None is taken where nobody has it out, and while takeback is paused.
    """
    place = ground.holder(tools.git, branch)
    if place is None:
        done = tools.git.finish("update-ref", "-m", f"takeback: revert {task.id}", f"refs/heads/{branch}", new, tip)
        if done.code != 0:
            raise RevertRefused(id=task.id, why=f"branch {branch} moved meanwhile", next="repeat the command")
        return ""
    # A step, so that `undo` puts files, index and branch back together.
    with tools.opened(place) as saver, saver.step(f"revert t:{task.id}", task=task.id) as step:
        done = tools.git.at(place).finish("merge", "--ff-only", "-q", "--no-verify-signatures", new)
        if done.code != 0:
            lines = [line.strip() for line in done.err.decode("utf-8", "replace").splitlines() if line.strip()]
            why = " ".join(lines[:3])[:300] or f"git merge ended with {done.code}"
            raise RevertRefused(
                id=task.id, why=f"{os.fsdecode(place)} stands in the way: {why}", next="commit or stash there"
            )
        return saver.show(step)[0].before or "" if step else ""
