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
from contextlib import contextmanager, suppress

from takeback.host.git import checked
from takeback.host.usergit import UserGit
from takeback.tasks.flags import changed


class Index:
    """The index of one worktree as git last brought it up to date for us; the worktree's own stays as it is.

    Of a tree that was just checked out git has to compare every file, as stamps of the same second may hide a change
    (gitformat-index(5), "racy"): what it has compared once is kept for the next time.
    """

    def __init__(self, path: str) -> None:
        self._path = os.fsencode(path)
        self._own: _Stamp | None = None  # the worktree's own index that it was made from
        self.tree = ""

    def begin(self, git: UserGit, base: str) -> bytes:
        """Return an index like the worktree's own, with stat data as new as can be; `base` is its tree, if known."""
        own = git.path("index")
        stamp = _stamp(own)
        if not (stamp is not None and stamp == self._own and self.tree == base and os.path.exists(self._path)):
            self.drop()
            if stamp is not None:
                shutil.copy2(own, self._path)  # with its time, which is what makes entries racy
                _look_at_all(git.view(index=self._path))
        self._own, self.tree = stamp, ""
        return self._path

    def give(self, git: UserGit, tree: str) -> bool:
        """Put it in the place of the worktree's own; False when it is not of this tree, or that has changed since."""
        own = git.path("index")
        if not self.tree or self.tree != tree or self._own is None or _stamp(own) != self._own:
            return False
        try:
            lock = os.open(own + b".lock", os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
        except FileExistsError:
            return False
        with open(self._path, "rb") as source, open(lock, "wb") as target:
            shutil.copyfileobj(source, target)
        # Newer than it is, it would be believed where its entries must be compared.
        shutil.copystat(self._path, own + b".lock")
        os.rename(own + b".lock", own)
        return True

    def drop(self) -> None:
        """Forget it."""
        self._own, self.tree = None, ""
        with suppress(FileNotFoundError):
            os.unlink(self._path)


def _look_at_all(git: UserGit) -> None:
    """Clear the bits by which an index hides what was done to a file, but of files a sparse checkout leaves out."""
    marked = [one for one in git.run("ls-files", "-v", "-z").split(b"\0") if one[:1] == b"S" or one[:1].islower()]
    skipped = [one[2:] for one in marked if one[:1] in (b"S", b"s")]
    if skipped and git.line("config", "--type=bool", "--get", "core.sparseCheckout", ok=(0, 1)) == "true":
        skipped = [path for path in skipped if os.path.lexists(os.path.join(git.cwd, path))]
    unchanged = [one[2:] for one in marked if one[:1].islower()]
    for option, paths in (("--no-skip-worktree", skipped), ("--no-assume-unchanged", unchanged)):
        if paths:
            git.run("update-index", option, "-z", "--stdin", feed=b"".join(path + b"\0" for path in paths))


_Stamp = tuple[int, int, int, int]


def _stamp(path: bytes) -> _Stamp | None:
    try:
        found = os.stat(path)
    except FileNotFoundError:
        return None
    return (found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_ino)


def write(git: UserGit, index: Index, base: str = "", without: Sequence[str] = ()) -> tuple[str, list[str]]:
    """Return the tree of all that git would commit now, untracked files included, and what git says it cannot take.

    That are repositories without a commit and unreadable files. `base`: the tree of the worktree's own index, where it
    is known; `without`: paths left out. Raises GitFailed.
    """
    # Only one that is as the worktree's own is kept: in another, what was new once would never be ignored again.
    private = git.view(index=index.begin(git, base))
    excluded = (f":(top,exclude,literal){path}" for path in without)
    settings = ("-c", "advice.addEmbeddedRepo=false")
    done = private.finish(*settings, "add", "-A", "--sparse", "--ignore-errors", "--", ":/", *excluded)
    said = done.err.decode("utf-8", "replace").splitlines()
    left_out = [line.partition("error: ")[2] for line in said if line.startswith("error: ")]
    if done.code not in (0, 1) or (done.code == 1 and not left_out):
        checked(["add"], done)
    if without:  # one that the agent has added by itself
        feed = "".join(f"{path}\0" for path in without).encode("utf-8", "surrogateescape")
        private.run("update-index", "--force-remove", "-z", "--stdin", feed=feed)
    index.tree = private.line("write-tree")
    return index.tree, left_out


def onto(git: UserGit, base: str, start: str, end: str) -> str:
    """Return `base` with what changed from `start` to `end`. Raises GitFailed."""
    if base == start:
        return end
    changes = changed(git, start, end)
    if not changes:
        return base
    with _empty_index() as path:
        private = git.view(index=path)
        private.run("read-tree", base)
        zero = "0" * len(base)
        # Deletions first: a file may have become a folder.
        lines = [
            f"{one.new_mode or '0'} {one.new or zero}\t{one.path}\0"
            for one in sorted(changes, key=lambda one: bool(one.new))
        ]
        private.run("update-index", "-z", "--index-info", feed="".join(lines).encode("utf-8", "surrogateescape"))
        return private.line("write-tree")


@contextmanager
def _empty_index() -> Iterator[bytes]:
    folder = tempfile.mkdtemp(prefix="takeback-index-")
    try:
        yield os.fsencode(os.path.join(folder, "index"))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


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
    base = commit_of(git, git.tree(commit))
    ours, theirs = commit_of(git, git.tree(tip), base), commit_of(git, before, base)
    done = git.finish("merge-tree", "--write-tree", "--name-only", "--no-messages", "-z", ours, theirs)
    parts = [part.decode("utf-8", "surrogateescape") for part in done.out.split(b"\0") if part]
    if done.code == 0:
        return parts[0].strip(), []
    if done.code == 1:
        return "", list(dict.fromkeys(parts[1:]))
    checked(["merge-tree"], done)
    raise AssertionError


def commit_of(git: UserGit, tree: str, parent: str = "") -> str:
    """Return a commit of takeback's own for a tree, the same one each time."""
    env = {
        "GIT_AUTHOR_NAME": "takeback", "GIT_AUTHOR_EMAIL": "takeback@localhost", "GIT_AUTHOR_DATE": "@1 +0000",
        "GIT_COMMITTER_NAME": "takeback", "GIT_COMMITTER_EMAIL": "takeback@localhost", "GIT_COMMITTER_DATE": "@1 +0000",
    }  # fmt: skip
    parents = ("-p", parent) if parent else ()
    return git.run("commit-tree", "--no-gpg-sign", tree, *parents, feed=b"x\n", env=env).decode().strip()
