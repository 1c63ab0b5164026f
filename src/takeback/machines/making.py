"""Make a folder that others share (an engine, an image) whole or not at all, by one process at a time.

Does not cover: what is in it.
"""

from __future__ import annotations

import errno
import os
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from takeback.errors import CannotWrite, DiskFull, StoreReadOnly
from takeback.host import atomic, locks, tools
from takeback.machines.layout import FORMAT, MachinesDir

Report = Callable[[str], None]

_PREFIX = ".making-"
_WAIT = 1800.0  # an image is built in about a minute; on a slow mirror in many
_SYNC_SECONDS = 300.0
_FULL = (errno.ENOSPC, errno.EDQUOT)
_README = """This folder is takeback's: engines, images, sandboxes and snapshots of machines. `takeback setup` fills
engine/ and images/; both may be removed when no sandbox and no snapshot needs them, and it makes them again.
"""


def silent(what: str) -> None:
    """The report of whoever wants none."""


def prepare(machines: MachinesDir) -> None:
    """Make the machines' folder (0700), if it is not there. Raises StoreReadOnly, CannotWrite, DiskFull."""
    version = machines.root / "VERSION"
    with _said(machines.root):
        if not version.exists():
            machines.root.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            machines.root.mkdir(mode=0o700, exist_ok=True)
            (machines.root / "README").write_text(_README)
            version.write_text(f"{FORMAT}\n")
        found = version.read_text().strip()
    if found != str(FORMAT):
        raise StoreReadOnly(found=found, known=FORMAT)


@contextmanager
def alone(folder: Path, what: str, report: Report) -> Iterator[None]:
    """Be the only one who makes things in a folder; what killed ones left half-made there is removed.

    Raises Busy, CannotWrite, DiskFull.
    """
    with _said(folder):
        folder.mkdir(mode=0o700, exist_ok=True)
        lock = folder / ".lock"
        if locks.is_held(lock):
            report(f"waiting for {locks.owner(lock)}")
        with locks.held(lock, what=what, wait=_WAIT):
            for one in folder.glob(f"{_PREFIX}*"):
                remove(one)
            yield


@contextmanager
def scratch(folder: Path) -> Iterator[Path]:
    """Give an empty folder (0700) inside one that the caller is `alone` in; it is gone after the block."""
    work = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=folder))
    try:
        yield work
    finally:
        remove(work)


def put(made: Path, target: Path) -> None:
    """Give what was made in a scratch folder its place, in the stead of what is there; on disk before it is seen."""
    # An image has 10,000 files: one call for its filesystem, which coreutils has and Python has not.
    tools.ask(["sync", "-f", os.fspath(made)], timeout=_SYNC_SECONDS)
    if os.path.lexists(target):
        os.rename(target, made.parent / "replaced")
    os.rename(made, target)
    atomic.sync_directory(target.parent)


def remove(path: Path) -> None:
    """Remove a folder and all in it, also folders that their owner made unwritable; nothing is followed."""

    def unlock(_: object, name: str, error: BaseException | object) -> None:
        parent = os.path.dirname(name)
        for one in (parent, name):
            if not os.path.islink(one) and os.path.isdir(one):
                os.chmod(one, stat.S_IRWXU)
        if os.path.isdir(name) and not os.path.islink(name):
            shutil.rmtree(name, ignore_errors=True)
        elif os.path.lexists(name):
            os.unlink(name)

    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, onerror=unlock)
    else:
        path.unlink(missing_ok=True)


@contextmanager
def _said(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno in _FULL:
            raise DiskFull(path=os.fspath(path)) from error
        why = error.strerror or str(error)
        raise CannotWrite(path=error.filename or os.fspath(path), why=why, next="mend that and repeat") from error
