"""Damaged objects of the private store: found, and moved out of the way so that what is still on disk is saved again.

Does not cover: saying which checkpoints they belong to (`gc.problem_with`).
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass

from takeback.files.workspace import Workspace

_NAME = re.compile(r"\b[0-9a-f]{40}(?:[0-9a-f]{24})?\b")
_LOOSE = re.compile(r"objects/([0-9a-f]{2})/([0-9a-f]{38}(?:[0-9a-f]{24})?)\b")


@dataclass(frozen=True)
class Damage:
    """What `git fsck` said, and the names of the objects it said it of."""

    lines: tuple[str, ...]
    objects: frozenset[str]


def look(workspace: Workspace) -> Damage:
    """Read every object of the store and return what is wrong."""
    done = workspace.store.start("fsck", "--full", "--no-dangling", "--no-progress").finish()
    if done.code == 0:
        return Damage((), frozenset())
    said = (done.err + done.out).decode("utf-8", "replace")
    lines = [line for line in said.splitlines() if line and not line.startswith("notice:")]
    named = {name for line in lines for name in _NAME.findall(line)}
    named |= {first + rest for line in lines for first, rest in _LOOSE.findall(line)}
    # Of a broken link fsck names both ends, and one of them is whole.
    bad = frozenset(name for name in named if not workspace.objects.is_whole(name))
    return Damage(tuple(lines) or (f"git fsck ended with {done.code}",), bad)


def set_aside(workspace: Workspace, damage: Damage) -> None:
    """Move damaged objects out of the store, keep what is whole in damaged packs, and forget the caches.

    git writes no object that it believes to have, so a damaged one would never be saved again. The worktree's lock
    is held; nothing is deleted but caches.
    """
    workspace.objects.close()
    aside = os.path.join(os.fsencode(workspace.project.path), b"damaged")
    os.makedirs(aside, mode=0o700, exist_ok=True)
    objects = os.path.join(workspace.project.store, b"objects")
    for oid in damage.objects:
        _move(os.path.join(objects, oid[:2].encode(), oid[2:].encode()), os.path.join(aside, oid.encode()))
    folder = os.path.join(objects, b"pack")
    for name in os.listdir(folder) if os.path.isdir(folder) else []:
        if name.endswith(b".pack") and workspace.store.code("verify-pack", os.path.join(folder, name)) != 0:
            for end in (b".pack", b".idx", b".keep", b".rev", b".bitmap", b".mtimes"):
                _move(os.path.join(folder, name[:-5] + end), os.path.join(aside, name[:-5] + end))
            with open(os.path.join(aside, name), "rb") as file:
                workspace.store.start("unpack-objects", "-r", "-q", stdin=file).finish()
    workspace.dir.cursor.unlink(missing_ok=True)
    workspace.drop_cursor()


def _move(source: bytes, target: bytes) -> None:
    try:
        os.replace(source, target)
    except FileNotFoundError:
        pass
