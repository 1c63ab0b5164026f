"""Give a process that runs already another root folder, in the mount namespace it has.

    its namespace:  / (a folder or mount of before)    ->    / (the new tree)
                                                             /PLACE (folders bound into it)

By pivot_root(2), which also moves the root of every process that has the old one. It must be a mount (it is where a
program was given its root by a bind mount and chroot), and the process is not to have anything open below it.

Does not cover: mounts of this namespace (`mounts`).
"""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from pathlib import Path

from takeback.host import mounts, proc


def give_root(target: proc.ProcessId, tree: int, places: Mapping[str, Path]) -> None:
    """Make a detached mount, `tree`, the root of a process; `places` are names in it, and the folders seen there.

    Needs CAP_SYS_ADMIN over the process's namespaces. Raises OSError; the process is then of no use any more.
    """
    opened: list[int] = []
    failed: list[BaseException] = []

    def work() -> None:
        try:
            _give(opened, tree)
        except BaseException as error:
            failed.append(error)

    try:
        opened.append(os.open(f"/proc/{target.pid}/ns/mnt", os.O_RDONLY | os.O_CLOEXEC))
        opened.append(os.open(f"/proc/{target.pid}/root", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC))
        if not target.alive():  # asked after they were opened: then they are its own
            raise ProcessLookupError(f"process {target.pid} ended")
        for name, folder in places.items():
            opened += [_place(tree, name), mounts.detached(folder)]
        # Only one thread may leave the mounts of the others, and it cannot come back.
        thread = threading.Thread(target=work, name="pivot")
        thread.start()
        thread.join()
        if failed:
            raise failed[0]
    finally:
        for fd in opened:
            os.close(fd)


def _place(tree: int, name: str) -> int:
    try:
        os.mkdir(name, 0o755, dir_fd=tree)
        os.chmod(name, 0o755, dir_fd=tree)  # whatever the umask says
    except FileExistsError:
        pass
    # What is in the tree was written by somebody else: no link of theirs is followed.
    return os.open(name, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=tree)


def _give(opened: list[int], tree: int) -> None:
    namespace, old, *pairs = opened
    mounts.enter(namespace)
    os.fchdir(old)
    os.chroot(".")
    mounts.attach(tree, old)
    for place, folder in zip(pairs[::2], pairs[1::2], strict=True):
        mounts.attach(folder, place)
    os.fchdir(tree)
    mounts.pivot_here()
    os.fchdir(old)
    mounts.detach_here()
