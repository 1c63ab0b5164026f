"""An engine for tests of what is above the seam: the real supervisor in its own namespaces, its disk a copied folder.

A snapshot holds files only; what is restored from it begins with no processes. What runs in it cannot harm the host by
accident, but nothing keeps it from doing so on purpose. Needs root, or a user namespace with it.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from takeback.errors import EngineFailed, MachineGone, SnapshotDamaged, SnapshotMismatch
from takeback.host import atomic, ending, proc, process
from takeback.machines.engine import Answers, Capabilities, EngineVersion, Machine, Saved, State, Strain, Usage

NAME, VERSION = "fake", "1"
_NOTE, _DISK, _SNAP = "fake.json", "disk", "fake-snapshot.json"
_ENTER = (
    'mount -t proc proc "$2/proc" && mount -t tmpfs tmpfs "$2/tmp" && echo "$1" >"$2/proc/sys/kernel/hostname" && '
    'exec chroot "$2" /.takeback/init'
)
_END, _COPY = 10.0, 120.0


class Fake:
    """Implements `machines.engine.Engine`; `passing` is where passing snapshots lie."""

    def __init__(self, passing: Path) -> None:
        self._passing = passing

    def version(self) -> EngineVersion:
        return EngineVersion(NAME, VERSION)

    def capabilities(self) -> Capabilities:
        no = "the fake engine copies files only: what is restored begins with no processes"
        return Capabilities(memory_snapshot=no, limits="the fake engine bounds nothing", network_rules="it has none")

    def prepare(self, machine: Machine, saved: Saved | None = None) -> None:
        if self.state(machine) not in (State.STOPPED, State.CREATED):
            raise EngineFailed(what="start a sandbox", why=f"{machine.id} runs already")
        self.remove(machine)
        _copy(saved.folder / _DISK if saved else machine.spec.base, machine.folder / _DISK)
        self._note(machine, proc.ProcessId(0, ""), State.CREATED)

    def start(self, machine: Machine) -> None:
        if self.state(machine) is not State.CREATED:
            self.prepare(machine)
        self._run(machine)

    def _run(self, machine: Machine) -> None:
        disk = machine.folder / _DISK
        argv = ["unshare", "--mount", "--pid", "--uts", "--ipc", "--fork", "--kill-child", "sh", "-c", _ENTER, "sh"]
        try:
            shutil.copytree(machine.spec.supervisor, disk / ".takeback", dirs_exist_ok=True)
            (disk / "proc").mkdir(exist_ok=True)
            stdin = os.open(machine.stdio.to_guest, os.O_RDWR | os.O_CLOEXEC)
            stdout = os.open(machine.stdio.from_guest, os.O_RDWR | os.O_CLOEXEC)
            try:
                child = process.start(
                    [*argv, machine.spec.hostname, os.fspath(disk)],
                    env=process.clean_environment(), cwd="/", stdin=stdin, stdout=stdout,
                )  # fmt: skip
            finally:
                os.close(stdin)
                os.close(stdout)
        except OSError as error:
            self.remove(machine)
            raise EngineFailed(what="start a sandbox", why=str(error)) from error
        self._note(machine, proc.ProcessId(child.pid, proc.start_time(child.pid)), State.RUNNING)

    def save(self, machine: Machine, into: Path, *, memory: bool = True, answers: Answers | None = None) -> Saved:
        before = self._alive(machine)
        self.pause(machine)
        try:
            _copy(machine.folder / _DISK, into / _DISK)
        finally:
            if before is State.RUNNING:
                self.resume(machine)
        text = json.dumps({"spec": self._spec(machine, sized=memory), "sized": memory, "engine": f"{NAME} {VERSION}"})
        atomic.write_bytes(into / _SNAP, text.encode())
        return self.saved(into)

    def keep(self, machine: Machine, into: Path) -> Saved | None:
        main = self._read(machine)[0]
        if not (machine.folder / _DISK).is_dir() or not main.pid:
            return None
        ending.kill_exactly([main, *(ending.below(main.pid) if main.alive() else ())], _END)
        (machine.folder / _DISK).rename(into / _DISK)
        text = json.dumps({"spec": self._spec(machine, sized=False), "sized": False, "engine": f"{NAME} {VERSION}"})
        atomic.write_bytes(into / _SNAP, text.encode())
        return self.saved(into)

    def fork(self, machine: Machine, copies: Sequence[Machine], into: Path, *, answers: Answers | None = None) -> Saved:
        saved = self.save(machine, into)
        try:
            for copy in copies:
                self.restore(copy, saved)
        except BaseException:
            for copy in copies:
                self.remove(copy)
            raise
        return saved

    def passing(self, name: str, of: Machine | None = None) -> Path:
        folder = self._passing / name
        folder.mkdir(parents=True)
        return folder

    def saved(self, folder: Path) -> Saved:
        try:
            engine = str(json.loads((folder / _SNAP).read_bytes())["engine"])
        except (OSError, ValueError, KeyError) as error:
            raise SnapshotDamaged(snapshot=folder.name, why=repr(error)) from error
        return Saved(folder, memory=False, engine=engine, files=(), paused_s=0.0)

    def restore(self, machine: Machine, saved: Saved) -> None:
        try:
            head = json.loads((saved.folder / _SNAP).read_bytes())
            spec, sized = head["spec"], head["sized"]
        except (OSError, ValueError, KeyError) as error:
            raise SnapshotDamaged(snapshot=saved.folder.name, why=repr(error)) from error
        if spec != self._spec(machine, sized=sized):
            raise SnapshotMismatch(snapshot=saved.folder.name, why="another spec", next="restore it with its own")
        if not (saved.folder / _DISK).is_dir():
            raise SnapshotDamaged(snapshot=saved.folder.name, why="its files are gone")
        self.prepare(machine, saved)
        self._run(machine)

    def pause(self, machine: Machine) -> None:
        self._signal(machine, signal.SIGSTOP, State.PAUSED)

    def resume(self, machine: Machine) -> None:
        self._signal(machine, signal.SIGCONT, State.RUNNING)

    def _signal(self, machine: Machine, signo: int, state: State) -> None:
        self._alive(machine)
        main = self._read(machine)[0]
        for target in (main, *ending.below(main.pid)):
            if target.alive():
                os.kill(target.pid, signo)
        self._note(machine, main, state)

    def state(self, machine: Machine) -> State:
        main, state = self._read(machine)
        return state if state is State.CREATED or main.alive() else State.STOPPED

    def watch(self, machine: Machine) -> int | None:
        main = self._read(machine)[0]
        return os.pidfd_open(main.pid) if main.alive() else None

    def ended_because(self, machine: Machine) -> str:
        return ""

    def usage(self, machine: Machine) -> Usage:
        main = self._read(machine)[0]
        return Usage(0.0, 0, 0, processes=1 + len(ending.below(main.pid)) if main.alive() else 0)

    def strain(self, machine: Machine) -> Strain:
        return Strain()

    def remove(self, machine: Machine) -> None:
        main = self._read(machine)[0]
        if main.pid:  # one that ended by itself still waits to be reaped
            ending.kill_exactly([main, *(ending.below(main.pid) if main.alive() else ())], _END)
        shutil.rmtree(machine.folder / _DISK, ignore_errors=True)
        (machine.folder / _NOTE).unlink(missing_ok=True)

    def make_ahead(self) -> bool:
        return False  # its machines are up at once

    def drop_ahead(self) -> None:
        pass

    def sweep(self, known: Sequence[Machine], saved: Sequence[Path]) -> tuple[str, ...]:
        gone = [entry for entry in self._passing.iterdir() if entry not in saved] if self._passing.is_dir() else []
        for entry in gone:
            shutil.rmtree(entry)
        return tuple(f"unfinished snapshot {entry.name}" for entry in gone)

    def _alive(self, machine: Machine) -> State:
        state = self.state(machine)
        if state not in (State.RUNNING, State.PAUSED):
            raise MachineGone(id=machine.id, why="its process ended")
        return state

    def _spec(self, machine: Machine, *, sized: bool) -> list[str]:
        spec = machine.spec if sized else replace(machine.spec, vcpu=0, memory_mib=0, disk_mib=0)
        return [os.fspath(spec.base), os.fspath(spec.supervisor), spec.disk, repr(replace(spec, hostname=""))]

    def _note(self, machine: Machine, main: proc.ProcessId, state: State) -> None:
        text = json.dumps({"pid": main.pid, "start": main.start, "state": state})
        atomic.write_bytes(machine.folder / _NOTE, text.encode(), durable=False)

    def _read(self, machine: Machine) -> tuple[proc.ProcessId, State]:
        try:
            found = json.loads((machine.folder / _NOTE).read_bytes())
        except OSError:
            return proc.ProcessId(0, ""), State.STOPPED
        return proc.ProcessId(found["pid"], found["start"]), State(found["state"])


def _copy(source: Path, target: Path) -> None:
    argv = ["cp", "-a", "--reflink=auto", "--one-file-system", os.fspath(source), os.fspath(target)]
    done = process.start(argv, env=process.clean_environment()).finish(_COPY)
    if done.code != 0:
        shutil.rmtree(target, ignore_errors=True)
        raise EngineFailed(what="copy its files", why=done.err.decode("utf-8", "replace").strip()[-300:])
