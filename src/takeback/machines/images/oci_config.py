"""What an OCI image's config says about how work begins, and what its tree lacks for a sandbox.

Source: https://github.com/opencontainers/image-spec, config.md.

Does not cover: volumes, exposed ports, labels and health checks; they say nothing about a sandbox.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from takeback.machines.images.base import PATH
from takeback.machines.images.directory import inside

_FILE_LIMIT = 1 << 20
_TYPED_AT = ("sh", "ash", "bash", "dash", "zsh", "fish", "python", "python3", "node", "irb", "ghci", "jshell")
_HOSTS = "127.0.0.1 localhost sandbox\n::1 localhost ip6-localhost ip6-loopback\n"


class Unusable(Exception):
    """The config asks for what the tree has not; its text says what."""


@dataclass(frozen=True)
class Work:
    """How work begins: who does it, where, with which variables; `start` is what the image was made to run."""

    user: str
    uid: int
    gid: int
    groups: tuple[int, ...]
    home: str
    cwd: str
    env: tuple[tuple[str, str], ...]
    start: tuple[str, ...] | None


def read(config: Mapping[str, Any], rootfs: Path) -> Work:
    """Return what the config says about a tree. Raises Unusable."""
    user, uid, gid, groups, home = _account(str(config.get("User") or ""), rootfs)
    env = {"PATH": PATH}
    for one in config.get("Env") or ():
        name, equals, value = str(one).partition("=")
        if name and equals and "\0" not in value:
            env[name] = value
    words = [*(config.get("Entrypoint") or ()), *(config.get("Cmd") or ())]
    cwd = os.path.normpath("/" + str(config.get("WorkingDir") or "/").lstrip("/"))
    start = tuple(map(str, words))
    return Work(user, uid, gid, groups, home, cwd, tuple(env.items()), None if _waits(start) else start)


def _waits(command: tuple[str, ...]) -> bool:
    """Whether a command would only wait for somebody to type: an image made for a terminal."""
    return not command or (len(command) == 1 and os.path.basename(command[0]) in _TYPED_AT)


def _account(user: str, rootfs: Path) -> tuple[str, int, int, tuple[int, ...], str]:
    """Return name, uid, gid, groups and home: `user`, `uid`, `user:group`, `uid:gid`, with names of the tree's own."""
    who, _, group = (user or "0").partition(":")
    rows = list(_rows(rootfs, "etc/passwd", 7))
    row = next((one for one in rows if one[0] == who), None) or next((one for one in rows if one[2] == who), None)
    if row is None and not who.isdigit():
        raise Unusable(f"its user is {who!r}, and /etc/passwd in it has none of that name")
    uid = int(row[2]) if row else int(who)
    name = row[0] if row else ("root" if uid == 0 else f"user{uid}")
    home = row[5] if row and row[5].startswith("/") else ("/root" if uid == 0 else "/")
    gid = int(row[3]) if row else 0
    known = list(_rows(rootfs, "etc/group", 4))
    if group:
        entry = next((one for one in known if group in (one[0], one[2])), None)
        if entry is None and not group.isdigit():
            raise Unusable(f"its group is {group!r}, and /etc/group in it has none of that name")
        gid = int(entry[2]) if entry else int(group)
    groups = [] if group else [int(one[2]) for one in known if name in one[3].split(",") and int(one[2]) != gid]
    return name, uid, gid, (gid, *groups), home


def _rows(rootfs: Path, name: str, fields: int) -> Iterator[list[str]]:
    path = inside(rootfs, name)
    if path is None or not path.is_file() or path.stat().st_size > _FILE_LIMIT:
        return
    for line in path.read_text(errors="replace").splitlines():
        row = line.split(":")
        if len(row) == fields and row[2].isdigit() and (fields < 7 or row[3].isdigit()):
            yield row


def complete(rootfs: Path, work: Work) -> None:
    """Make what runtimes of containers make: the working folder, names of this machine, places to mount on.

    Devices go: the engine gives a sandbox its own, and nobody shall find others in a folder of takeback's.
    """
    for top, _, files in os.walk(rootfs):
        for name in files:
            path = os.path.join(top, name)
            mode = os.lstat(path).st_mode
            if stat.S_ISBLK(mode) or stat.S_ISCHR(mode):
                os.unlink(path)
    for path in (".takeback", "etc", "tmp"):
        if not os.path.lexists(rootfs / path):
            (rootfs / path).mkdir(mode=0o755)
            os.chmod(rootfs / path, 0o1777 if path == "tmp" else 0o755)
    _make_folder(rootfs, work)
    for name, text in (("hosts", _HOSTS), ("hostname", "sandbox\n"), ("resolv.conf", "")):
        folder = inside(rootfs, "etc")
        if folder is None or not folder.is_dir():
            continue
        place = folder / name
        # An image's own stays. A link there leads to what a service would have made.
        if place.is_symlink() or (place.exists() and place.stat().st_size == 0):
            place.unlink()
        if not place.exists():
            place.write_text(text)
            place.chmod(0o644)


def _make_folder(rootfs: Path, work: Work) -> None:
    """Make the working folder step by step, each inside the tree whatever links there are in it."""
    at = ""
    for part in work.cwd.split("/"):
        if not part:
            continue
        parent = inside(rootfs, at) if at else rootfs
        at = f"{at}/{part}"
        if inside(rootfs, at) is None and parent is not None and parent.is_dir():
            place = parent / part
            if place.is_symlink():
                return
            place.mkdir()
            place.chmod(0o755)
            if os.geteuid() == 0:
                os.chown(place, work.uid, work.gid)
