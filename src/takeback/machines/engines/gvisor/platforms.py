"""How gVisor runs programs on this host: the platform is found out by running one, under a time limit.

    systrap   the quickest without KVM; needs seccomp and ptrace
    ptrace    slow, and works nearly everywhere: when systrap does not
    kvm       only when asked for: on some hosts it hangs, on others it is slower

What was found to work holds until the next boot, for this runsc: PLACE/platforms.json. A failure is not kept: whoever
has mended something need not know of a file.

Does not cover: machines that run already, or are restored: they keep the platform they have.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from takeback.errors import EngineFailed
from takeback.host import atomic, process, system
from takeback.machines.engines.gvisor import checks

NAMES = ("systrap", "ptrace", "kvm")
_TRIED = ("systrap", "ptrace")
_FILE = "platforms.json"
_SECONDS = 10.0
_WORDS = 300


@dataclass(frozen=True)
class Choice:
    """The platform that is used, and in words why not those that were to be tried before."""

    name: str
    why: str = ""

    def __str__(self) -> str:
        return f"{self.name} ({self.why})" if self.why else self.name


def choose(binary: Path, place: Path, asked: str = "", *, seconds: float = _SECONDS) -> Choice:
    """Return the first platform that works: the one that was `asked` for, systrap, ptrace.

    `place` is a folder to keep in what was found. Raises EngineFailed when none works.
    """
    noted = _Noted(place if _own(binary) is None else binary.parent, binary)
    whys: list[str] = []
    for name in dict.fromkeys([*([asked] if asked else []), *_TRIED]):
        if name not in noted.working:
            why = _try(binary, name, seconds)
            if why:
                whys.append(f"{name} does not work here: {why}")
                continue
            noted.add(name)
        return Choice(name, "; ".join(whys))
    raise EngineFailed(what="run anything on this machine", why="; ".join(whys))


def _own(binary: Path) -> Path | None:
    """Return the file that takeback keeps beside an engine it fetched itself."""
    beside = binary.parent / "engine.json"
    return beside if beside.exists() else None


class _Noted:
    """What was found to work since this boot, with this runsc, for this user."""

    def __init__(self, place: Path, binary: Path) -> None:
        self._file = place / _FILE
        found = os.stat(binary)
        self._stamp = [checks.boot_id(), os.fspath(binary), found.st_size, found.st_mtime_ns, os.getuid()]
        self.working: list[str] = []
        try:
            document: dict[str, Any] = json.loads(self._file.read_bytes())
            if document["stamp"] == self._stamp:
                self.working = [name for name in document["working"] if name in NAMES]
        except (OSError, ValueError, KeyError, TypeError):
            pass

    def add(self, name: str) -> None:
        self.working.append(name)
        document = {"stamp": self._stamp, "working": self.working}
        with suppress(OSError):  # found out again next time
            atomic.write_bytes(self._file, json.dumps(document).encode(), durable=False)


def _try(binary: Path, name: str, seconds: float) -> str:
    """Run a program and return why it did not work, or an empty text. Nothing of a trial that hangs is left."""
    folder = Path(tempfile.mkdtemp(prefix="takeback-trial-"))
    try:
        (folder / "config.json").write_text(json.dumps(_config()))
        return _run(_argv(binary, name, folder), folder / "log", seconds)
    except OSError as error:
        return str(error)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _argv(binary: Path, name: str, folder: Path) -> list[str]:
    # In namespaces of its own, as machines are: whatever it starts ends with it.
    return [
        *system.own_namespaces(),
        os.fspath(binary), f"--root={folder / 'state'}", "--network=none", "--ignore-cgroups", f"--platform={name}",
        "--overlay2=all:memory", f"--log={folder / 'log'}", "--log-format=json",
        "run", f"--bundle={folder}", f"trial-{secrets.token_hex(4)}",
    ]  # fmt: skip


def _config() -> dict[str, Any]:
    return {
        "ociVersion": "1.0.2",
        "process": {
            "user": {"uid": 0, "gid": 0}, "args": ["/bin/sh", "-c", ":"], "cwd": "/",
            "env": ["PATH=/usr/bin:/bin"],
        },
        "root": {"path": "/", "readonly": True},
        "mounts": [{"destination": "/proc", "type": "proc", "source": "proc"}],
        "linux": {"namespaces": [{"type": kind} for kind in ("pid", "network", "ipc", "uts", "mount")]},
    }  # fmt: skip


def _run(argv: Sequence[str], log: Path, seconds: float) -> str:
    from takeback.machines.engines.gvisor.runsc import last_error

    try:
        done = process.start(argv, env=process.clean_environment(), cwd="/").finish(seconds, kill=True)
    except process.TimeoutExpired:
        return f"no answer within {seconds:g} s"
    if done.code == 0:
        return ""
    said = done.err.decode("utf-8", "replace").strip()
    return (last_error(log) or said or f"exit code {done.code}")[-_WORDS:]
