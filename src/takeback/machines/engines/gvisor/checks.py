"""What is written down beside each machine about its processes, and whether those are still the same ones.

runsc trusts the process numbers in its own state files and would kill whatever has them now: after a reboot, or from
another pid namespace, a stranger. So nothing is ever killed, paused or asked by number unless the boot, the pid
namespace and the start time recorded here are the ones found now.

Does not cover: killing (`containers`).
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

from takeback.host import atomic, proc

FILE = "engine.json"
FORMAT = 1


class Phase(StrEnum):
    """How far a container is. What is not CREATED, RUNNING or PAUSED was interrupted if nobody works on it."""

    STARTING = "starting"  # nothing in it is worth keeping yet
    CREATED = "created"
    RUNNING = "running"
    PAUSED = "paused"
    CHANGING = "changing"  # being paused, resumed or saved: it may stand still or not, until somebody looks


@dataclass(frozen=True)
class Container:
    """One container of runsc; a machine has one, and a second for moments while it is replaced."""

    id: str
    bundle: str
    phase: Phase
    version: str
    platform: str
    overlay: str
    sandbox: tuple[int, str] = (0, "")  # pid and start time
    gofer: tuple[int, str] = (0, "")
    socket: str = ""
    layers: tuple[str, ...] = ()  # names of the layers below, lowest first (LAYERS)
    upper: str = ""  # name of the layer that is written to
    was_paused: bool = False  # what it is to be again when CHANGING is interrupted
    saved_for: str = ""  # what it was prepared for (LAYERS)
    groups: tuple[str, ...] = ()  # cgroup folders of its own

    def processes(self) -> tuple[proc.ProcessId, ...]:
        """The two processes that were recorded, sandbox first."""
        return tuple(proc.ProcessId(*found) for found in (self.sandbox, self.gofer) if found[0])


@dataclass(frozen=True)
class Record:
    """All that is known of a machine's containers; `others` are being made or taken away."""

    boot: str
    pid_namespace: int
    serial: int = 0
    current: Container | None = None
    others: tuple[Container, ...] = ()
    cpu_before: float = 0.0  # seconds used by processes that were replaced
    born: tuple[str, ...] = ()  # the layers it was made of, lowest first (LAYERS)
    format: int = field(default=FORMAT)

    def here(self) -> bool:
        """Whether the numbers in it mean anything to this process."""
        return (self.boot, self.pid_namespace) == (boot_id(), pid_namespace())

    def with_current(self, current: Container | None) -> Record:
        return replace(self, current=current)


def new_record() -> Record:
    """Return the record of a machine that was never started."""
    return Record(boot_id(), pid_namespace())


def boot_id() -> str:
    """Return what differs between two boots of the host."""
    with open("/proc/sys/kernel/random/boot_id") as file:
        return file.read().strip()


def pid_namespace() -> int:
    """Return the number of this process's pid namespace."""
    return os.stat("/proc/self/ns/pid").st_ino


def write(folder: Path, record: Record) -> None:
    """Write the record of a machine. Not synced: after a power cut its processes are gone anyway."""
    atomic.write_bytes(folder / FILE, json.dumps(asdict(record)).encode(), durable=False)


def read(folder: Path) -> Record | None:
    """Return the record of a machine, None when it has none.

    Raises ValueError when it cannot be understood.
    """
    try:
        data = json.loads((folder / FILE).read_bytes())
    except FileNotFoundError:
        return None
    try:
        if data["format"] != FORMAT:
            raise ValueError(f"format {data['format']}")
        current = data["current"]
        return Record(
            boot=str(data["boot"]),
            pid_namespace=int(data["pid_namespace"]),
            serial=int(data["serial"]),
            current=None if current is None else _container(current),
            others=tuple(_container(other) for other in data["others"]),
            cpu_before=float(data["cpu_before"]),
            born=tuple(data.get("born", ())),
        )
    except (KeyError, TypeError, AttributeError, IndexError) as error:
        raise ValueError(f"{folder / FILE}: {error!r}") from error


def _container(data: dict[str, Any]) -> Container:
    return Container(
        **{
            **data,
            "phase": Phase(data["phase"]),
            "sandbox": (int(data["sandbox"][0]), str(data["sandbox"][1])),
            "gofer": (int(data["gofer"][0]), str(data["gofer"][1])),
            "layers": tuple(data["layers"]),
            "groups": tuple(data["groups"]),
        }
    )
