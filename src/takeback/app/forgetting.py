"""Forget a project: its checkpoints and its timeline are gone for good, its files are not touched.

Does not cover: asking whether that is meant (cli).
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from takeback import config as configs
from takeback.app.finding import here, place_of
from takeback.app.person import require_no_agent
from takeback.errors import CannotWrite
from takeback.files.layout import DataDir
from takeback.host import locks

_WAIT = 30.0


def forget(path: str | bytes | None = None) -> bool:
    """Remove all that is kept of the project that holds `path`; False when nothing is. Raises NoProject, Busy."""
    require_no_agent()
    data = DataDir(configs.load(os.environ).data)
    place = place_of(data, os.path.abspath(os.fsencode(path)) if path is not None else here())
    held = data.holding(place.root)
    if held is None:
        return False
    folder = held[0].path
    with locks.held(folder / "lock", what="uninstall", wait=_WAIT):
        try:
            (folder / "project.json").unlink()  # from here on it is no project, also if we are killed
            gone = folder.with_name(f"{folder.name}.gone")
            os.rename(folder, gone)
        except OSError as error:
            raise CannotWrite(path=os.fspath(folder), why=error.strerror, next="make it writable") from error
    _remove(gone)
    return True


def _remove(folder: Path) -> None:
    shutil.rmtree(folder)
