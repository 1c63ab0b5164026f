"""Give a linked worktree its repository back: the file `.git`, and the folder in the repository that it names.

    WORKTREE/.git                     "gitdir: REPOSITORY/worktrees/NAME"
    REPOSITORY/worktrees/NAME/        gitdir, commondir, HEAD; the index and refs are put back like anyone's

Done before anything is planned, since without it there is no repository to compare with, and one made anew in the
worktree would be another. Does not cover: a repository that is gone itself (`restore.plan_new_git`).
"""

from __future__ import annotations

import os
import stat

from takeback.errors import CannotWrite
from takeback.files import gitparts
from takeback.files.plan import Snapshot
from takeback.files.workspace import Workspace

_MARK = b"gitdir: "


def is_lost(w: Workspace, wanted: Snapshot) -> bool:
    """Whether a checkpoint has the link of this worktree, the worktree has not, and its repository is there."""
    return _lost(w, wanted) is not None


def put_back(w: Workspace, wanted: Snapshot) -> bool:
    """Link the worktree to its repository again where the checkpoint knows the link. Raises CannotWrite."""
    lost = _lost(w, wanted)
    if lost is None:
        return False
    text, folder = lost
    try:
        if not os.path.isdir(folder):
            os.makedirs(folder)
            head = gitparts.read_refs(w.objects, wanted.parts.refs).head.encode("utf-8", "surrogateescape")
            _write(folder + b"/commondir", b"../..\n")
            _write(folder + b"/HEAD", (b"ref: " + head[4:] if head.startswith(b"ref ") else head) + b"\n")
            _write(folder + b"/gitdir", w.place.root + b"/.git\n")
        _write(w.place.root + b"/.git", text)
    except OSError as error:
        raise CannotWrite(path=os.fsdecode(error.filename or folder), why=error.strerror) from error
    w.found_git()
    return w.has_git


def _lost(w: Workspace, wanted: Snapshot) -> tuple[bytes, bytes] | None:
    """Return what `.git` shall say, and the folder it names."""
    w.refresh()
    entry = None if w.has_git or wanted.parts.refs is None else wanted.get(b".git")
    if entry is None or not stat.S_ISREG(entry.mode):
        return None
    text = w.objects.read(entry.oid, "blob")
    if not text.startswith(_MARK):
        return None
    folder = os.path.join(w.place.root, text[len(_MARK) :].strip())
    above, name = os.path.split(os.path.dirname(folder))
    if name != b"worktrees" or not os.path.isdir(above + b"/objects"):
        return None
    try:
        with open(w.place.root + b"/.git", "rb") as file:
            if file.read(len(text) + 1) != text:
                return None  # somebody linked it to another
    except FileNotFoundError:
        pass
    except OSError:
        return None  # a folder: another repository was made here
    return text, folder


def _write(path: bytes, text: bytes) -> None:
    with open(path, "wb") as file:
        file.write(text)
