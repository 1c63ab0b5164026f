"""The real `takeback` command in a private home with a clean environment, and projects to run it on.

Does not cover: what a result should be. Every call is a real process; nothing of takeback is imported here.
"""

from __future__ import annotations

import base64
import json
import os
import shlex
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from . import gitstate, tree

# Only a guard against a test that hangs for ever; no test measures time.
PATIENCE = 300.0


@dataclass(frozen=True)
class Account:
    """An account of this machine; `uid` None means: whoever runs the tests."""

    name: str
    home: Path
    uid: int | None = None
    gid: int | None = None

    def process(self) -> dict[str, Any]:
        """Return the keyword arguments that make a child process run as this account."""
        return {} if self.uid is None else {"user": self.uid, "group": self.gid, "extra_groups": []}


@dataclass(frozen=True)
class Result:
    """How a command ended: exit code, raw output, and its JSON (None when it printed none)."""

    argv: tuple[str | bytes, ...]
    code: int
    out: bytes
    err: bytes
    json: Any

    @property
    def text(self) -> str:
        """Everything it said, for assertions on messages."""
        return (self.out + b"\n" + self.err).decode("utf-8", "backslashreplace")

    def __getitem__(self, key: str) -> Any:
        assert isinstance(self.json, dict), f"no JSON object from {self.argv}: {self.text}"
        assert key in self.json, f"no {key!r} in {self.json}"
        return self.json[key]

    @property
    def error(self) -> str:
        """The kind of the error it ended with, or an empty string."""
        found = self.json.get("error", {}) if isinstance(self.json, dict) else {}
        return str(found.get("kind", ""))

    def paths(self, key: str) -> set[bytes]:
        """Return the paths a list in the JSON names, whether as texts or as objects."""
        return named(self[key])


def named(items: Iterable[Any]) -> set[bytes]:
    """Return paths as bytes from JSON items: `path_b64` where a name is not UTF-8, else `path` or the text itself."""
    found = set()
    for item in items:
        if isinstance(item, str):
            found.add(os.fsencode(item))
        elif "path_b64" in item:
            found.add(base64.b64decode(item["path_b64"]))
        else:
            found.add(item["path"].encode())
    return found


@dataclass
class Home:
    """A private home directory: its environment, and the commands that run in it."""

    path: Path
    account: Account
    python: Sequence[str] = (sys.executable,)
    extra: dict[str, str] = field(default_factory=dict)

    @property
    def data(self) -> Path:
        """Where takeback keeps its private data."""
        return self.path / "takeback-data"

    @property
    def temp(self) -> Path:
        """TMPDIR of every child, so that leftovers can be counted."""
        return self.path / "tmp"

    @property
    def settings(self) -> Path:
        """The user's settings file."""
        return self.path / ".config" / "takeback" / "config.toml"

    def set(self, lines: str) -> None:
        """Write the user's settings file with these lines in its `[checkpoint]` section."""
        self.settings.parent.mkdir(parents=True, exist_ok=True)
        self.settings.write_text(f"[checkpoint]\n{lines}\n", encoding="utf-8")

    def env(self, more: Mapping[str, str] | None = None) -> dict[str, str]:
        """Return the whole environment of a child: nothing of the caller's but PATH."""
        return {
            "PATH": os.environ["PATH"],
            "HOME": str(self.path),
            "USER": self.account.name,
            "TMPDIR": str(self.temp),
            "TAKEBACK_HOME": str(self.data),
            "LANG": "C.UTF-8",
            "GIT_CONFIG_NOSYSTEM": "1",
            **self.extra,
            **(more or {}),
        }

    def start(
        self, cwd: str | bytes | Path, *args: str | bytes, env: Mapping[str, str] | None = None, **popen: Any
    ) -> subprocess.Popen[bytes]:
        """Start `takeback ARGS...` in `cwd` and return the running process."""
        popen.setdefault("stdin", subprocess.DEVNULL)
        popen.setdefault("stdout", subprocess.PIPE)
        popen.setdefault("stderr", subprocess.PIPE)
        argv = [*self.python, "-m", "takeback", *args]
        return subprocess.Popen(argv, cwd=cwd, env=self.env(env), **self.account.process(), **popen)

    def tb(
        self,
        cwd: str | bytes | Path,
        *args: str | bytes,
        env: Mapping[str, str] | None = None,
        check: bool = True,
        as_json: bool = True,
    ) -> Result:
        """Run `takeback ARGS...` to its end, with `--json` behind the command's name.

        With `check` a non-zero exit code fails the test with everything that was printed.
        """
        if as_json and args and "--json" not in args:
            args = (args[0], "--json", *args[1:])
        process = self.start(cwd, *args, env=env)
        try:
            out, err = process.communicate(timeout=PATIENCE)
        except BaseException:
            process.send_signal(signal.SIGTERM)
            process.communicate()
            raise
        result = Result(args, process.returncode, out, err, _parsed(out))
        assert not check or result.code == 0, f"takeback {args} ended with {result.code}:\n{result.text}"
        return result

    def sh(
        self, cwd: str | bytes | Path, script: str | bytes, *, env: Mapping[str, str] | None = None, check: bool = True
    ) -> bytes:
        """Run shell source in `cwd` and return its stdout."""
        return self.call(cwd, "sh", "-c", script, env=env, check=check)

    def git(self, cwd: str | bytes | Path, *args: str | bytes, check: bool = True) -> bytes:
        """Run real git in `cwd` and return its stdout."""
        return self.call(cwd, "git", *args, check=check)

    def call(
        self, cwd: str | bytes | Path, *argv: str | bytes, env: Mapping[str, str] | None = None, check: bool = True
    ) -> bytes:
        """Run any program in `cwd` with the home's environment and return its stdout."""
        done = subprocess.run(
            argv,
            cwd=cwd,
            env=self.env(env),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=PATIENCE,
            **self.account.process(),
        )
        assert not check or done.returncode == 0, f"{argv!r} ended with {done.returncode}: {done.stderr!r}"
        return done.stdout

    def project(self, root: str | bytes | Path) -> Project:
        """Return the folder as a project of this home."""
        return Project(self, os.fsdecode(root))


