"""Processes, terminals and files of a sandbox for asyncio: what `AsyncSandbox` gives.

Does not cover: what the calls mean (`processes` and `files` say it); the operations are the same.
"""

from __future__ import annotations

import base64
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from typing import Any

from takeback.machines.client import commands, fileops
from takeback.machines.client.connect import Client
from takeback.machines.client.drivers import aitems, arun
from takeback.machines.client.hosted import HostedFiles
from takeback.machines.client.processes import ProcessRecord, Record, Records, as_bytes
from takeback.machines.client.results import CommandResult, Event


class AsyncProcess(ProcessRecord):
    """A process that lives on its own in a sandbox."""

    async def output(self, cursor: int = 0, *, timeout_seconds: float | None = None) -> AsyncIterator[Event]:
        """Give its output events from an offset on until it ends, or `timeout_seconds` are over."""
        encoding = self.info.get("outputEncoding", "utf8")
        limit = None if timeout_seconds is None else int(timeout_seconds * 1000)
        op = commands.follow(self.sandbox_id, self.id, cursor=cursor, encoding=encoding, timeout_ms=limit)
        async for event in aitems(self._client, op):
            yield event

    async def output_bytes(self, cursor: int = 0, *, timeout_seconds: float | None = None) -> AsyncIterator[Event]:
        """Give the same events with `data` as bytes."""
        limit = None if timeout_seconds is None else int(timeout_seconds * 1000)
        op = commands.follow(self.sandbox_id, self.id, cursor=cursor, encoding="base64", timeout_ms=limit)
        async for event in aitems(self._client, op):
            yield as_bytes(event)

    async def wait(self) -> CommandResult:
        """Return its result when it has ended."""
        result = await arun(self._client, commands.wait(self.sandbox_id, self.id))
        self._ended(result)
        return result

    async def write(self, data: commands.Data, eof: bool = False) -> None:
        """Write to its stdin and return when it has been taken; with `eof` that was all."""
        self.info["stdinOffset"] = await arun(self._client, commands.write(self.sandbox_id, self.id, data, eof))

    async def kill(self, signal: str = "SIGTERM") -> None:
        """Send a signal to it and its children."""
        await arun(self._client, commands.control("signal", self.sandbox_id, self.id, signal=signal))

    async def resize(self, cols: int, rows: int) -> None:
        """Tell it the size of its terminal."""
        await arun(self._client, commands.control("resize", self.sandbox_id, self.id, cols=cols, rows=rows))

    async def refresh(self) -> Record:
        """Ask what it is doing and return its record."""
        self.info = await arun(self._client, commands.control("process", self.sandbox_id, self.id))
        return self.info


class AsyncTerminal:
    """An interactive program on a pseudo-terminal; closing leaves it running, and it can be attached to again."""

    def __init__(self, process: AsyncProcess) -> None:
        self._process = process
        follow = commands.follow(process.sandbox_id, process.id, encoding="base64")
        self._events: AsyncGenerator[Any, None] = aitems(process._client, follow)
        self.exit_code: int | None = None

    @property
    def process_id(self) -> str:
        return self._process.id

    async def recv(self) -> bytes | None:
        """Return what the program wrote next, or None when it has ended; then `exit_code` is set."""
        async for event in self._events:
            if "base64" in event:
                return base64.b64decode(event["base64"])
            if event["type"] == "exit":
                self.exit_code = event["exitCode"]
        return None

    async def write(self, data: commands.Data) -> None:
        """Type something."""
        await self._process.write(data)

    async def resize(self, cols: int, rows: int) -> None:
        """Tell the program the size of its terminal."""
        await self._process.resize(cols, rows)

    async def close(self) -> None:
        """Let go of it."""
        await self._events.aclose()

    async def __aenter__(self) -> AsyncTerminal:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


class AsyncFiles(HostedFiles):
    """Read, write and move files in a sandbox."""

    def __init__(self, client: Client, sandbox_id: str) -> None:
        self._client = client
        self._id = sandbox_id

    async def read(self, path: str) -> bytes:
        """Return the bytes of a file."""
        return await arun(self._client, fileops.read(self._id, path))

    async def read_text(self, path: str, encoding: str = "utf-8") -> str:
        """Return the text of a file."""
        return (await self.read(path)).decode(encoding)

    async def read_stream(self, path: str) -> AsyncIterator[bytes]:
        """Give the bytes of a file in pieces."""
        async for data in aitems(self._client, fileops.read_stream(self._id, path)):
            yield data

    async def write(self, path: str, data: commands.Data, mode: int | str | None = None) -> Record:
        """Replace a file at once, making its folders."""
        return await arun(self._client, fileops.write(self._id, path, data, mode))

    async def list(
        self,
        path: str = "/workspace",
        *,
        depth: int | None = None,
        glob: str | None = None,
        hidden: bool | None = None,
        limit: int | None = None,
    ) -> Records:
        """Return the entries below a folder."""
        return await arun(self._client, fileops.listing(self._id, path, depth, glob, hidden, limit))

    async def glob(self, pattern: str, root: str = "/workspace", *, limit: int | None = None) -> Records:
        """Return the entries whose path below `root` fits; `**` stands for any folders."""
        return await arun(self._client, fileops.listing(self._id, root, fileops.DEEP, pattern, True, limit))

    async def stat(self, path: str) -> Record:
        """Return what a path is, `exists` first."""
        return await arun(self._client, fileops.stat(self._id, path))

    async def exists(self, path: str) -> bool:
        """Whether there is something at a path."""
        return bool((await self.stat(path))["exists"])

    async def mkdir(self, path: str, parents: bool = True) -> None:
        """Make a folder; with `parents` one that is there already is no error."""
        await arun(self._client, fileops.simple("mkdir", self._id, path, parents=parents))

    async def remove(self, path: str, recursive: bool = False) -> bool:
        """Remove a file or folder, and return whether there was one."""
        answer = await arun(self._client, fileops.simple("remove", self._id, path, recursive=recursive))
        return bool(answer["removed"])

    async def rename(self, source: str, target: str, overwrite: bool = False) -> None:
        """Move a file or folder. Raises FileExists without `overwrite`."""
        target = fileops.absolute(target)
        await arun(self._client, fileops.simple("rename", self._id, source, to=target, overwrite=overwrite))

    async def chmod(self, path: str, mode: int | str) -> None:
        """Set the mode of a file or folder."""
        await arun(self._client, fileops.simple("chmod", self._id, path, mode=fileops.as_mode(mode)))

    async def upload(self, local_path: fileops.Local, remote_path: str, *, user: str = "sandbox") -> None:
        """Copy a file or a whole folder of this machine into the sandbox."""
        await arun(self._client, fileops.upload(self._id, local_path, remote_path, user))

    async def download(self, remote_path: str, local_path: fileops.Local, *, user: str = "sandbox") -> None:
        """Copy a file or a whole folder of the sandbox to this machine."""
        await arun(self._client, fileops.download(self._id, remote_path, local_path, user))

    async def archive(
        self, path: str, *, gzip: bool = True, user: str = "sandbox", exclude: Sequence[str] | None = None
    ) -> bytes:
        """Return a folder as a tar stream, compressed unless `gzip` is False; names that fit `exclude` are left out."""
        return await arun(self._client, fileops.archive(self._id, path, gzip, user, exclude))

    async def unarchive(
        self,
        path: str,
        data: bytes,
        *,
        gzip: bool | None = None,
        user: str = "sandbox",
        idempotency_key: str | None = None,
    ) -> None:
        """Unpack a tar stream, compressed or not, below a folder."""
        await arun(self._client, fileops.unarchive(self._id, path, data, gzip, user))
