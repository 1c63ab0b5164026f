"""Find the keeper of a data directory, or start one and wait until it answers.

Does not cover: what is asked of it.
"""

from __future__ import annotations

import os
import select
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from takeback._version import VERSION
from takeback.errors import KeeperFailed
from takeback.host import pid_one, process, spaces, unix
from takeback.machines import wire
from takeback.machines.cost import Prices
from takeback.machines.layout import MachinesDir

if TYPE_CHECKING:
    from takeback.machines.lines import Line

# A keeper that finds sandboxes again asks each for an answer first.
_START_SECONDS = 60.0
_AGAIN_SECONDS = 0.01
_PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY")

Prepare = Callable[[Mapping[str, Any]], Mapping[str, Any]]


class Way(Protocol):
    """What `client=` may be: a Client, or a Runtime with one."""

    @property
    def client(self) -> Client: ...


class Client:
    """The way to the sandboxes of one data directory; holds nothing open, and may be shared by threads.

    `prepare` gets the fields of a create and returns those the keeper shall see: it sets up what is missing.
    `environ` is the user's environment: a keeper that is started here gets the proxies of it, and `registries` in
    network rules is read with it. A snapshot that would make all of them hold more than `stored_limit` bytes is
    refused; 0 is no limit.
    """

    def __init__(
        self,
        data: Path,
        *,
        engine: str = "gvisor",
        prepare: Prepare | None = None,
        prices: Prices | None = None,
        stored_limit: int = 0,
        environ: Mapping[str, str] | None = None,
        platform: str = "",
        ahead: bool = True,
    ) -> None:
        self.directory = MachinesDir(data / "machines")
        self.engine = engine
        self.prepare = prepare
        self.prices = prices or Prices()
        self.stored_limit = stored_limit
        self.environ = dict(environ or {})
        self.platform = platform  # how a keeper that is started here has programs run; empty: as its engine finds best
        self.ahead = ahead  # whether that keeper makes containers before they are asked for
        self.idle_seconds: float | None = None  # after which a keeper with nothing to keep ends; None: its own

    @property
    def client(self) -> Client:
        """Itself, so that what has a client can stand for it."""
        return self

    def signed(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Return a request with what lets the keeper judge whether it understands it."""
        return {"protocol": wire.PROTOCOL, "version": VERSION, "stored_limit": self.stored_limit, **request}

    def connect(self) -> unix.Socket:
        """Return a connection. Raises KeeperFailed."""
        try:
            return unix.connect(self.directory.socket)
        except (FileNotFoundError, ConnectionRefusedError):
            return self._start()

    async def aconnect(self) -> Line:
        """Return a connection for the running event loop. Raises KeeperFailed."""
        import asyncio  # half of what a blocking program would import

        from takeback.machines.lines import Line

        try:
            connection = unix.connect(self.directory.socket)
        except (FileNotFoundError, ConnectionRefusedError):
            connection = await asyncio.to_thread(self._start)
        connection.setblocking(False)
        _, line = await asyncio.get_running_loop().create_unix_connection(Line, sock=connection)
        return line

    def _start(self) -> unix.Socket:
        """Start a keeper; several programs may do so at once, and one of theirs stays."""
        self._make_folder()
        until = time.monotonic() + _START_SECONDS
        while time.monotonic() < until:
            why = self._start_one(until)
            try:
                return unix.connect(self.directory.socket)
            except (FileNotFoundError, ConnectionRefusedError):
                # Somebody else's has the lock: it is about to listen, or about to end.
                if why and why != "busy":
                    raise KeeperFailed(why=why, log=self.directory.log) from None
                time.sleep(_AGAIN_SECONDS)
        raise KeeperFailed(why=f"no answer within {_START_SECONDS:g} s", log=self.directory.log)

    def _make_folder(self) -> None:
        top = self.directory.root
        top.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        top.mkdir(mode=0o700, exist_ok=True)

    def _start_one(self, until: float) -> str:
        """Start a keeper and return why it is none, or an empty text; "busy" when there is one already."""
        try:
            log = os.open(self.directory.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        except OSError as error:
            return f"its log cannot be written: {error.strerror}"
        reader, writer = os.pipe()
        try:
            said = os.fstat(log).st_size
            around = _namespaces(self.directory)
            argv = [*around, sys.executable, "-P", "-m", "takeback.machines.keeper", "--ready", str(writer)]
            if self.idle_seconds is not None:
                argv += ["--idle-seconds", str(self.idle_seconds)]
            if self.platform:
                argv += ["--platform", self.platform]
            if not self.ahead:
                argv.append("--no-ahead")
            # Where this very takeback came from: the caller may have a path of its own to it.
            source = os.fspath(Path(__file__).resolve().parents[3])
            proxies = {name: text for name, text in self.environ.items() if name.upper() in _PROXIES}
            env = process.clean_environment({"PYTHONPATH": source, **proxies})
            try:
                process.detach([*argv, str(self.directory.root)], env=env, log=log, keep=[writer])
            except FileNotFoundError as error:
                return f"there is no {error.filename} (package util-linux)"
            os.close(writer)
            writer = -1
            answer = _read_line(reader, until)
            if answer == b"ready":
                return ""
            if not answer and around[0] == "nsenter":
                self.directory.spaces.unlink(missing_ok=True)  # they ended in that moment, and what was entering too
                return "busy"
            return answer.decode("utf-8", "replace") or self._last_words(said)
        finally:
            for fd in (reader, writer, log):
                if fd >= 0:
                    os.close(fd)

    def _last_words(self, said: int) -> str:
        with open(self.directory.log, "rb") as file:
            file.seek(said)
            lines = file.read(64 * 1024).decode("utf-8", "replace").strip().splitlines()
        return lines[-1] if lines else "it ended without a word"


def _namespaces(directory: MachinesDir) -> list[str]:
    """Return the command that gives the keeper its own mounts, so that none is ever left on the machine.

    An ordinary user needs a user namespace for that, and a pid namespace: the engine trusts recorded pids. Those of a
    keeper that was killed are entered, where its sandboxes run on.
    """
    if os.geteuid() == 0:
        return ["unshare", "-m", "--"]
    first = spaces.find(directory.spaces)
    if first is not None:
        return ["nsenter", f"--target={first}", "--user", "--mount", "--pid", "--preserve-credentials", "--"]
    return ["unshare", "-Urmpf", "--mount-proc", "--", sys.executable, "-IS", os.fspath(pid_one.__file__)]


def _read_line(fd: int, until: float) -> bytes:
    answer = b""
    while True:
        left = until - time.monotonic()
        if left <= 0 or not select.select([fd], [], [], left)[0]:
            return answer
        data = os.read(fd, 4096)
        answer += data
        if not data or answer.endswith(b"\n"):
            return answer.strip()
