"""A worktree as git would commit it, written as a tree without touching index, HEAD or files.

    start ──(the agent works)──> end        what it did is the difference of these two,
    base  ───────────────────> result       put onto the base: what setup and checks left is in neither.

Does not cover: judging the difference (`flags`), or committing it (`landing`).
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from takeback.host.git import checked
from takeback.host.usergit import UserGit
from takeback.tasks.flags import changed


@contextmanager
def _private_index(git: UserGit) -> Iterator[bytes]:
    """A copy of the worktree's index, whose stat data spares reading every file again."""
    own = git.path("index")
    folder = tempfile.mkdtemp(prefix=b"takeback-index-", dir=os.path.dirname(own))
    try:
        copy = os.path.join(folder, b"index")
        if os.path.exists(own):
            # With its time: git looks into files no older than the index, as their stamps may hide a change of the same
            # size in the same second (gitformat-index(5), "racy").
            shutil.copy2(own, copy)
        yield copy
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def write(git: UserGit, without: Sequence[str] = ()) -> str:
    """Return the tree of all that git would commit now, untracked files included; `without` are paths left out.

    Raises GitFailed.
    """
    return write_all(git, without)[0]


def write_all(git: UserGit, without: Sequence[str] = ()) -> tuple[str, list[str]]:
    """Return the same tree, and what git says it cannot take: repositories without a commit, unreadable files."""
    with _private_index(git) as index:
        private = git.view(index=index)
        excluded = (f":(top,exclude,literal){path}" for path in without)
        settings = ("-c", "advice.addEmbeddedRepo=false")
        done = private.finish(*settings, "add", "-A", "--ignore-errors", "--", ":/", *excluded)
        said = done.err.decode("utf-8", "replace").splitlines()
        left_out = [line.partition("error: ")[2] for line in said if line.startswith("error: ")]
        if done.code not in (0, 1) or (done.code == 1 and not left_out):
            checked(["add"], done)
        if without:  # one that the agent has added by itself
            feed = "".join(f"{path}\0" for path in without).encode("utf-8", "surrogateescape")
            private.run("update-index", "--force-remove", "-z", "--stdin", feed=feed)
        return private.line("write-tree"), left_out


def onto(git: UserGit, base: str, start: str, end: str) -> str:
    """Return `base` with what changed from `start` to `end`. Raises GitFailed."""
    if base == start:
        return end
    changes = changed(git, start, end)
    if not changes:
        return base
    with _private_index(git) as index:
        private = git.view(index=index)
        private.run("read-tree", base)
        zero = "0" * len(base)
        # Deletions first: a file may have become a folder.
        lines = [
            f"{one.new_mode or '0'} {one.new or zero}\t{one.path}\0"
            for one in sorted(changes, key=lambda one: bool(one.new))
        ]
        private.run("update-index", "-z", "--index-info", feed="".join(lines).encode("utf-8", "surrogateescape"))
        return private.line("write-tree")


def diff(git: UserGit, before: str, after: str) -> bytes:
    """Return the difference of two trees as a patch that `git apply` takes."""
    return git.run(
        "diff-tree", "-r", "-p", "--binary", "--full-index", "--no-renames", "--no-color", "--no-ext-diff",
        "--no-textconv", before, after,
    )  # fmt: skip


@contextmanager
def aside(git: UserGit) -> Iterator[UserGit]:
    """The same repository with a folder of its own for new objects, thrown away at the end."""
    objects = git.path("objects")
    folder = tempfile.mkdtemp(prefix="takeback-objects-")
    try:
        yield git.view(objects=os.fsencode(folder), alternates=objects)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def without_commit(git: UserGit, tip: str, commit: str) -> tuple[str, list[str]]:
    """Return the tree of `tip` without what `commit` changed, and the paths that conflict; the tree is "" then.

    `git` is one with objects of its own (`aside`). No checkout, no index. Raises GitFailed.
    """
    # merge-tree finds the base by itself, and `--merge-base` came with git 2.40: three commits of one line say it.
    parent = git.commit(f"{commit}^")
    before = git.tree(parent) if parent else git.run("mktree", feed=b"").decode().strip()
    base = _commit(git, git.tree(commit))
    ours, theirs = _commit(git, git.tree(tip), base), _commit(git, before, base)
    done = git.finish("merge-tree", "--write-tree", "--name-only", "--no-messages", "-z", ours, theirs)
    parts = [part.decode("utf-8", "surrogateescape") for part in done.out.split(b"\0") if part]
    if done.code == 0:
        return parts[0].strip(), []
    if done.code == 1:
        return "", list(dict.fromkeys(parts[1:]))
    checked(["merge-tree"], done)
    raise AssertionError


def _commit(git: UserGit, tree: str, parent: str = "") -> str:
    env = {
        "GIT_AUTHOR_NAME": "takeback", "GIT_AUTHOR_EMAIL": "takeback@localhost", "GIT_AUTHOR_DATE": "@1 +0000",
        "GIT_COMMITTER_NAME": "takeback", "GIT_COMMITTER_EMAIL": "takeback@localhost", "GIT_COMMITTER_DATE": "@1 +0000",
    }  # fmt: skip
    parents = ("-p", parent) if parent else ()
    return git.run("commit-tree", "--no-gpg-sign", tree, *parents, feed=b"x\n", env=env).decode().strip()
