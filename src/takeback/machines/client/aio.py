"""`AsyncSandbox`: the same machine of one's own in an event loop.

Does not cover: what the calls mean (`sandbox`, `files`, `processes` say it); the operations are the same.
"""

from __future__ import annotations

import base64
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from typing import Any, Unpack

from takeback.errors import FileNotFound, InvalidRequest, NotPaused, StartFailed, TakebackError, TerminalRefused
from takeback.machines.client import commands, fileops, operations
from takeback.machines.client.connect import Client
from takeback.machines.client.drivers import aitems, arun
from takeback.machines.client.operations import CreateFields, Info, Wishes
from takeback.machines.client.processes import ProcessRecord
from takeback.machines.client.results import CommandResult, Event
from takeback.machines.client.sandbox import SandboxRecord
from takeback.machines.client.steps import Op

Record = dict[str, Any]
Records = list[Record]


class AsyncProcess(ProcessRecord):
    """A process that lives on its own in a sandbox."""

    async def output(self, cursor: int = 0, *, timeout_seconds: float | None = None) -> AsyncIterator[Event]:
        """Give its output events from an offset on until it ends, or `timeout_seconds` are over."""
        encoding = self.info.get("outputEncoding", "utf8")
        limit = None if timeout_seconds is None else int(timeout_seconds * 1000)
        op = commands.follow(self.sandbox_id, self.id, cursor=cursor, encoding=encoding, timeout_ms=limit)
        async for event in aitems(self._client, op):
            yield event

    async def output_bytes(self, cursor: int = 0, *, timeout_seconds: float | None = None) -> AsyncIterator[bytes]:
        """Give its output as bytes, both streams as they came."""
        limit = None if timeout_seconds is None else int(timeout_seconds * 1000)
        op = commands.follow(self.sandbox_id, self.id, cursor=cursor, encoding="base64", timeout_ms=limit)
        async for event in aitems(self._client, op):
            if "base64" in event:
                yield base64.b64decode(event["base64"])

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
        await self._process.resize(cols, rows)

    async def close(self) -> None:
        """Let go of it."""
        await self._events.aclose()

    async def __aenter__(self) -> AsyncTerminal:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


class AsyncFiles:
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

    async def write(self, path: str, data: commands.Data, *, mode: int | str | None = None) -> Record:
        """Replace a file at once, making its folders."""
        return await arun(self._client, fileops.write(self._id, path, data, mode))

    async def list(
        self,
        path: str = "/workspace",
        *,
        depth: int = 1,
        glob: str | None = None,
        hidden: bool = True,
        limit: int | None = None,
    ) -> Records:
        """Return the entries below a folder."""
        return await arun(self._client, fileops.listing(self._id, path, depth, glob, hidden, limit))

    async def glob(self, pattern: str, path: str = "/workspace", *, limit: int | None = None) -> Records:
        """Return the entries whose path below `path` fits; `**` stands for any folders."""
        return await arun(self._client, fileops.listing(self._id, path, fileops.DEEP, pattern, True, limit))

    async def stat(self, path: str) -> Record:
        """Return what a path is, `exists` first."""
        return await arun(self._client, fileops.stat(self._id, path))

    async def exists(self, path: str) -> bool:
        """Whether there is something at a path."""
        return bool((await self.stat(path))["exists"])

    async def mkdir(self, path: str, *, parents: bool = True) -> None:
        """Make a folder; with `parents` one that is there already is no error."""
        await arun(self._client, fileops.simple("mkdir", self._id, path, parents=parents))

    async def remove(self, path: str, *, recursive: bool = False) -> bool:
        """Remove a file or folder, and return whether there was one."""
        answer = await arun(self._client, fileops.simple("remove", self._id, path, recursive=recursive))
        return bool(answer["removed"])

    async def rename(self, source: str, target: str, *, overwrite: bool = False) -> None:
        """Move a file or folder. Raises FileExists without `overwrite`."""
        target = fileops.absolute(target)
        await arun(self._client, fileops.simple("rename", self._id, source, to=target, overwrite=overwrite))

    async def chmod(self, path: str, mode: int | str) -> None:
        """Set the mode of a file or folder."""
        await arun(self._client, fileops.simple("chmod", self._id, path, mode=fileops.as_mode(mode)))

    async def upload(self, source: fileops.Local, path: str) -> None:
        """Copy a file or a whole folder of this machine into the sandbox."""
        await arun(self._client, fileops.upload(self._id, source, path))

    async def download(self, path: str, target: fileops.Local) -> None:
        """Copy a file or a whole folder of the sandbox to this machine."""
        await arun(self._client, fileops.download(self._id, path, target))

    async def archive(self, path: str, *, exclude: Sequence[str] = ()) -> bytes:
        """Return a folder as a tar stream."""
        return await arun(self._client, fileops.archive(self._id, path, exclude))

    async def unarchive(self, path: str, data: bytes) -> None:
        """Unpack a tar stream below a folder."""
        await arun(self._client, fileops.unarchive(self._id, path, data))


