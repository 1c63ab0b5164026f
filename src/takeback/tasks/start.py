"""Begin a task: what cannot be meant is refused before anything is made.

Does not cover: doing it (`run`).
"""

from __future__ import annotations

import os
import re
from dataclasses import replace

from takeback.errors import BranchElsewhere, DirtyTree, NoCheck, NoCommits, NoIdentity, UsageError
from takeback.host.usergit import UserGit
from takeback.tasks import ground
from takeback.tasks.job import Tools
from takeback.tasks.model import FLAGS, Task, Wish
from takeback.tasks.record import FORMAT, Folder, check_id

_WORDS = 5


def meant(wish: Wish) -> None:
    """Refuse what cannot be meant, whatever the project and the agent. Raises NoCheck, UsageError."""
    if not [cmd for cmd in wish.verify if cmd.strip()]:
        raise NoCheck()
    if not wish.prompt.strip():
        raise UsageError(detail="the prompt is empty: say with --prompt or --prompt-file what is to be done")
    if unknown := sorted(set(wish.allow) - set(FLAGS)):
        raise UsageError(detail=f"there is no flag {unknown[0]!r}; flags are {', '.join(FLAGS)}")
    if wish.id:
        check_id(wish.id)


def begin(tools: Tools, wish: Wish) -> tuple[Folder, Task]:
    """Make the record of a new task and return both.

    Raises NoCheck, UsageError, NoCommits, NoIdentity, DirtyTree, BranchElsewhere, TaskExists.
    """
    meant(wish)
    wish = replace(wish, id=check_id(wish.id) if wish.id else _free_id(tools, wish.prompt))
    git = tools.git
    head = git.commit("HEAD")
    if not head:
        raise NoCommits(root=os.fsdecode(git.cwd))
    _identity(tools)
    branch, base, tip = _here(tools, wish, head) if wish.here else _beside(tools, wish, head)
    folder = tools.tasks.make(wish.id)
    worktree = b"" if wish.here else folder.worktree(git.cwd)
    folder.append(
        "made", format=FORMAT, at_ns=tools.now_ns(), wish=wish, root=git.cwd, base=base, branch=branch, branch_tip=tip,
        worktree=worktree,
    )  # fmt: skip
    task = folder.task()
    assert task is not None
    return folder, task


def _identity(tools: Tools) -> None:
    """Raise NoIdentity when git would refuse to commit: no agent could mend that, and each attempt is paid for."""
    for name in ("GIT_COMMITTER_IDENT", "GIT_AUTHOR_IDENT"):
        done = tools.git.finish("var", name)
        if done.code != 0:
            lines = [line.strip() for line in done.err.decode("utf-8", "replace").splitlines() if line.strip()]
            raise NoIdentity(why=lines[-1].removeprefix("fatal: ") if lines else f"{name} is not set")


def _here(tools: Tools, wish: Wish, head: str) -> tuple[str, str, str]:
    git = tools.git
    current = git.line("symbolic-ref", "-q", "--short", "HEAD", ok=(0, 1))
    if not current:
        raise UsageError(detail="HEAD is detached, so --here has no branch to land on: switch to one first")
    if wish.onto is not None and wish.onto != current:
        raise UsageError(detail=f"--here lands on the branch that is out, {current}, not on {wish.onto}")
    out = git.run("--no-optional-locks", "status", "--porcelain", "-z", "-unormal", "--no-renames")
    if dirty := [os.fsdecode(one[3:]) for one in out.split(b"\0") if one]:
        raise DirtyTree(paths=", ".join(dirty[:3]) + (f" and {len(dirty) - 3} more" if len(dirty) > 3 else ""))
    return current, head, head


def _beside(tools: Tools, wish: Wish, head: str) -> tuple[str, str, str]:
    git = tools.git
    branch = (wish.onto or f"takeback/{wish.id}").removeprefix("refs/heads/")
    if not ground.good_branch(git, branch):
        raise UsageError(detail=f"git takes {branch!r} for no branch's name")
    if (place := ground.holder(git, branch)) is not None:
        raise BranchElsewhere(branch=branch, place=os.fsdecode(place))
    tip = git.commit(f"refs/heads/{branch}")
    if tip and wish.onto is None:
        raise UsageError(detail=f"there is a branch {branch} already: choose another --id, or land on it with --onto")
    parts = branch.split("/")
    for above in ("/".join(parts[:count]) for count in range(1, len(parts))):
        if git.commit(f"refs/heads/{above}"):
            raise UsageError(detail=f"there is a branch {above}, so none can be named {branch}: choose one with --onto")
    if not tip and (below := _below(git, branch)):
        raise UsageError(detail=f"there is a branch {below}, so none can be named {branch}: choose one with --onto")
    return branch, tip or head, tip


def _free_id(tools: Tools, prompt: str) -> str:
    """Return an id made of the prompt's first words that no task has."""
    words = re.findall(r"[a-z0-9]+", prompt.lower())[:_WORDS]
    stem = "-".join(words)[:40].strip("-") or "task"
    taken = {folder.id for folder in tools.tasks.all()}
    number = 1
    while (id := stem if number == 1 else f"{stem}-{number}") in taken or _has_branch(tools, id):
        number += 1
    return id


def _has_branch(tools: Tools, id: str) -> bool:
    branch = f"takeback/{id}"
    return bool(tools.git.commit(f"refs/heads/{branch}")) or bool(_below(tools.git, branch))


def _below(git: UserGit, branch: str) -> str:
    """Return a branch whose name goes on where this one ends, or an empty string."""
    return git.line("for-each-ref", "--count=1", "--format=%(refname:lstrip=2)", f"refs/heads/{branch}/")
