"""Kill `takeback` at its N-th write: a `sitecustomize` counts what Python is about to change and ends it there.

Counted, before each: rename, unlink, mkdir, rmdir, symlink, link, chmod, chown, utime, truncate, an open for writing,
a write (half of it is done), a child process (before it starts, and just after), a SQLite commit (before and after).
Does not cover: writes inside git. It is never killed itself: a killed parent leaves it to finish alone.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from dataclasses import dataclass
from pathlib import Path

from tests.support.cli import Home, Project, Result

_SITE = """
import os, signal, sqlite3, subprocess, sys

AT = int(os.environ.get("TEST_KILL_AT", "0"))
LOG = os.environ.get("TEST_KILL_LOG")
EVENTS = {
    "os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.symlink", "os.link", "os.chmod", "os.chown", "os.utime",
    "os.truncate", "subprocess.Popen",
}
count = 0
busy = False


def tick(what):
    global count, busy
    if busy:
        return False
    count += 1
    if LOG:
        busy = True
        with open(LOG, "a") as file:
            file.write(f"{count} {what}\\n")
        busy = False
    return count == AT


def die():
    os.kill(os.getpid(), signal.SIGKILL)


def heard(event, args):
    if event in EVENTS or (event == "open" and isinstance(args[2], int) and args[2] & 3):
        if tick(f"{event} {args[:2]!r}"):
            die()


real_write, real_spawn, real_connect = os.write, subprocess.Popen.__init__, sqlite3.connect


def write(fd, data):
    if fd > 2 and tick(f"write {fd} {len(data)}"):
        real_write(fd, bytes(data)[: len(data) // 2])
        die()
    return real_write(fd, data)


def spawn(self, *args, **kwargs):
    real_spawn(self, *args, **kwargs)
    if tick("spawned"):
        die()


class Connection(sqlite3.Connection):
    def execute(self, query, *rest):
        ends = query.startswith("COMMIT")
        if ends and tick("before commit"):
            die()
        result = super().execute(query, *rest)
        if ends and tick("after commit"):
            die()
        return result

    def __exit__(self, *error):
        if tick("before commit"):
            die()
        result = super().__exit__(*error)
        if tick("after commit"):
            die()
        return result


def connect(*args, **kwargs):
    kwargs.setdefault("factory", Connection)
    return real_connect(*args, **kwargs)


os.write, subprocess.Popen.__init__, sqlite3.connect = write, spawn, connect
sys.addaudithook(heard)
"""


class Killer:
    """Runs commands of one home that die at a chosen write."""

    def __init__(self, home: Home, folder: Path) -> None:
        self._home = home
        self._log = folder / "writes.log"
        self._site = folder / "site"
        self._site.mkdir()
        (self._site / "sitecustomize.py").write_text(_SITE, encoding="utf-8")

    def _env(self, at: int) -> dict[str, str]:
        paths = [str(self._site), self._home.extra.get("PYTHONPATH", "")]
        return {
            "PYTHONPATH": os.pathsep.join(path for path in paths if path),
            "PYTHONDONTWRITEBYTECODE": "1",
            "TEST_KILL_AT": str(at),
            "TEST_KILL_LOG": str(self._log),
        }

    def count(self, project: Project, *args: str) -> int:
        """Return how many writes a command makes when nobody kills it; it is run for that."""
        self._log.unlink(missing_ok=True)
        project.tb(*args, env=self._env(0))
        return len(self.writes())

    def writes(self) -> list[str]:
        """Return what the last command was about to write, one line each."""
        return self._log.read_text(encoding="utf-8").splitlines()

    def different(self) -> list[int]:
        """Return the numbers of the last command's writes, of long runs of alike ones only the ends.

        Objects go to the store one after the other, in the same five steps each.
        """
        alike = ["store.git/objects" in one or " write " in one or "os.chmod (" in one for one in self.writes()]
        chosen = []
        for number, same in enumerate(alike):
            near = alike[max(0, number - 8) : number + 3]
            if not (same and all(near) and len(near) == 11):
                chosen.append(number + 1)
        return chosen

    def kill(self, project: Project, at: int, *args: str) -> str:
        """Run a command that dies at a write and return which one that was; empty when it ended before."""
        self._log.unlink(missing_ok=True)
        process = project.start(args[0], "--json", *args[1:], env=self._env(at))
        out, err = process.communicate(timeout=300)
        if process.returncode == -signal.SIGKILL:
            return self.writes()[-1]
        assert process.returncode == 0, (process.returncode, out, err)
        return ""


@dataclass
class World:
    """A home and a project that can be put back as they were, all of it, private data included."""

    home: Home
    project: Project
    top: Path
    saved: Path

    def save(self) -> None:
        """Remember everything as it is now."""
        shutil.rmtree(self.saved, ignore_errors=True)
        _copy(self.top, self.saved)

    def again(self) -> None:
        """Make everything as it was when saved; inodes and ctimes are new."""
        shutil.rmtree(self.top)
        _copy(self.saved, self.top)


def _copy(source: Path, target: Path) -> None:
    subprocess.run(["cp", "-a", "--", str(source), str(target)], check=True)


def leftovers(project: Project) -> list[str]:
    """Return what a killed command must not leave behind for longer than until the next one."""
    found = [
        name for name in os.listdir(project.root) if name.startswith(".takeback-stage") or name.endswith(".takeback")
    ]
    git = Path(project.root) / ".git"
    found += [str(path) for path in git.rglob("*") if path.name.endswith((".lock", ".takeback"))]
    found += [str(path) for path in git.rglob("*.takeback*")]
    data = project.home.data
    for pattern in ("journal.json", "*.lock", ".tmp-*", "tmp*", "*.new", "*.unsaved", "ignore-*", "index.copy"):
        found += [str(path) for path in data.rglob(pattern) if path.exists()]
    return sorted(set(found))


def doctor_says(project: Project) -> list[str]:
    """Return the findings that are not well."""
    result: Result = project.tb("doctor", check=False)
    return [f"{one['name']}: {one['detail']}" for one in result["findings"] if not one["ok"]]
