"""What an image is: a read-only root folder that sandboxes share, and how work in it begins.

Does not cover: how one comes to be (`debian`, `directory`, `host`, `oci`).
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from takeback.errors import Damaged
from takeback.machines.making import Report

SCHEMA = 1
RECORD, ROOTFS = "image.json", "rootfs"
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@dataclass(frozen=True)
class Image:
    """`user` to `groups` and `env` are what work begins with; `start` is the command it was made for, or None.

    `name` and `version` together never mean two different trees; a directory that others change has no version.
    Of its top only what is `seen` is there (empty: all); `masked` paths are hidden, `scratch` folders too but can be
    written to; `shown` folders are seen wherever they lie. A `live` root is in use by others: only the engine's own
    overlay (disk kind MEMORY) may lie over it.
    """

    name: str
    version: str
    rootfs: Path
    user: str = "root"
    uid: int = 0
    gid: int = 0
    cwd: str = "/"
    env: tuple[tuple[str, str], ...] = (("PATH", PATH),)
    start: tuple[str, ...] | None = None
    home: str = ""  # where it is not `cwd`
    groups: tuple[int, ...] = ()
    masked: tuple[str, ...] = ()
    scratch: tuple[str, ...] = ()
    seen: tuple[str, ...] = ()
    shown: tuple[str, ...] = ()
    live: bool = False
    one_owner: bool = False  # an ordinary user's: all files are that user's, and root's inside
    notes: tuple[str, ...] = ()  # what whoever uses it should be told


class ImageSource(Protocol):
    """One kind of image: found if it is there, made if it is not."""

    def find(self) -> Image | None:
        """Return it if it is there and needs no work. Raises UnknownImage, Damaged."""

    def ensure(self, report: Report) -> Image:
        """Return it, made first if need be. Raises what `find` does, ImageBuildFailed, FetchFailed, DiskFull, Busy."""


def write(folder: Path, image: Image, **more: Any) -> None:
    """Write the record of an image that takeback made, beside its root folder."""
    record = {
        "schema": SCHEMA,
        "name": image.name,
        "version": image.version,
        "user": image.user,
        "uid": image.uid,
        "gid": image.gid,
        "cwd": image.cwd,
        "env": dict(image.env),
        "start": None if image.start is None else list(image.start),
        "home": image.home,
        "groups": list(image.groups),
        **more,
    }
    (folder / RECORD).write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


def read(folder: Path) -> Image | None:
    """Return the image in a folder, or None when there is none. Raises Damaged."""
    path = folder / RECORD
    try:
        data = json.loads(path.read_bytes())
        image = Image(
            name=str(data["name"]),
            version=str(data["version"]),
            rootfs=folder / ROOTFS,
            user=str(data["user"]),
            uid=int(data["uid"]),
            gid=int(data["gid"]),
            cwd=str(data["cwd"]),
            env=tuple((str(name), str(value)) for name, value in data["env"].items()),
            start=None if data["start"] is None else tuple(map(str, data["start"])),
            home=str(data.get("home", "")),
            groups=tuple(map(int, data.get("groups", ()))),
            one_owner=bool(data.get("one_owner")),
        )
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise Damaged(what=os.fspath(path), detail=str(error), next=_AGAIN.format(folder=folder)) from error
    if not image.rootfs.is_dir():
        raise Damaged(what=os.fspath(folder), detail=f"it has no {ROOTFS}", next=_AGAIN.format(folder=folder))
    return image


def size(folder: Path) -> int:
    """Return the bytes on disk of an image that takeback made, as its record says; 0 when there is none."""
    try:
        return int(json.loads((folder / RECORD).read_bytes())["bytes"])
    except (OSError, ValueError, KeyError, TypeError):
        return 0


_AGAIN = "remove {folder} and run `takeback setup`"
