"""Unpack a tar stream that nobody trusts, on any Python: `tarfile` checks members itself only from 3.11.4 on.

Does not cover: unpacking inside a sandbox (the supervisor's `unpack`). Source of the rules: tarfile's data filter.
"""

from __future__ import annotations

import os
import tarfile
from collections.abc import Iterable
from pathlib import Path
from typing import IO

from takeback.errors import FileRefused


def unpack(held: IO[bytes], target: Path) -> None:
    """Unpack a tar stream of a sandbox, which nobody trusts, below `target`; devices and FIFOs are left out.

    Raises FileRefused, before anything is written, when a link in it leads outside.
    """
    with tarfile.open(fileobj=held, mode="r:") as tar:
        members = [one for one in tar if one.isfile() or one.isdir() or one.issym() or one.islnk()]
        if hasattr(tarfile, "data_filter"):
            _checked_by_tarfile(members, target)
        else:
            checked(members, target)
        target.mkdir(parents=True, exist_ok=True)
        if hasattr(tarfile, "data_filter"):
            tar.extractall(target, members=members, filter="data")
        else:
            tar.extractall(target, members=members)


def _checked_by_tarfile(members: Iterable[tarfile.TarInfo], target: Path) -> None:
    for member in members:
        try:
            tarfile.data_filter(member, os.fspath(target))
        except tarfile.FilterError as error:
            raise _refused(member, str(error)) from error


def checked(members: Iterable[tarfile.TarInfo], target: Path) -> None:
    """See that no member leads outside `target`, and take from each what could give rights. Raises FileRefused."""
    top = os.path.realpath(target)
    links: set[str] = set()
    for member in members:
        member.name = os.path.normpath(member.name.lstrip("/"))
        if not _inside(top, os.path.join(top, member.name)):
            raise _refused(member, "its name")
        above = os.path.dirname(member.name)
        while above:
            if above in links:
                raise _refused(member, f"it is written through the link {above}")
            above = os.path.dirname(above)
        if member.issym() or member.islnk():
            base = os.path.dirname(member.name) if member.issym() else ""
            if os.path.isabs(member.linkname) or not _inside(top, os.path.join(top, base, member.linkname)):
                raise _refused(member, f"a link to {member.linkname}")
        if member.issym():
            links.add(member.name)
        member.uid, member.gid = os.getuid(), os.getgid()
        member.uname = member.gname = ""
        member.mode &= 0o755


def _inside(top: str, path: str) -> bool:
    real = os.path.realpath(path)
    return real == top or real.startswith(top + os.sep)


def _refused(member: tarfile.TarInfo, why: str) -> FileRefused:
    return FileRefused(path=member.name, why=f"it would lead outside the target ({why})")
