"""Anchor checkpoints in the project's own repository, for those who set `store = "repository"`.

They then show in `git log --all` and travel with a mirror push; that is what was asked for.
Does not cover: the private store, where every checkpoint is in any case.
"""

from __future__ import annotations

import os

from takeback.files.objects import receive_pack
from takeback.files.record import REF
from takeback.files.workspace import Workspace
from takeback.model import Checkpoint


def anchor(workspace: Workspace, checkpoint: Checkpoint) -> None:
    """Copy a checkpoint's objects into the project's repository and name it there; raises GitFailed."""
    user = workspace.place.repository()
    known = user.run("for-each-ref", "--format=%(objectname)").decode().split()
    known = sorted(set(known) - workspace.store.missing(known))
    receive_pack(user, workspace.store, [checkpoint.commit], known, os.fsencode(workspace.dir.path))
    user.run("update-ref", REF + checkpoint.id, checkpoint.commit)


def release(workspace: Workspace, ids: list[str]) -> None:
    """Take removed checkpoints' names out of the project's repository."""
    user = workspace.place.repository()
    present = set(user.run("for-each-ref", "--format=%(refname)", "refs/checkpoints").decode().split())
    feed = "".join(f"delete {REF}{id}\0\0" for id in ids if REF + id in present)
    if feed:
        user.run("update-ref", "--stdin", "-z", feed=feed.encode())
