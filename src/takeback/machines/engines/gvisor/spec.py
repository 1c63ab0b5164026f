"""What runsc is told about a machine: its OCI config.json, and the digest that says whether two specs are the same.

PID 1 is root inside with the capabilities that sudo, su, apt, chown, kill and low ports need, and SYS_ADMIN, which only
sethostname(2) needs: the supervisor drops that one from the bounding set of all it starts. No-new-privileges is off,
else sudo would not work; that gives nothing away, because "root inside" is a number in gVisor's own kernel. What guards
the host is that kernel's process: a user namespace, no capabilities over the host, seccomp and no-new-privileges, all
set by runsc whatever this file says.

Does not cover: flags of the command line (`runsc`), limits enforced by the host (`limits`).
"""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import asdict
from pathlib import Path
from typing import Any

from takeback.machines.engine import DiskKind, MachineSpec

INIT = "/.takeback/init"
SIZE = ("vcpu", "memory_mib", "disk_mib")
_CAPABILITIES = (
    "CAP_AUDIT_WRITE",  # su and sudo, for PAM
    "CAP_CHOWN",
    "CAP_DAC_OVERRIDE",
    "CAP_DAC_READ_SEARCH",
    "CAP_FOWNER",
    "CAP_FSETID",
    "CAP_KILL",
    "CAP_MKNOD",
    "CAP_NET_BIND_SERVICE",
    "CAP_SETFCAP",
    "CAP_SETGID",
    "CAP_SETPCAP",  # PR_CAPBSET_DROP, by the supervisor
    "CAP_SETUID",
    "CAP_SYS_ADMIN",  # the supervisor's alone
    "CAP_SYS_CHROOT",
    "CAP_SYS_NICE",
)
_FILES_SOFT, _FILES_HARD = 16384, 65536
_STACK = 8 << 20
_ALL_IN_MEMORY = "all:memory"
_ONLY_OF_MEMORY = ("hostname", "supervisor", "vcpu", "memory_mib", "disk_mib", "max_processes")
_OPEN_TO_ALL = ("/tmp", "/var/tmp", "/dev/shm")


def digest(spec: MachineSpec, *, memory: bool = True) -> str:
    """Return a text that is equal for two specs of which one's snapshot can be restored as the other.

    Without `memory` only the disk was saved: it boots anew, in another size and under another supervisor if need be.
    """
    fields = asdict(spec)
    for name in ("hostname",) if memory else _ONLY_OF_MEMORY:
        del fields[name]
    text = json.dumps(fields, sort_keys=True, default=os.fspath)
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def config(spec: MachineSpec, *, root: Path, empty: Path) -> dict[str, Any]:
    """Return config.json; `root` is the folder to be seen as /, `empty` an empty file that hides masked files."""
    capabilities = list(_CAPABILITIES)
    return {
        "ociVersion": "1.0.2",
        "process": {
            "terminal": False,
            "user": {"uid": 0, "gid": 0},
            "args": [INIT],
            "env": ["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root"],
            "cwd": "/",
            "noNewPrivileges": False,
            "capabilities": {
                "bounding": capabilities,
                "effective": capabilities,
                "permitted": capabilities,
                "inheritable": [],
                "ambient": [],
            },
            "rlimits": [
                # For root inside too, since CAP_SYS_RESOURCE is not given. Counted for each user.
                {"type": "RLIMIT_NPROC", "soft": spec.max_processes, "hard": spec.max_processes},
                {"type": "RLIMIT_NOFILE", "soft": _FILES_SOFT, "hard": _FILES_HARD},
                # No RLIMIT_DATA: this kernel counts only brk(2) for it. No RLIMIT_AS: Go, V8 and JVMs reserve far more
                # addresses than they use.
                {"type": "RLIMIT_STACK", "soft": _STACK, "hard": _STACK * 8},
                {"type": "RLIMIT_CORE", "soft": 0, "hard": 0},
            ],
        },
        "root": {"path": os.fspath(root), "readonly": False},
        "hostname": spec.hostname,
        "mounts": _mounts(spec, empty),
        "linux": {"namespaces": [{"type": kind} for kind in ("pid", "network", "ipc", "uts", "mount")]},
    }


def bound(spec: MachineSpec) -> tuple[str, ...]:
    """Return the paths that folders of the host's are mounted on; the engine makes those that are not there."""
    return (os.path.dirname(INIT), *spec.shown, *(inside for _, inside, _ in spec.binds))


def _mounts(spec: MachineSpec, empty: Path) -> list[dict[str, Any]]:
    mounts: list[dict[str, Any]] = [
        {"destination": "/proc", "type": "proc", "source": "proc"},
        {"destination": "/sys", "type": "sysfs", "source": "sysfs", "options": ["ro", "nosuid", "nodev", "noexec"]},
        {"destination": "/dev", "type": "tmpfs", "source": "tmpfs"},
    ]
    for path in spec.tmpfs:
        mode = "1777" if path in _OPEN_TO_ALL else "0755"
        # As on Linux half of memory: a full /tmp answers "no space left" instead of ending the machine.
        options = ["nosuid", "nodev", f"mode={mode}", f"size={max(spec.memory_mib // 2, 16)}m"]
        mounts.append({"destination": path, "type": "tmpfs", "source": "tmpfs", "options": options})
    for path in spec.masked:
        mounts.append(_mask(spec.base, path, empty))
    # Written through only where the overlay is not over all of it; else what is written stays in the machine.
    kept = overlay_flag(spec) == _ALL_IN_MEMORY
    for path in spec.shown:
        source, options = os.fspath(spec.base / path.lstrip("/")), ["rbind", "rw" if kept else "ro", "nosuid", "nodev"]
        mounts.append({"destination": path, "type": "bind", "source": source, "options": options})
    for place, inside, writable in spec.binds:
        options = ["rbind", "rw" if writable else "ro"]
        mounts.append({"destination": inside, "type": "bind", "source": os.fspath(place), "options": options})
    mounts.append(
        {
            "destination": "/.takeback",
            "type": "bind",
            "source": os.fspath(spec.supervisor),
            "options": ["rbind", "ro", "nosuid", "nodev"],
        }
    )
    return mounts


def _mask(base: Path, path: str, empty: Path) -> dict[str, Any]:
    hidden = base / path.lstrip("/")
    if hidden.exists() and not hidden.is_dir():
        return {"destination": path, "type": "bind", "source": os.fspath(empty), "options": ["bind", "ro"]}
    # Also where there is nothing: then nothing that appears there later is seen either.
    return {"destination": path, "type": "tmpfs", "source": "tmpfs", "options": ["ro", "size=0", "mode=0555"]}


def overlay_flag(spec: MachineSpec) -> str:
    """Return what `--overlay2` must say for a machine, the same at every restore."""
    if spec.disk is DiskKind.LAYERS:
        return "none"
    # With `all` what is written below a writable bind would stay in memory too.
    return "root:memory" if any(writable for _, _, writable in spec.binds) else _ALL_IN_MEMORY
