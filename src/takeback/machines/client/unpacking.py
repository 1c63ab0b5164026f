"""Unpack a tar stream that nobody trusts, on any Python: what `tarfile` checks itself, from 3.11.4 on, is not enough.

Does not cover: unpacking inside a sandbox (the supervisor's `unpack`). Source of the rules: tarfile's data filter.
"""

from __future__ import annotations

import os
import tarfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import IO

from takeback.errors import FileRefused


def unpack(held: IO[bytes], target: Path) -> None:
    """Unpack a tar stream of a sandbox, which nobody trusts, below `target`; devices and FIFOs are left out.

    Raises FileRefused, before anything is written, when a link in it leads outside.
    """
    with tarfile.open(fileobj=held, mode="r:") as tar:
        members = [one for one in tar if one.isfile() or one.isdir() or one.issym() or one.islnk()]
        # Always: the filter of many a Python (CVE-2025-4517) can be led outside by links whose path is too long for it.
        checked(members, target)
        if hasattr(tarfile, "data_filter"):
            _checked_by_tarfile(members, target)
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


def checked(members: Sequence[tarfile.TarInfo], target: Path) -> None:
    """See that no member leads outside `target`, and take from each what could give rights. Raises FileRefused."""
    top = os.path.realpath(target)
    for member in members:
        member.name = os.path.normpath(member.name.lstrip("/"))
    links = {member.name for member in members if member.issym()}
    for member in members:
        if not _inside(top, os.path.join(top, member.name)):
            raise _refused(member, "its name")
        through = _link_in(member.name if not member.issym() else os.path.dirname(member.name), links)
        if through:
            raise _refused(member, f"it is written through the link {through}")
        if member.issym() or member.islnk():
            base = os.path.dirname(member.name) if member.issym() else ""
            if os.path.isabs(member.linkname) or not _inside(top, os.path.join(top, base, member.linkname)):
                raise _refused(member, f"a link to {member.linkname}")
            if _turns_back(top, base, member.linkname, links):
                raise _refused(member, f"a link to {member.linkname}, back out of another link")
        if member.islnk() and _link_in(os.path.normpath(member.linkname), links):
            raise _refused(member, f"a second name of what lies behind a link, {member.linkname}")
        member.uid, member.gid = os.getuid(), os.getgid()
        member.uname = member.gname = ""
        member.mode &= 0o755


def _link_in(path: str, links: set[str]) -> str:
    """Return the first link on the way to a path, itself included, or an empty text."""
    parts = path.split("/")
    ways = ("/".join(parts[: at + 1]) for at in range(len(parts)))
    return next((way for way in ways if way in links), "")


def _turns_back(top: str, base: str, link: str, links: set[str]) -> bool:
    """Whether a link leaves another one by `..`, so that where it leads is not what its text says."""
    here = [part for part in base.split("/") if part]
    for part in link.split("/"):
        if part != "..":
            here += [part] if part not in ("", ".") else []
            continue
        ways = ["/".join(here[: at + 1]) for at in range(len(here))]
        if not here or any(way in links or os.path.islink(os.path.join(top, way)) for way in ways):
            return True
        here.pop()
    return False


def _inside(top: str, path: str) -> bool:
    real = os.path.realpath(path)
    return real == top or real.startswith(top + os.sep)


def _refused(member: tarfile.TarInfo, why: str) -> FileRefused:
    return FileRefused(path=member.name, why=f"it would lead outside the target ({why})")
