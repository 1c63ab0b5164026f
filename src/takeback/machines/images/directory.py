"""A directory that holds a system, as an image: looked at, never changed.

Does not cover: what happens when somebody changes it while sandboxes use it; its owner sees to that.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

from takeback.errors import UnknownImage
from takeback.machines.images.base import Image
from takeback.machines.making import Report

_PROGRAMS = ("bin", "usr/bin", "sbin", "usr/sbin", "usr/local/bin")
_PASSWD_LIMIT = 1 << 20
_LINKS = 40  # as the kernel (path_resolution(7))


class Directory:
    """The image at `path`; user `runtime` with its home where the system has that user, else root at /."""

    def __init__(self, path: str, known: str = "`debian`") -> None:
        self._path = path
        self._known = known

    def find(self) -> Image:
        """Return it. Raises UnknownImage when it is no absolute path of a directory with some program in it."""
        path = Path(self._path)
        if not path.is_absolute():
            raise self._no("its path must be a full one, from / on")
        try:
            if not stat.S_ISDIR(os.stat(path).st_mode):
                raise self._no("it is not a directory")
            rootfs = path.resolve(strict=True)
            if rootfs == Path("/"):
                raise self._no("this machine's own root is the image `host`, which hides what is somebody's own")
            if not any(self._has_program(rootfs, name) for name in _PROGRAMS):
                raise self._no(self._instead(rootfs) or f"there is no program in {', '.join(_PROGRAMS)}")
            uid, gid, home = self._account(rootfs, "runtime")
        except FileNotFoundError:
            raise self._no("there is no such directory") from None
        except OSError as error:
            raise self._no(f"it cannot be looked at: {error.strerror}") from error
        if not uid:
            return Image(name=os.fspath(rootfs), version="", rootfs=rootfs)
        return Image(
            name=os.fspath(rootfs), version="", rootfs=rootfs, user="runtime", uid=uid, gid=gid, cwd=home,
        )  # fmt: skip

    def ensure(self, report: Report) -> Image:
        """Return it; there is nothing to make."""
        return self.find()

    def _no(self, why: str) -> UnknownImage:
        return UnknownImage(name=self._path, why=why, known=self._known)

    @staticmethod
    def _instead(rootfs: Path) -> str:
        """Return what was probably meant by a directory that holds no system, or an empty text."""
        if (rootfs / "oci-layout").is_file():
            return f"it is an OCI layout, so say oci:{rootfs}"
        if (rootfs / "rootfs").is_dir():
            return f"the system may be in {rootfs / 'rootfs'}"
        return ""

    @staticmethod
    def _has_program(rootfs: Path, folder: str) -> bool:
        place = inside(rootfs, folder)
        if place is None or not place.is_dir():
            return False
        with os.scandir(place) as entries:
            for entry in entries:
                target = inside(rootfs, f"{folder}/{entry.name}")
                if target is not None and target.is_file() and target.stat().st_mode & 0o111:
                    return True
        return False

    @staticmethod
    def _account(rootfs: Path, name: str) -> tuple[int, int, str]:
        """Return uid, gid and home of a user of that system; zeros when it has none."""
        passwd = inside(rootfs, "etc/passwd")
        if passwd is None or not passwd.is_file() or passwd.stat().st_size > _PASSWD_LIMIT:
            return 0, 0, "/"
        for line in passwd.read_text(errors="replace").splitlines():
            fields = line.split(":")
            if len(fields) == 7 and fields[0] == name and fields[2].isdigit() and fields[3].isdigit():
                home = inside(rootfs, fields[5].lstrip("/"))
                return int(fields[2]), int(fields[3]), fields[5] if home is not None and home.is_dir() else "/"
        return 0, 0, "/"


def inside(rootfs: Path, path: str) -> Path | None:
    """Follow a path as a process whose root is `rootfs` would; None where nothing is there.

    The result has no link in it, so what it names lies below `rootfs` (as long as nobody is changing it).
    """
    at: list[str] = []
    rest = [part for part in path.split("/") if part]
    links = 0
    while rest:
        part = rest.pop(0)
        if part in (".", ".."):
            del at[len(at) - (part == "..") :]
            continue
        place = rootfs.joinpath(*at, part)
        if place.is_symlink():
            links += 1
            if links > _LINKS:
                return None
            target = os.readlink(place)
            if target.startswith("/"):
                at = []
            rest = [one for one in target.split("/") if one] + rest
            continue
        at.append(part)
    result = rootfs.joinpath(*at)
    return result if os.path.lexists(result) else None
