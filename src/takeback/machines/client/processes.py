"""Processes and terminals of a sandbox, blocking: what `spawn`, `process` and `terminal` give.

Does not cover: the same for asyncio (`aio`).
"""

from __future__ import annotations

import base64
from collections.abc import Generator, Iterator
from typing import Any, NoReturn

from takeback.machines.client import commands
from takeback.machines.client.connect import Client
from takeback.machines.client.drivers import items, run
from takeback.machines.client.hosted import not_here
from takeback.machines.client.results import CommandResult, Event

Record = dict[str, Any]
Records = list[Record]


class ProcessRecord:
    """What is known of a process; `refresh` asks anew."""

    def __init__(self, client: Client, sandbox_id: str, info: Record) -> None:
        self._client = client
        self.sandbox_id = sandbox_id
        self.info = info

    @property
    def id(self) -> str:
        return str(self.info["id"])

    @property
    def command(self) -> str:
        return str(self.info["command"])

    @property
    def user(self) -> str:
        return str(self.info["user"])

    @property
    def state(self) -> str:
        """`running`, `exited`, `killed` or `timed_out`, as of the last refresh."""
        return str(self.info["state"])

    @property
    def exit_code(self) -> int | None:
        code: int | None = self.info["exitCode"]
        return code

    @property
    def out_of_memory(self) -> dict[str, Any] | None:
        return self.info.get("outOfMemory")

    def files(self) -> NoReturn:
        """Raise Unsupported: which files a process reads and writes is not traced here."""
        raise not_here("Process.files", "Sandbox.diff tells which files changed")

    def _ended(self, result: CommandResult) -> None:
        state = "timed_out" if result.timed_out else "killed" if (result.exit_code or 0) > 128 else "exited"
        self.info = {**self.info, "state": state, "exitCode": result.exit_code}

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.id} {self.state}: {self.command[:60]}>"


class Process(ProcessRecord):
    """A process that lives on its own in a sandbox."""

    def output(self, cursor: int = 0, *, timeout_seconds: float | None = None) -> Iterator[Event]:
        """Give its output events from an offset on (bytes of both streams together) until it ends.

        The last 1 MiB is kept; what is older is told by an event `truncated`. The last event is `exit`, unless
        `timeout_seconds` were over before.
        """
        encoding = self.info.get("outputEncoding", "utf8")
        limit = None if timeout_seconds is None else int(timeout_seconds * 1000)
        op = commands.follow(self.sandbox_id, self.id, cursor=cursor, encoding=encoding, timeout_ms=limit)
        yield from items(self._client, op)

    def output_bytes(self, cursor: int = 0, *, timeout_seconds: float | None = None) -> Iterator[Event]:
        """Give the same events with `data` as bytes."""
        limit = None if timeout_seconds is None else int(timeout_seconds * 1000)
        op = commands.follow(self.sandbox_id, self.id, cursor=cursor, encoding="base64", timeout_ms=limit)
        for event in items(self._client, op):
            yield as_bytes(event)

    def wait(self) -> CommandResult:
        """Return its result when it has ended."""
        result = run(self._client, commands.wait(self.sandbox_id, self.id))
        self._ended(result)
        return result

    def write(self, data: commands.Data, eof: bool = False) -> None:
        """Write to its stdin and return when it has been taken; with `eof` that was all."""
        self.info["stdinOffset"] = run(self._client, commands.write(self.sandbox_id, self.id, data, eof))

    def kill(self, signal: str = "SIGTERM") -> None:
        """Send a signal to it and its children."""
        run(self._client, commands.control("signal", self.sandbox_id, self.id, signal=signal))

    def resize(self, cols: int, rows: int) -> None:
        """Tell it the size of its terminal."""
        run(self._client, commands.control("resize", self.sandbox_id, self.id, cols=cols, rows=rows))

    def refresh(self) -> Record:
        """Ask what it is doing and return its record."""
        self.info = run(self._client, commands.control("process", self.sandbox_id, self.id))
        return self.info


def as_bytes(event: Event) -> Event:
    """Return an event of output with its bytes, another as it is."""
    if "base64" not in event:
        return event
    return {"type": event["type"], "offset": event["offset"], "data": base64.b64decode(event["base64"])}


class Terminal:
    """An interactive program on a pseudo-terminal; closing leaves it running, and it can be attached to again."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._events: Generator[Any, None, Any] = items(
            process._client, commands.follow(process.sandbox_id, process.id, encoding="base64")
        )
        self.exit_code: int | None = None

    @property
    def process_id(self) -> str:
        return self._process.id

    def recv(self) -> bytes | None:
        """Return what the program wrote next, or None when it has ended; then `exit_code` is set."""
        for event in self._events:
            if "base64" in event:
                return base64.b64decode(event["base64"])
            if event["type"] == "exit":
                self.exit_code = event["exitCode"]
        return None

    def write(self, data: commands.Data) -> None:
        """Type something."""
        self._process.write(data)

    def resize(self, cols: int, rows: int) -> None:
        """Tell the program the size of its terminal."""
        self._process.resize(cols, rows)

    def close(self) -> None:
        """Let go of it."""
        self._events.close()

    def __enter__(self) -> Terminal:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
