"""The image `host`: this machine's own root, seen copy-on-write, without what is somebody's own.

    host                    programs, libraries, settings of this machine; nobody's files
    host:/srv/data:/opt/x   the same, and these folders too, each where it is here

What a sandbox writes stays in its memory, also in folders that are named. Hidden are: every folder of / that is not the
system's (/home, /root, /mnt, /srv, ...), what services keep, the data of takeback, and whatever not every user of this
machine may read: root inside sees no more than they do (`private` finds those).

Does not cover: saving such a sandbox, which depends on files that go on changing (`engines.gvisor.lower`).
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

from takeback.errors import UnknownImage
from takeback.machines.images import private
from takeback.machines.images.base import Image
from takeback.machines.making import Report

NAME = "host"
HOME = "/root"
# Of / only these are seen; what else is there is somebody's data, or the engine gives the sandbox its own.
SYSTEM = ("bin", "sbin", "lib", "lib32", "lib64", "libx32", "usr", "etc", "opt", "var", "nix", "gnu")
OWN = ("proc", "sys", "dev", "run", "tmp")
KEPT = (
    "/etc/docker", "/etc/kubernetes", "/etc/letsencrypt", "/etc/openvpn", "/etc/rancher", "/etc/ssl/private",
    "/etc/wireguard", "/var/backups", "/var/crash", "/var/lib/containerd", "/var/lib/containers", "/var/lib/docker",
    "/var/lib/etcd", "/var/lib/kubelet", "/var/lib/libvirt", "/var/lib/lxc", "/var/lib/lxd", "/var/lib/machines",
    "/var/lib/mongodb", "/var/lib/mysql", "/var/lib/postgresql", "/var/lib/private", "/var/lib/rancher",
    "/var/lib/redis", "/var/log", "/var/mail", "/var/snap", "/var/spool", "/var/www",
)  # fmt: skip
SECRETS = ("/etc/shadow", "/etc/shadow-", "/etc/gshadow", "/etc/gshadow-")
LOOKED_THROUGH = ("/etc", "/var", "/opt", "/usr/local")


class Host:
    """The image for one data directory; `root` is another folder than / only in tests."""

    def __init__(self, name: str, data: Path, *, root: Path = Path("/")) -> None:
        self._name = name
        self._data = data
        self._root = root

    def find(self) -> Image:
        """Return it. Raises UnknownImage when a folder is named that is none, or that would show too much."""
        shown = [self._shown(path) for path in self._name.split(":")[1:]]
        hidden, scratch, unseen = self._hidden(shown)
        cwd = next(iter(shown), "/")
        return Image(
            name=self._name,
            version="",
            rootfs=self._root,
            cwd=cwd,
            home=HOME,
            env=(("PATH", self._path(hidden, shown)),),
            masked=tuple(sorted(hidden)),
            scratch=tuple(sorted(scratch)),
            seen=tuple(f"/{name}" for name in SYSTEM),
            shown=tuple(shown),
            live=True,
            notes=tuple(f"{path} is hidden: there is too much in it to look through" for path in sorted(unseen)),
        )

    def ensure(self, report: Report) -> Image:
        """Return it; there is nothing to make."""
        return self.find()

    def _hidden(self, shown: list[str]) -> tuple[set[str], set[str], set[str]]:
        """Return the paths in SYSTEM that cannot be seen, and those that are empty but can be written to inside.

        Third are those of the second that nobody looked through.
        """
        hidden = {path for path in KEPT if os.path.lexists(self._here(path))}
        # What we cannot read cannot be read inside, and the engine could not put anything over it.
        hidden |= {path for path in SECRETS if os.access(self._here(path), os.R_OK)}
        scratch: set[str] = set()
        unseen: set[str] = set()
        for top in LOOKED_THROUGH:
            found = private.below(self._root, top, hidden)
            hidden |= found.files
            scratch |= found.folders | found.unseen  # programs inside may want to keep things of their own there
            unseen |= found.unseen
        hidden = {path for path in hidden if not private.inside(path, unseen)}
        hidden, scratch = (
            {path for path in some if not any(within(path, one) for one in shown)} for some in (hidden, scratch)
        )
        # A folder is put into what hides its parent, so that cannot be read-only.
        opened = {path for path in hidden if any(within(one, path) for one in shown)}
        hidden, scratch = hidden - opened, scratch | opened
        data = os.path.realpath(self._data)
        if self._is_seen(data, shown) and not any(within(data, path) for path in (*hidden, *scratch)):
            hidden.add(data)
        return hidden, scratch, unseen & scratch

    def _is_seen(self, path: str, shown: list[str]) -> bool:
        return path.split("/")[1] in SYSTEM or any(within(path, one) for one in shown)

    def _shown(self, path: str) -> str:
        if not path.startswith("/"):
            raise self._no(f"{path!r} is no full path, from / on")
        place = os.path.realpath(self._here(path))
        found = "/" + os.path.relpath(place, os.path.realpath(self._root)) if self._root != Path("/") else place
        try:
            if not stat.S_ISDIR(os.stat(place).st_mode):
                raise self._no(f"{path} is not a folder")
        except OSError as error:
            raise self._no(f"{path}: {error.strerror}") from error
        data = os.path.realpath(self._data)
        if found == "/" or within(found, data) or any(within(found, f"/{name}") for name in OWN[:3]):
            raise self._no(f"{path} cannot be shown")
        return found

    def _here(self, path: str) -> str:
        return os.path.join(self._root, path.lstrip("/"))

    def _path(self, hidden: set[str], shown: list[str]) -> str:
        """Return this process's PATH, without folders that cannot be seen inside."""
        kept = []
        for folder in [*os.environ.get("PATH", "").split(":"), *_ALWAYS_ON_PATH]:
            seen = self._is_seen(folder, shown) and not any(within(folder, one) for one in hidden)
            if folder.startswith("/") and seen and folder not in kept and os.path.isdir(self._here(folder)):
                kept.append(folder)
        return ":".join(kept)

    def _no(self, why: str) -> UnknownImage:
        return UnknownImage(name=self._name, why=why, known="`host`, or `host:/a/folder:/another` to see these too")


_ALWAYS_ON_PATH = ("/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin")


def within(path: str, folder: str) -> bool:
    """Whether a path is a folder or lies in it, by name alone."""
    return path == folder or path.startswith(folder.rstrip("/") + "/")
