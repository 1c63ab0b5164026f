"""What this machine is and lets its users do: the system's name, namespaces, overlays.

Does not cover: what is installed on it (`apt`, `tools`).
"""

from __future__ import annotations

import os
import platform
from pathlib import Path

from takeback.host import tools

_ASK_SECONDS = 15.0
# When we are killed, unshare is, and with it all that it started: nothing writes on into what the next one clears.
_WITH_US = ("setpriv", "--pdeathsig", "KILL")
_ONE_UID = (*_WITH_US, "unshare", "-Urmpf", "--mount-proc", "--kill-child")
_ROOT = (*_WITH_US, "unshare", "-mpf", "--mount-proc", "--kill-child", "--propagation", "private")


def name() -> str:
    """Return the kernel's name: `Linux`, `Darwin`, ..."""
    return platform.system()


def architecture() -> str:
    """Return the machine's architecture as the kernel names it: `x86_64`, `aarch64`, ..."""
    return platform.machine()


def debian() -> str:
    """Return the codename of the Debian that runs here, or an empty string; derivatives are not Debian."""
    try:
        release = platform.freedesktop_os_release()
    except OSError:
        return ""
    return release.get("VERSION_CODENAME", "") if release.get("ID") == "debian" else ""


def is_root() -> bool:
    return os.geteuid() == 0


def own_namespaces() -> tuple[str, ...]:
    """Return the words before a command that run it as root of its own mounts and processes; all end with it.

    Root keeps its user ids. An ordinary user becomes root in a user namespace that has that one user.
    """
    return _ROOT if is_root() else _ONE_UID


def namespace_problem() -> str:
    """Return why such namespaces cannot be made here, or an empty string."""
    code, said = tools.ask([*own_namespaces(), "true"], timeout=_ASK_SECONDS)
    return "" if code == 0 else (said.strip() or f"unshare ended with {code}")


def namespace_fix() -> str:
    """Return what to do about `namespace_problem`, from what forbids it here."""
    if is_root():
        return "run it where root may mount: outside the container, or in one with CAP_SYS_ADMIN"
    for path, fix in (
        ("kernel/apparmor_restrict_unprivileged_userns", "sysctl -w kernel.apparmor_restrict_unprivileged_userns=0"),
        ("kernel/unprivileged_userns_clone", "sysctl -w kernel.unprivileged_userns_clone=1"),
        ("user/max_user_namespaces", "sysctl -w user.max_user_namespaces=15000"),
    ):
        value = _read(Path("/proc/sys") / path)
        if value and (value != "0") == ("apparmor" in path):
            return f"as root: {fix} (and in /etc/sysctl.d to keep it), or use takeback as root"
    return "let users make user namespaces (containers: outside, or as root), or use takeback as root"


def overlay_problem(folder: Path) -> str:
    """Return why no overlay can be mounted on a folder's filesystem here, or an empty string; leaves nothing there."""
    kind = "" if is_root() else ",userxattr"
    script = (
        "set -e; cd \"$1\"; d=$(mktemp -d .overlay-XXXXXX); trap 'umount $d/m 2>/dev/null || :; rm -rf $d' EXIT;"
        f" mkdir $d/l $d/u $d/w $d/m; mount -t overlay -o lowerdir=$d/l,upperdir=$d/u,workdir=$d/w{kind} none $d/m;"
        " echo > $d/m/f; umount $d/m"
    )
    code, said = tools.ask([*own_namespaces(), "sh", "-c", script, "sh", os.fspath(folder)], timeout=_ASK_SECONDS)
    return "" if code == 0 else (said.strip() or f"the trial ended with {code}")


def _read(path: Path) -> str:
    try:
        return path.read_text(errors="replace").strip()
    except OSError:
        return ""
