"""The bare runsc command line: what a program without takeback would call, with the same supervisor as PID 1.

Does not cover: measuring (`measure`), takeback's own side (`machines`, `engine`).
"""

from __future__ import annotations

import itertools
import json
import os
import shutil
import subprocess
import threading
from dataclasses import dataclass
from pathlib import Path

from takeback.host import ending
from takeback.machines.engine import DiskKind, Machine, MachineSpec, Stdio
from takeback.machines.engines.gvisor import spec as specs
from tests.machines.engines.guest import Guest, Loop


@dataclass
class Up:
    """A machine whose PID 1 has answered."""

    machine: Machine
    guest: Guest


class Bare:
    """Machines of one folder, with their files in memory as runsc has them; images lie in memory too."""

    def __init__(self, top: Path, runsc: Path, base: Path, supervisor: Path) -> None:
        self._top, self._runsc, self._base, self._supervisor = top, runsc, base, supervisor
        self._state = top / "bare"
        self._state.mkdir()
        self._images = Path("/dev/shm") / f"bench-machines-{os.getpid()}"
        self._images.mkdir()
        self._numbers = itertools.count()
        self._loop = Loop()
        self._up: list[Up] = []
        (top / "empty").touch(mode=0o000)

    def start(self) -> Up:
        machine = self._machine()
        self._call("run", "--detach", self._bundle(machine), machine.id, stdio=machine.stdio)
        return self._attach(machine)

    def save(self, up: Up) -> Path:
        """Write an image, and let the machine run on."""
        image = self._images / f"i{next(self._numbers)}"
        image.mkdir()
        with up.guest.quiet():
            self._call("checkpoint", "--leave-running", "--compression=none", f"--image-path={image}", up.machine.id)
        return image

    def restore(self, image: Path) -> Up:
        machine = self._machine()
        bundle = self._bundle(machine)
        self._call("restore", "--detach", bundle, f"--image-path={image}", machine.id, stdio=machine.stdio)
        return self._attach(machine)

    def fork(self, up: Up, count: int = 1) -> list[Up]:
        """Save a machine and restore `count` copies at once."""
        image, made = self.save(up), []
        threads = [threading.Thread(target=lambda: made.append(self.restore(image))) for _ in range(count)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        shutil.rmtree(image)
        if len(made) < count:
            raise SystemExit("a bare restore failed")
        return made

    def execute(self, up: Up, *argv: str) -> None:
        self._call("exec", up.machine.id, *argv)

    def delete(self, up: Up) -> None:
        """As its user would."""
        self._call("delete", "--force", up.machine.id)
        self.remove(up)

    def remove(self, up: Up) -> None:
        """As quickly as can be, for what is not measured."""
        if up not in self._up:
            return
        self._up.remove(up)
        up.guest.close()
        wanted = f"--bundle={up.machine.folder}".encode()
        found = ending.with_command(lambda arguments: wanted in arguments)
        ending.kill_exactly([*found, *(child for one in found for child in ending.below(one.pid))], 20)
        for path in self._state.glob(f"*{up.machine.id}*"):
            path.unlink()

    def close(self) -> None:
        for up in list(self._up):
            self.remove(up)
        shutil.rmtree(self._images, ignore_errors=True)
        self._loop.close()

    def _machine(self) -> Machine:
        name = f"bare{next(self._numbers):05}"
        folder = self._top / name
        folder.mkdir()
        stdio = Stdio(folder / "in", folder / "out")
        for path in (stdio.to_guest, stdio.from_guest):
            os.mkfifo(path, 0o600)
        return Machine(name, folder, MachineSpec(self._base, DiskKind.MEMORY, self._supervisor), stdio)

    def _bundle(self, machine: Machine) -> str:
        config = specs.config(machine.spec, root=self._base, empty=self._top / "empty")
        (machine.folder / "config.json").write_text(json.dumps(config))
        return f"--bundle={machine.folder}"

    def _attach(self, machine: Machine) -> Up:
        guest = Guest(self._loop, machine.stdio)
        guest.attach()
        self._up.append(Up(machine, guest))
        return self._up[-1]

    def _call(self, *arguments: str, stdio: Stdio | None = None) -> None:
        argv = [
            os.fspath(self._runsc), f"--root={self._state}", "--network=none", "--ignore-cgroups",
            "--overlay2=all:memory", *arguments,
        ]  # fmt: skip
        if stdio is None:
            subprocess.run(argv, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            return
        with open(stdio.to_guest, "r+b", 0) as one, open(stdio.from_guest, "r+b", 0) as two:
            subprocess.run(argv, check=True, stdin=one, stdout=two, stderr=subprocess.DEVNULL)
