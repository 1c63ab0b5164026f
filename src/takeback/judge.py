"""The guard for this process: the context of the project around a folder, from this machine's settings.

Does not cover: classes (`guard`), or what is done about them.
"""

from __future__ import annotations

import os

from takeback.config import data_dir
from takeback.errors import NoProject
from takeback.guard import Context, ground


def context(path: str | None = None) -> Context:
    """Return the context of a step in `path` (the current directory when None). Raises NoProject."""
    home = os.environ.get("HOME") or os.path.expanduser("~")
    try:
        start = os.path.abspath(path) if path is not None else os.getcwd()
    except FileNotFoundError:
        raise NoProject(path=path or ".") from None
    if not os.path.isdir(start):
        raise NoProject(path=start)
    data = os.fspath(data_dir(os.environ, home))
    return ground.context(start, home=home, data=data, virtual_env=os.environ.get("VIRTUAL_ENV", ""))
