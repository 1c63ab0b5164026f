"""The only code that spells `mmdebstrap`: a new Debian system in a folder.

The system's own mmdebstrap is used if there is one; else its package (and perl's, where only perl-base is) is unpacked
for the time of the build. Nothing is installed.

Does not cover: which packages, and what is done to the system afterwards (`debian`).
"""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

from takeback.errors import DiskFull, ImageBuildFailed, ToolMissing
from takeback.host import apt, apt_sources, one_uid, system, tools
from takeback.host.apt_sources import Source
from takeback.machines.making import Report

_SECONDS = 3600.0
_ASK_SECONDS = 30.0
# Not needed in a sandbox, and a third of the size; licences stay. dpkg leaves them out from here on, also of what is
# installed inside later. They are removed from the essential packages afterwards: mmdebstrap's own filter takes 10 s.
_SMALL = r"""set -e
printf 'path-exclude=%s\n' '/usr/share/doc/*' '/usr/share/info/*' '/usr/share/locale/*' '/usr/share/man/*' \
    > "$1/etc/dpkg/dpkg.cfg.d/small"
printf 'path-include=%s\n' '/usr/share/doc/*/copyright' '/usr/share/locale/locale.alias' \
    >> "$1/etc/dpkg/dpkg.cfg.d/small"
cd "$1/usr/share"
find doc -mindepth 2 ! -type d ! -name copyright -delete
for folder in info locale man; do
    if [ -d $folder ]; then find $folder -mindepth 1 -depth ! -name locale.alias -delete; fi
done"""
_TOLD = ("I: running apt", "I: downloading", "I: extracting", "I: installing", "I: cleaning")
_DEVICES = ("null", "zero", "full", "random", "urandom", "tty")


def build(
    rootfs: Path,
    suite: str,
    sources: Sequence[Source],
    packages: Sequence[str],
    *,
    finish: Path,
    work: Path,
    name: str,
    report: Report,
) -> None:
    """Make the system, then run the script `finish` with its root and `work` as arguments, as its root.

    Raises ImageBuildFailed, FetchFailed, ToolMissing, DiskFull, TimedOut. What is left then is the caller's to remove.
    """
    env = tools.environment()
    program = _program(work / "tools", env, report)
    # What it leaves when it is killed goes with the work folder.
    temporary = work / "tmp"
    temporary.mkdir()
    env["TMPDIR"] = str(temporary)
    fetching = work / "apt.conf"
    fetching.write_text(apt.options())
    argv = [
        *system.own_namespaces(),
        *([] if system.is_root() else [sys.executable, "-IS", one_uid.__file__]),
        *program,
        "--mode=root",
        "--variant=apt",
        *([f"--include={','.join(packages)}"] if packages else []),
        f"--aptopt={fetching}",
        "--dpkgopt=force-unsafe-io",
        f"--essential-hook={_SMALL}",
        *([] if system.is_root() else _for_one_user()),
        f'--customize-hook=sh {shlex.quote(str(finish))} "$1" {shlex.quote(str(work))}',
        suite,
        str(rootfs),
        *(source.line() for source in sources),
    ]

    def on_line(line: str) -> None:
        if line.startswith(_TOLD):
            report(line[3:].rstrip("."))

    code, lines = tools.follow(argv, env=env, on_line=on_line, timeout=_SECONDS)
    if code != 0:
        if any("No space left on device" in line for line in lines):
            raise DiskFull(path=os.fspath(rootfs.parent))
        told = [line for line in lines if re.match(r"(E|Err|W|unshare|mount|dpkg):", line)] or lines
        raise ImageBuildFailed(
            name=name, why=" / ".join(told[-6:]) or f"mmdebstrap ended with {code}",
            next="look at the network, the proxy and apt's sources, and repeat `takeback setup`",
        )  # fmt: skip
    # How this machine reaches the mirror is nothing for the inside. Not before the end: apt is still used until then.
    (rootfs / "etc/apt/apt.conf.d/99mmdebstrap").unlink(missing_ok=True)


def _for_one_user() -> list[str]:
    """Options for a namespace with one user: no device can be made there, and /dev/pts and /sys not be mounted."""
    nodes = " ".join(_DEVICES)
    return [
        "--aptopt=APT::Sandbox::User root",
        "--skip=chroot/mount/dev,chroot/mount/sys",
        f'--extract-hook=for n in {nodes}; do : > "$1/dev/$n"; mount --bind "/dev/$n" "$1/dev/$n"; done; '
        'ln -sfn /proc/self/fd "$1/dev/fd"',
        f'--customize-hook=for n in {nodes}; do umount "$1/dev/$n"; rm "$1/dev/$n"; done',
    ]


def _program(folder: Path, env: dict[str, str], report: Report) -> list[str]:
    """Return the words to run mmdebstrap with; `env` gets what it needs to find its parts."""
    if tools.have("mmdebstrap"):
        return ["mmdebstrap"]
    mine = system.debian()
    known = apt_sources.sources()
    source = apt_sources.debian_source(mine, known)
    wanted = [source] if source else list(known)
    if not wanted:
        raise ToolMissing(tool="mmdebstrap", what="building an image", packages="mmdebstrap")
    report("fetching mmdebstrap")
    folder.mkdir()
    script = folder / "usr/bin/mmdebstrap"
    env["PATH"] = f"{folder}/usr/bin:{env['PATH']}"
    with apt.private(wanted) as private:
        private.update()
        private.unpack("mmdebstrap", folder)
        if tools.ask(["perl", "-c", str(script)], timeout=_ASK_SECONDS, env=env)[0] != 0:
            report("fetching perl")
            code, version = tools.ask(["perl", "-e", "print $^V"], timeout=_ASK_SECONDS, env=env, split=True)
            short = ".".join(version.strip().lstrip("v").split(".")[:2])
            if code != 0 or not short:
                raise ToolMissing(tool="perl", what="building an image", packages="perl")
            for package in ("perl", f"libperl{short}", f"perl-modules-{short}"):
                for named in (package, f"{package}t64"):
                    if private.versions(named):
                        private.unpack(named, folder)
                        break
            found = [one for one in folder.glob("usr/**/perl/*") if one.is_dir() and not one.is_symlink()]
            env["PERL5LIB"] = ":".join(map(str, found))
    code, said = tools.ask(["perl", "-c", str(script)], timeout=_ASK_SECONDS, env=env)
    if code != 0:
        raise ToolMissing(tool="perl", what=f"building an image ({said.strip()[:300]})", packages="perl")
    return ["perl", str(script)]