class AsyncSandbox(SandboxRecord):
    """A sandbox: `async with await AsyncSandbox.create() as sbx: await sbx.exec("make test")`."""

    @classmethod
    async def create(cls, *, client: Client | None = None, **fields: Unpack[CreateFields]) -> AsyncSandbox:
        """Make a sandbox and start it. What is missing on this machine is set up first."""
        client = client or cls.default_client()
        info = await arun(client, operations.create(client, fields))
        return cls(client, info, ours=True, keep=bool(fields.get("keep")))

    @classmethod
    async def get_or_create(cls, name: str, *, client: Client | None = None, **fields: Unpack[Wishes]) -> AsyncSandbox:
        """Return the living sandbox of that name, woken when it was paused, or make it."""
        wanted: CreateFields = {**fields, "name": name, "get_or_create": True}
        return await cls.create(client=client, **wanted)

    @classmethod
    async def connect(cls, sandbox_id: str, *, client: Client | None = None) -> AsyncSandbox:
        """Return a sandbox by its id. Raises SandboxNotFound."""
        client = client or cls.default_client()
        return cls(client, await arun(client, operations.get(sandbox_id)))

    @classmethod
    async def list(
        cls,
        *,
        client: Client | None = None,
        state: str | Sequence[str] | None = None,
        include_stopped: bool = False,
        labels: Mapping[str, str] | None = None,
        name: str | None = None,
        limit: int | None = None,
    ) -> Sandboxes:
        """Return the sandboxes that fit, newest first."""
        client = client or cls.default_client()
        op = operations.listing(state=state, include_stopped=include_stopped, labels=labels, name=name, limit=limit)
        return [cls(client, info) for info in await arun(client, op)]

    async def __aenter__(self) -> AsyncSandbox:
        return self

    async def __aexit__(self, *_: object) -> None:
        """Delete what this program made; stop what it found."""
        try:
            if self._ours and not self._keep:
                await self.delete()
            else:
                await self.stop(wait=False)
        except TakebackError:
            pass  # what the block raised is what matters

    async def exec(
        self,
        command: commands.Command,
        *,
        cwd: str | None = None,
        user: str | None = None,
        env: Mapping[str, str] | None = None,
        stdin: commands.Data | None = None,
        timeout_ms: int | None = None,
        on_stdout: Callable[[str], Any] | None = None,
        on_stderr: Callable[[str], Any] | None = None,
        check: bool = False,
        idempotency_key: str | None = None,
        trace_files: bool = False,
    ) -> CommandResult:
        """Run a command to its end; callbacks may be coroutine functions. A cancelled task ends the command."""
        op = commands.execute(
            self.id, command, cwd=cwd, user=user, env=env, stdin=stdin, timeout_ms=timeout_ms, on_stdout=on_stdout,
            on_stderr=on_stderr, check=check, idempotency_key=idempotency_key, trace_files=trace_files,
        )  # fmt: skip
        return await arun(self._client, op)

    async def exec_stream(
        self,
        command: commands.Command,
        *,
        cwd: str | None = None,
        user: str | None = None,
        env: Mapping[str, str] | None = None,
        stdin: commands.Data | None = None,
        timeout_ms: int | None = None,
        idempotency_key: str | None = None,
        trace_files: bool = False,
    ) -> AsyncIterator[Event]:
        """Run a command and give its events as they come: start, stdout, stderr, truncated, exit."""
        op = commands.stream(
            self.id, command, cwd=cwd, user=user, env=env, stdin=stdin, timeout_ms=timeout_ms,
            idempotency_key=idempotency_key, trace_files=trace_files,
        )  # fmt: skip
        async for event in aitems(self._client, op):
            yield event

    async def spawn(
        self,
        command: commands.Command,
        *,
        cwd: str | None = None,
        user: str | None = None,
        env: Mapping[str, str] | None = None,
        stdin: commands.Data | bool | None = None,
        pty: bool | Mapping[str, int] | None = None,
        timeout_ms: int | None = None,
        output_encoding: str = "utf8",
        trace_files: bool = False,
    ) -> AsyncProcess:
        """Start a process that lives on its own."""
        op = commands.spawn(
            self.id, command, cwd=cwd, user=user, env=env, stdin=stdin, pty=pty, timeout_ms=timeout_ms,
            output_encoding=output_encoding,
        )  # fmt: skip
        return AsyncProcess(self._client, self.id, await arun(self._client, op))

    async def processes(self) -> Records:
        """Return the records of the running processes and of the last 16 that ended."""
        return await arun(self._client, operations.processes(self.id))

    async def process(self, process_id: str) -> AsyncProcess:
        """Return a process by its id. Raises ProcessNotFound."""
        record = await arun(self._client, commands.control("process", self.id, process_id))
        return AsyncProcess(self._client, self.id, record)

    async def terminal(
        self,
        *,
        cols: int = 80,
        rows: int = 24,
        command: commands.Command | None = None,
        cwd: str | None = None,
        user: str | None = None,
        process_id: str | None = None,
    ) -> AsyncTerminal:
        """Open a terminal with `bash -l` or another command, or attach to a process that has one."""
        if process_id is not None:
            return AsyncTerminal(await self.process(process_id))
        try:
            size = {"cols": cols, "rows": rows}
            process = await self.spawn(
                command or commands.LOGIN, cwd=cwd, user=user, pty=size, output_encoding="base64"
            )
        except (FileNotFound, InvalidRequest, StartFailed) as error:
            raise TerminalRefused(why=str(error)) from error
        return AsyncTerminal(process)

    @property
    def files(self) -> AsyncFiles:
        """Read, write and move files in it."""
        return AsyncFiles(self._client, self.id)

    async def refresh(self) -> AsyncSandbox:
        """Ask for its record."""
        return await self._take(operations.get(self.id))

    async def wait_for(self, state: str, timeout_seconds: float = 60) -> AsyncSandbox:
        """Wait until it is in a state, can no longer be, or the time is over."""
        return await self._take(operations.wait_for(self.id, state, timeout_seconds))

    async def pause(self, wait: bool = True, idempotency_key: str | None = None) -> AsyncSandbox:
        """Stop its processors; memory, processes and connections inside stay."""
        return await self._take(operations.change("pause", self.id))

    async def wake(
        self,
        wait: bool = True,
        timeout_seconds: int | None = None,
        idempotency_key: str | None = None,
        *,
        wait_for_capacity: float | bool | None = None,
        on_capacity_wait: Any = None,
    ) -> AsyncSandbox:
        """Let it go on; one that is awake is left as it is."""
        try:
            return await self._take(operations.change("wake", self.id, timeout_seconds=timeout_seconds))
        except NotPaused:
            await self.refresh()
            if timeout_seconds is not None or self.state not in ("running", "starting"):
                raise
            return self

    async def stop(self, wait: bool = True, idempotency_key: str | None = None) -> AsyncSandbox:
        """Shut it down; its disk is kept."""
        return await self._take(operations.change("stop", self.id))

    async def restart(
        self,
        wait: bool = True,
        idempotency_key: str | None = None,
        *,
        wait_for_capacity: float | bool | None = None,
        on_capacity_wait: Any = None,
    ) -> AsyncSandbox:
        """Boot a stopped sandbox from the disk that was kept."""
        return await self._take(operations.change("restart", self.id))

    async def extend(self, seconds: int, idempotency_key: str | None = None) -> AsyncSandbox:
        """Move the end of its time limit."""
        return await self._take(operations.change("extend", self.id, seconds=seconds))

    async def update(self, idempotency_key: str | None = None, **settings: Any) -> AsyncSandbox:
        """Change its settings."""
        return await self._take(operations.update(self.id, settings))

    async def delete(self, idempotency_key: str | None = None) -> Record:
        """Remove it for good, running or not."""
        self.info = {**self.info, **await arun(self._client, operations.change("delete", self.id))}
        return self.info

    async def metrics(self, range: str = "1h") -> Record:
        """Return what it uses."""
        return await arun(self._client, operations.change("metrics", self.id, range=range))

    async def _take(self, op: Op[Info]) -> AsyncSandbox:
        self.info = await arun(self._client, op)
        return self


Sandboxes = list[AsyncSandbox]
