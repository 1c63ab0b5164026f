"""The control socket of a running sandbox: the calls runsc itself makes, without starting a 30 MB program for each.

JSON requests and answers on a stream, descriptors by SCM_RIGHTS. An internal interface of gVisor (pkg/urpc,
runsc/boot/controller.go), so only used with the versions it was verified with; `runsc` has the command line for others.

Does not cover: which call is made when (`container`).
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from takeback.errors import EngineFailed
from takeback.host import unix

VERIFIED = frozenset({"0.0~20240729.0", "20240729.0"})
_ANSWER_CAP = 4 << 20
# What runsc sends for --network=none (runsc/sandbox/network.go, createDefaultLoopbackInterface): without it nothing
# inside can connect to 127.0.0.1. Masks are base64 of the bytes.
_LOOPBACK = {
    "LoopbackLinks": [
        {
            "Name": "lo",
            "Addresses": [{"Address": "127.0.0.1", "PrefixLen": 8}, {"Address": "::1", "PrefixLen": 128}],
            "Routes": [
                {"Destination": {"IP": "127.0.0.0", "Mask": "/wAAAA=="}},
                {"Destination": {"IP": "::1", "Mask": "/////////////////////w=="}},
            ],
            "GVisorGRO": False,
        }
    ]
}
_SAVE = {
    "key": None,
    "metadata": {"compression": "none"},
    "MemoryFileSaveOpts": {"ExcludeCommittedZeroPages": False},
    "have_pages_file": True,
    # Without it the sandbox says "running" after a refused save, and is dead.
    "Resume": True,
}
_LOAD = {"HavePagesFile": True, "HaveDeviceFile": False}


class Refusal(Exception):
    """The engine's own words for a call it did not do."""


class Control:
    """One connection to one sandbox."""

    def __init__(self, socket: Path) -> None:
        """Raises EngineFailed when nothing listens there."""
        try:
            self._connection = unix.connect(socket)
        except OSError as error:
            raise EngineFailed(what="be reached", why=str(error)) from error

    def __enter__(self) -> Control:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def boot(self, container: str, timeout: float) -> None:
        """Start PID 1 of a created sandbox."""
        self.call("Network.CreateLinksAndRoutes", _LOOPBACK, timeout=timeout)
        self.call("containerManager.StartRoot", container, timeout=timeout)

    def load(self, files: Sequence[int], timeout: float) -> None:
        """Restore into a created sandbox from open files: state, page directory, pages."""
        self.call("Network.CreateLinksAndRoutes", _LOOPBACK, timeout=timeout)
        self.call("containerManager.Restore", _LOAD, files, timeout=timeout)

    def save(self, files: Sequence[int], timeout: float) -> None:
        """Write the sandbox into open files; it goes on, or stays paused if it was."""
        self.call("containerManager.Checkpoint", _SAVE, files, timeout=timeout)

    def pause(self, timeout: float) -> None:
        self.call("containerManager.Pause", None, timeout=timeout)

    def resume(self, timeout: float) -> None:
        self.call("containerManager.Resume", None, timeout=timeout)

    def is_paused(self, timeout: float) -> bool:
        """Whether all tasks inside stand still. The engine has no call for that, but shows where its threads are."""
        stacks = str(self.call("debug.Stacks", None, timeout=timeout)).split("\n\n")
        tasks = [stack for stack in stacks if "kernel.(*Task).run(" in stack]
        return bool(tasks) and all("kernel.(*Task).doStop(" in stack for stack in tasks)

    def processes(self, container: str, timeout: float) -> int:
        """Return how many processes there are inside; answered while paused too."""
        found = self.call("containerManager.Processes", container, timeout=timeout)
        return len(found) if isinstance(found, list) else 0

    def call(self, method: str, argument: object, files: Sequence[int] = (), *, timeout: float) -> Any:
        """Make one call and return its result.

        Raises Refusal when the sandbox says no, EngineFailed when it does not answer in time or goes away.
        """
        name = method.rpartition(".")[2]
        until = time.monotonic() + timeout
        try:
            self._connection.settimeout(timeout)
            unix.send_with(self._connection, json.dumps({"method": method, "arg": argument}).encode(), files)
            answer = self._answer(until)
        except TimeoutError as error:
            raise EngineFailed(what=f"do {name}", why=f"no answer within {timeout:g} s") from error
        except (OSError, ValueError) as error:
            raise EngineFailed(what=f"do {name}", why=f"its process ended ({error})") from error
        if not answer.get("success"):
            raise Refusal(str(answer.get("err") or "no reason given"))
        return answer.get("result")

    def _answer(self, until: float) -> dict[str, Any]:
        data = b""
        while len(data) <= _ANSWER_CAP:
            left = until - time.monotonic()
            if left <= 0:
                raise TimeoutError
            self._connection.settimeout(left)
            more = self._connection.recv(65536)
            if not more:
                raise ConnectionError("the control socket was closed")
            data += more
            try:
                answer = json.loads(data)
            except ValueError:
                continue  # only a part of it came so far
            if isinstance(answer, dict):
                return answer
            break
        raise ValueError("an answer that is none")
