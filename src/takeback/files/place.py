"""Where a project is: its root, its git directories, and whether it may be checkpointed at all.

Does not cover: where takeback keeps its own data (see `layout`).
"""

from __future__ import annotations

import os
from dataclasses import dataclass

from takeback.errors import HomeDirectory, NoProject
from takeback.host import git


@dataclass(frozen=True)
class Place:
    """A project's worktree. `git_dir` is None for a plain folder; `common_dir` is shared by linked worktrees."""

    root: bytes
    git_dir: bytes | None = None
    common_dir: bytes | None = None
    object_format: str = "sha1"
    known_as: bytes | None = None  # the identity it had while git was there, for a linked worktree without its `.git`

    @property
    def identity(self) -> bytes:
        """What all worktrees of one project have in common: the main worktree's root, with or without `.git` in it."""
        if self.common_dir is None:
            return self.known_as or self.root
        above, name = os.path.split(self.common_dir)
        return above if name == b".git" else self.common_dir

    def repository(self) -> git.Git:
        """Return the user's repository; only for projects that have one."""
        assert self.git_dir is not None
        return git.Git(self.git_dir, work_tree=self.root)


def find(start: bytes) -> Place | None:
    """Return the git worktree that holds `start`, or None when there is none.

    Raises NoProject for a bare repository or a place inside `.git`, GitMissing without git.
    """
    if not os.path.isdir(start):
        raise NoProject(path=os.fsdecode(start))
    done = git.of_user(
        start,
        "rev-parse",
        "--path-format=absolute",
        "--is-inside-work-tree",
        "--show-object-format",
        "--show-toplevel",
        "--git-dir",
        "--git-common-dir",
    )
    if done.code != 0:
        return None
    lines = done.out.split(b"\n")
    if lines[0] != b"true":
        return None
    if len(lines) != 6:  # a newline in a path: ask one by one
        answers = [
            git.of_user(start, "rev-parse", "--path-format=absolute", word).out[:-1]
            for word in ("--show-toplevel", "--git-dir", "--git-common-dir")
        ]
    else:
        answers = lines[2:5]
    root, git_dir, common = (os.path.realpath(answer) for answer in answers)
    return Place(root, git_dir, common, lines[1].decode())


def refuse_home(root: bytes, home: bytes | None) -> None:
    """Raise HomeDirectory when `root` is /, a home directory, or holds one."""
    homes = {os.path.realpath(home)} if home else set()
    real = os.path.realpath(root)
    top_level = {b"/", b"/home", b"/root", b"/Users", b"/usr", b"/etc", b"/var", b"/tmp", b"/opt", b"/srv"}
    above_home = any(path == real or path.startswith(real.rstrip(b"/") + b"/") for path in homes)
    if real in top_level or above_home:
        raise HomeDirectory(path=os.fsdecode(root))
