"""The image `debian`: a small Debian with bash, python3, git, curl, sudo and sqlite3, and the user `runtime`.

Built once from the mirror of the user's own apt. As root its files keep their owners. An ordinary user gets a tree that
belongs to that user altogether: built in a user namespace with that one user (see `host.one_uid`), which is also what
its sandboxes run in, and where all of it is root's.

Does not cover: the build's command line (`mmdebstrap`).
"""

from __future__ import annotations

import os
from pathlib import Path

from takeback.errors import ImageBuildFailed
from takeback.host import apt_sources, system
from takeback.host.apt_sources import Source
from takeback.machines.images import base, mmdebstrap
from takeback.machines.images.base import Image
from takeback.machines.making import Report, alone, put, scratch
from takeback.machines.network.environment import proxy_environment

NAME = "debian"
REVISION = 2  # raised with every change of what is in it; the old one stays for the snapshots that need it
SUITES = ("bookworm", "trixie")
PACKAGES = ("bash", "ca-certificates", "curl", "git", "passwd", "procps", "python3", "sqlite3", "sudo")
USER, UID, HOME = "runtime", 1000, "/workspace"
_EXPECTED = ("bin/bash", "usr/bin/python3", "usr/bin/git", "usr/bin/curl", "usr/bin/sqlite3", "usr/bin/sudo.debian")

_PROXY = proxy_environment()
_APT_CONF = f'Acquire::http::Proxy "{_PROXY["HTTP_PROXY"]}";\nAcquire::https::Proxy "{_PROXY["HTTPS_PROXY"]}";\n'
# A variable that is set, also to nothing, is the user's own word.
_PROFILE = "".join(f': "${{{name}={value}}}"; export {name}\n' for name, value in _PROXY.items()) + (
    f'case ":$PATH:" in *:{HOME}/.local/bin:*) ;; *) PATH="{HOME}/.local/bin:$PATH" ;; esac\n'
)

# $1 is the new system's root, $2 the folder for what the build wants to know. Runs as root of the namespace.
_FINISH = f"""#!/bin/sh
set -e
chroot "$1" useradd --no-create-home --home-dir {HOME} --uid {UID} --user-group --shell /bin/bash {USER}
mkdir "$1{HOME}" "$1/.takeback"
chroot "$1" chown {UID}:{UID} {HOME}
mkdir -p "$1/etc/sudoers.d"
printf '%s ALL=(ALL:ALL) NOPASSWD: ALL\\n' {USER} > "$1/etc/sudoers.d/{USER}"
chmod 0440 "$1/etc/sudoers.d/{USER}"
# gVisor ignores set-user-ID bits, so Debian's sudo cannot work in it: the supervisor is sudo too (supervisor/sudo.c).
chroot "$1" dpkg-divert --quiet --local --rename --divert /usr/bin/sudo.debian --add /usr/bin/sudo
ln -s /.takeback/init "$1/usr/bin/sudo"
echo sandbox > "$1/etc/hostname"
printf '127.0.0.1 localhost sandbox\\n::1 localhost ip6-localhost ip6-loopback\\n' > "$1/etc/hosts"
# No name server: names are looked up outside, by the proxy. Without a line the answer "none there" comes at once.
: > "$1/etc/resolv.conf"
chroot "$1" dpkg-query --show --showformat '${{Package}}\\t${{Version}}\\n' > "$2/packages"
"""


