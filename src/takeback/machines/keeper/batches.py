"""Copies that are made together are kept together: a fork cut by a kill leaves all of them, or none.

    DATA/machines/forks/ID.json     the ids of copies of which not all run yet; when it goes, in one step, all count

Does not cover: making them (`forks`).
"""

from __future__ import annotations

import json
import logging
import uuid
from collections.abc import Sequence
from pathlib import Path

from takeback.host import atomic
from takeback.machines.layout import MachinesDir

log = logging.getLogger("takeback.keeper")


def begin(directory: MachinesDir, ids: Sequence[str]) -> Path:
    """Write down which copies are about to be made. Raises OSError."""
    directory.forks.mkdir(mode=0o700, exist_ok=True)
    path = directory.forks / f"{uuid.uuid4()}.json"
    atomic.write_bytes(path, json.dumps(list(ids)).encode(), durable=False)
    return path


def end(path: Path) -> None:
    """All of them run, or all were given up."""
    path.unlink(missing_ok=True)


def cut(directory: MachinesDir) -> dict[Path, list[str]]:
    """Return what a killed keeper had begun, by its file; those copies are to be removed."""
    found: dict[Path, list[str]] = {}
    for path in directory.forks.glob("*") if directory.forks.is_dir() else ():
        try:
            found[path] = [str(id) for id in json.loads(path.read_bytes())]
        except (OSError, ValueError, TypeError) as error:
            log.error("%s cannot be read: %s", path, error)  # killed in the writing: no copy was made yet
            found[path] = []
    return found