@dataclass
class Project:
    """A folder with the verbs a test needs; every path is relative to its root, as text or bytes."""

    home: Home
    root: str

    def at(self, path: str | bytes = b"") -> bytes:
        """Return the absolute path, as bytes."""
        return os.path.join(os.fsencode(self.root), os.fsencode(path)) if path else os.fsencode(self.root)

    def write(self, path: str | bytes, content: str | bytes = b"", *, mode: int | None = None) -> bytes:
        """Write a file, its directories made on the way, and return its absolute path."""
        target = self.at(path)
        os.makedirs(os.path.dirname(target), exist_ok=True)
        with open(target, "wb") as file:
            file.write(content.encode() if isinstance(content, str) else content)
        if mode is not None:
            os.chmod(target, mode)
        self._give(target)
        return target

    def read(self, path: str | bytes) -> bytes:
        with open(self.at(path), "rb") as file:
            return file.read()

    def exists(self, path: str | bytes) -> bool:
        return os.path.lexists(self.at(path))

    def age(self, *paths: str | bytes, days: float = 400.0) -> None:
        """Give paths an old mtime with an odd number of nanoseconds; without paths, the whole tree but `.git`."""
        then = 1_700_000_000_123_456_789 - int(days * 86_400_000_000_000)
        names = [os.fsencode(one) for one in paths] or sorted(self.tree(), reverse=True)
        for number, name in enumerate(names):
            stamp = then + number * 1_000_000_007
            os.utime(self.at(name), ns=(stamp, stamp), follow_symlinks=False)

    def tb(self, *args: str | bytes, cwd: str | bytes = b"", **options: Any) -> Result:
        """Run takeback in this project (or in `cwd` below it)."""
        return self.home.tb(self.at(cwd), *args, **options)

    def start(self, *args: str | bytes, cwd: str | bytes = b"", **options: Any) -> subprocess.Popen[bytes]:
        return self.home.start(self.at(cwd), *args, **options)

    def checkpoint(self, *args: str | bytes, **options: Any) -> str:
        """Make a checkpoint and return its id."""
        made = self.tb("checkpoint", *args, **options)["id"]
        assert isinstance(made, str)
        return made

    def step(self, script: str | bytes, *args: str, check: bool = True, **options: Any) -> str:
        """Record shell source as one step and return its id."""
        made = self.tb("run", *args, "--", script, check=check, **options)["id"]
        assert isinstance(made, str)
        return made

    def take_back(self, result: Result) -> Result:
        """Run the command that a result says takes it back."""
        words = shlex.split(result["undo_with"])
        assert words[0] in ("takeback", "tb"), words
        return self.tb(*words[1:])

    def sh(self, script: str | bytes, *, cwd: str | bytes = b"", check: bool = True) -> bytes:
        return self.home.sh(self.at(cwd), script, check=check)

    def git(self, *args: str | bytes, cwd: str | bytes = b"", check: bool = True) -> bytes:
        return self.home.git(self.at(cwd), *args, check=check)

    def tree(self, **options: Any) -> tree.Tree:
        return tree.fingerprint(self.root, **options)

    def git_state(self) -> gitstate.State:
        return gitstate.state(self.root, self.home.env())

    def git_raw(self) -> dict[str, gitstate.Raw]:
        return gitstate.raw(self.root)

    def moment(self, **options: Any) -> Moment:
        """Return tree and git state together; for a plain folder the git state is empty."""
        has_git = self.exists(".git")
        return Moment(self, self.tree(**options), self.git_state() if has_git else {}, options)

    def _give(self, target: bytes) -> None:
        account = self.home.account
        if account.uid is not None and account.gid is not None:
            top = os.fsencode(self.root)
            while len(target) >= len(top):
                os.chown(target, account.uid, account.gid, follow_symlinks=False)
                target = os.path.dirname(target)


@dataclass
class Moment:
    """What a project was at one time: its exact tree and its git state."""

    project: Project
    files: tree.Tree
    git: gitstate.State
    options: dict[str, Any]

    def changes(self) -> list[str]:
        """Return, readable, everything that is not now as it was then."""
        now = self.project.moment(**self.options)
        return tree.difference(self.files, now.files) + gitstate.difference(self.git, now.git)


def kill_when(process: subprocess.Popen[bytes], ready: Callable[[], bool], sign: int = signal.SIGKILL) -> bool:
    """Send a signal as soon as `ready()` holds; return False when the process ended before."""
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        if process.poll() is not None:
            return False
        if ready():
            process.send_signal(sign)
            return True
        time.sleep(0.0005)
    raise AssertionError("neither ready nor ended")


def wait_for(ready: Callable[[], bool]) -> None:
    """Wait until `ready()` holds."""
    until = time.monotonic() + PATIENCE
    while not ready():
        assert time.monotonic() < until, "waited for ever"
        time.sleep(0.005)


def make_executable(path: str | Path, text: str) -> None:
    """Write a script that everybody may run."""
    Path(path).write_text(text, encoding="utf-8")
    os.chmod(path, stat.S_IRWXU | stat.S_IRGRP | stat.S_IXGRP | stat.S_IROTH | stat.S_IXOTH)


def _parsed(out: bytes) -> Any:
    for text in (out, out.strip().rsplit(b"\n", 1)[-1]):
        try:
            return json.loads(text)
        except ValueError:
            continue
    return None
