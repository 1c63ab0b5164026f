"""A worktree to try something in: one per project, furnished like a task's, gone when it is over.

Does not cover: what is tried (`landing`, `revert`, `blame`).
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from takeback.host import locks
from takeback.host.usergit import UserGit
from takeback.tasks import ground
from takeback.tasks.job import Tools

_WAIT = 600.0


@contextmanager
def at(tools: Tools, commit: str, *, id: str) -> Iterator[UserGit]:
    """Give a worktree at a commit, detached, with state files, dependencies and the set-up done.

    What a killed run left there is replaced. Raises Busy, GitFailed, SetupFailed.
    """
    folder = tools.tasks.path.parent / "scratch"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    path = os.path.join(os.fsencode(folder), b"tree", os.path.basename(tools.git.cwd) or b"tree")
    with locks.held(folder / "lock", what="trying something in a worktree", wait=_WAIT):
        git = tools.git.at(path, top=True)
        try:
            ground.add(tools.git, path, commit, tools.trash)
            tools.furnish(git, state_for(tools, commit, tools.git.cwd), folder / "setup.out", id=id)
            yield git
        finally:
            ground.remove(tools.git, path, tools.trash)


def state_for(tools: Tools, commit: str, root: bytes, *, but: str = "") -> ground.State:
    """Return where the state files of a tree at a commit come from: the user's tree, and the task that landed there."""
    for other in reversed(tools.tasks.tasks()):
        if other.id != but and other.commit == commit and not other.wish.here:
            folder = tools.tasks.folder(other.id)
            return ground.State(root, os.fsencode(folder.state), other.state)
    return ground.State(root)