class Debian:
    """The image for one data directory; `mirror` (a URL) only where the user's apt has no Debian mirror."""

    def __init__(self, images: Path, *, mirror: str = "", packages: tuple[str, ...] = PACKAGES) -> None:
        mine = system.debian()
        self.suite = mine if mine in SUITES else SUITES[0]
        self.folder = images / f"{NAME}-{REVISION}-{self.suite}"
        self._mirror = mirror
        self._packages = packages

    def find(self) -> Image | None:
        """Return it if it is built. Raises Damaged."""
        return base.read(self.folder)

    def ensure(self, report: Report) -> Image:
        """Return it, built first if need be (a minute, 200 MB).

        Raises ImageBuildFailed, FetchFailed, ToolMissing, DiskFull, CannotWrite, Busy; then nothing is left of it.
        """
        found = self.find()
        if found is not None:
            return found
        with alone(self.folder.parent, f"building the image {NAME}", report):
            return self.find() or self._build(report)

    def _build(self, report: Report) -> Image:
        sources = self._sources()
        problem = system.namespace_problem()
        if problem:
            raise ImageBuildFailed(name=NAME, why=problem, next=system.namespace_fix())
        with scratch(self.folder.parent) as work:
            made = work / "made"
            made.mkdir()
            rootfs = made / base.ROOTFS
            finish = work / "finish"
            finish.write_text(_FINISH)
            mmdebstrap.build(
                rootfs, self.suite, sources, self._packages, finish=finish, work=work, name=NAME, report=report
            )
            self._set_apt(rootfs, sources)
            self._set_network(rootfs)
            missing = [one for one in _EXPECTED if self._packages == PACKAGES and not (rootfs / one).exists()]
            if missing:
                raise ImageBuildFailed(
                    name=NAME, why=f"it came out without {', '.join(missing)}", next="repeat `takeback setup`"
                )
            rows = (work / "packages").read_text().splitlines()
            base.write(
                made,
                self._image(),
                suite=self.suite,
                architecture=system.architecture(),
                one_owner=not system.is_root(),
                bytes=disk_used(rootfs),
                packages=dict(row.split("\t", 1) for row in rows),
            )
            report("writing it to disk")
            put(made, self.folder)
        found = self.find()
        assert found is not None
        return found

    def _image(self) -> Image:
        env = {
            "PATH": f"{HOME}/.local/bin:{base.PATH}",
            "HOME": HOME,
            "USER": USER,
            "LOGNAME": USER,
            "SHELL": "/bin/bash",
            "LANG": "C.UTF-8",
        }
        return Image(
            name=NAME,
            version=f"{REVISION}-{self.suite}",
            rootfs=self.folder / base.ROOTFS,
            user=USER,
            uid=UID,
            gid=UID,
            cwd=HOME,
            env=tuple(env.items()),
        )

    def _sources(self) -> list[Source]:
        known = apt_sources.sources()
        if self._mirror:
            keys = apt_sources.ARCHIVE_KEYS if os.path.exists(apt_sources.ARCHIVE_KEYS) else ""
            main: Source | None = Source(self._mirror, self.suite, signed_by=keys)
        else:
            main = apt_sources.debian_source(self.suite, known)
        if main is None:
            raise ImageBuildFailed(
                name=NAME,
                why="apt has no Debian mirror on this machine",
                next="name one with `takeback setup --mirror URL`, or use a directory with a system in it as the image",
            )
        security = apt_sources.security_source(self.suite, known)
        return [main, *([security] if security else [])]

    def _set_apt(self, rootfs: Path, sources: list[Source]) -> None:
        """Point the apt inside at the same mirrors, with the keys it needs to verify them."""
        keyrings = rootfs / "etc/apt/keyrings"
        lines = []
        for source in sources:
            inside = []
            for key in filter(None, source.signed_by.split(",")):
                if not os.path.exists(f"{rootfs}{key}"):
                    (keyrings / Path(key).name).write_bytes(Path(key).read_bytes())
                    key = f"/etc/apt/keyrings/{Path(key).name}"
                inside.append(key)
            lines.append(Source(source.mirror, source.suite, source.components, ",".join(inside)).line())
        (rootfs / "etc/apt/sources.list").write_text("".join(f"{line}\n" for line in lines))

    def _set_network(self, rootfs: Path) -> None:
        """Tell the only way outside to what keeps no environment, and to login shells, which also reset PATH."""
        (rootfs / "etc/apt/apt.conf.d/80sandbox").write_text(_APT_CONF)
        (rootfs / "etc/profile.d").mkdir(exist_ok=True)
        (rootfs / "etc/profile.d/sandbox.sh").write_text(_PROFILE)


def disk_used(folder: Path) -> int:
    """Return the bytes that a folder takes on its disk; nothing is followed, hard links count once."""
    seen: set[tuple[int, int]] = set()
    total = 0
    for top, folders, files in os.walk(folder):
        for name in [*folders, *files]:
            info = os.lstat(os.path.join(top, name))
            if (info.st_dev, info.st_ino) not in seen:
                seen.add((info.st_dev, info.st_ino))
                total += info.st_blocks * 512
    return total
