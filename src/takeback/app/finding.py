"""Which project is meant: the one that holds a path, or the one that has a checkpoint although its folder is gone."""

from __future__ import annotations

import os

from takeback import config as configs
from takeback.errors import AmbiguousId, NoProject, UnknownId
from takeback.files import place as places
from takeback.files.layout import DataDir, ProjectDir
from takeback.files.place import Place
from takeback.store.sqlite import SqliteStore


def place_of(data: DataDir, start: bytes) -> Place:
    """Return the project that holds a path, one whose folder is gone included. Raises NoProject."""
    start = os.path.realpath(start)
    if os.path.isdir(start):
        place = places.find(start)
        if place is not None:
            return place
    held = data.holding(start)
    if held is not None:
        return Place(held[1], object_format=held[0].object_format, known_as=held[0].identity)
    if not os.path.isdir(start):
        raise NoProject(path=os.fsdecode(start))
    if os.path.basename(start) == b".git" or b"/.git/" in start + b"/":
        raise NoProject(path=os.fsdecode(start))
    return Place(start)


def with_checkpoint(config: configs.Config, id: str, project: str | None) -> tuple[Place, ProjectDir] | None:
    """Return the project that has a checkpoint; when `project` names one, that or None if nothing is kept of it.

    Raises UnknownId, AmbiguousId.
    """
    data = DataDir(config.data)
    if project is not None:
        held = data.holding(os.path.realpath(os.fsencode(project)))
        return (Place(held[1]), held[0]) if held is not None else None
    found = [known for known in data.all() if _has(known, id)]
    if not found:
        raise UnknownId(what="checkpoint", id=id, nearest="name its project with --project DIR")
    if len(found) > 1:
        raise AmbiguousId(id=id, places=", ".join(os.fsdecode(known.roots[0]) for known in found))
    return Place(found[0].roots[0]), found[0]


def _has(project: ProjectDir, id: str) -> bool:
    if not project.timeline.exists():
        return False
    store = SqliteStore(project.timeline, create=False)
    try:
        return store.checkpoint(id) is not None
    finally:
        store.close()


def here() -> bytes:
    """Return the current directory, by its name when it was deleted under us."""
    try:
        return os.getcwdb()
    except FileNotFoundError:
        # The folder was deleted under us: its name is still in PWD.
        return os.fsencode(os.environ.get("PWD", "/"))


def below(path: bytes, root: bytes) -> bool:
    """Whether a path is a folder or inside it; both are absolute."""
    return path == root or path.startswith(root.rstrip(b"/") + b"/")
