"""Folders that all sandboxes see: nothing that the keeper starts may write to them.

gVisor empties a file that is opened with O_TRUNC before it finds that the mount inside is read-only (seen with
20240729): root in one sandbox could take the supervisor, which all share, from the others.

Does not cover: images, which are seen through an overlay.
"""

from __future__ import annotations

import logging
import os
from pathlib import Path

from takeback.host import mounts
from takeback.machines.supervisor.build import NAME

log = logging.getLogger("takeback.keeper")

_ours = False
_known: set[Path] = set()


def begin() -> None:
    """Say that this process has mounts of its own, so that what is mounted here is seen by nobody else."""
    global _ours
    _ours = True


def protected(folder: Path) -> Path:
    """Return the folder of a supervisor, from now on read-only for this process and all that it starts."""
    # A record that could not be read names none, and Path("") is wherever this process is.
    if _ours and folder not in _known and folder.is_absolute() and (folder / NAME).is_file():
        _known.add(folder)
        try:
            # An earlier keeper of the same namespaces may have done it.
            if not os.statvfs(folder).f_flag & os.ST_RDONLY:
                mounts.bind(folder, folder)
                mounts.read_only(folder)
        except OSError as error:
            log.warning("%s is not protected from sandboxes: %s", folder, error)
    return folder
