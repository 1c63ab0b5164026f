"""`AsyncSandbox`: the same machine of one's own in an event loop.

Does not cover: what the calls mean (`sandbox`, `files`, `processes` say it); the operations are the same.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any, Unpack

from takeback.errors import FileNotFound, InvalidRequest, NotPaused, StartFailed, TakebackError, TerminalRefused
from takeback.machines.client import commands, keeping, operations, undo
from takeback.machines.client.aio_inside import AsyncFiles, AsyncProcess, AsyncTerminal
from takeback.machines.client.aio_network import AsyncNetwork, AsyncPortForward, AsyncPreviews, forward_port
from takeback.machines.client.connect import Way
from takeback.machines.client.drivers import aitems, arun
from takeback.machines.client.faces import AWAITING
from takeback.machines.client.interpreter import AsyncInterpreter
from takeback.machines.client.operations import CreateFields, Info, Wishes
from takeback.machines.client.processes import Record, Records
from takeback.machines.client.results import CommandResult, Event
from takeback.machines.client.sandbox import SandboxRecord
from takeback.machines.client.steps import Op
from takeback.machines.cost import Prices


class AsyncSandbox(SandboxRecord):
    """A sandbox: `async with await AsyncSandbox.create() as sbx: await sbx.exec("make test")`."""

    _face = AWAITING

    @classmethod
    async def create(cls, *, client: Way | None = None, **fields: Unpack[CreateFields]) -> AsyncSandbox:
        """Make a sandbox and start it. What is missing on this machine is set up first."""
        way = cls._way(client)
        info = await arun(way, operations.create(way, fields))
        return cls(way, info, ours=True, keep=bool(fields.get("keep")))

    @classmethod
    async def get_or_create(cls, name: str, *, client: Way | None = None, **fields: Unpack[Wishes]) -> AsyncSandbox:
        """Return the living sandbox of that name, woken when it was paused, or make it."""
        wanted: CreateFields = {**fields, "name": name, "get_or_create": True}
        return await cls.create(client=client, **wanted)

    @classmethod
    async def connect(cls, sandbox_id: str, *, client: Way | None = None) -> AsyncSandbox:
        """Return a sandbox by its id. Raises SandboxNotFound."""
        way = cls._way(client)
        return cls(way, await arun(way, operations.get(sandbox_id)))

    @classmethod
    async def list(
        cls,
        *,
        client: Way | None = None,
        state: str | Sequence[str] | None = None,
        include_stopped: bool = False,
        labels: Mapping[str, str] | None = None,
        name: str | None = None,
        limit: int | None = None,
    ) -> Sandboxes:
        """Return the sandboxes that fit, newest first."""
        way = cls._way(client)
        op = operations.listing(state=state, include_stopped=include_stopped, labels=labels, name=name, limit=limit)
        return [cls(way, info) for info in await arun(way, op)]

    async def __aenter__(self) -> AsyncSandbox:
        return self

    async def __aexit__(self, *_: object) -> None:
        """Delete what this program made, or what took its place; stop what it found."""
        if self._heir is not None:
            return await self._heir.__aexit__()  # type: ignore[no-any-return]
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
        output_encoding: str | None = None,
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

    @property
    def interpreter(self) -> AsyncInterpreter:
        """Run cells of Python in it, whose variables stay."""
        return AsyncInterpreter(self._client, self.id)

    @property
    def network(self) -> AsyncNetwork:
        """See and change what it may reach."""
        return AsyncNetwork(self._client, self.id)

    @property
    def previews(self) -> AsyncPreviews:
        """Give servers in it an address here that stays."""
        return AsyncPreviews(self._client, self.id)

    async def forward_port(
        self, port: int, *, local_port: int | None = None, host: str = "127.0.0.1"
    ) -> AsyncPortForward:
        """Let connections to a port here reach a server inside, until it is closed or the event loop ends."""
        return await forward_port(self._client, self.id, port, local_port, host)

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

    async def set_retention(self, days: int | None, idempotency_key: str | None = None) -> AsyncSandbox:
        """Delete it when it has been paused for so many days (1 to 365), None for never."""
        return await self._take(operations.change("retention", self.id, days=days))

    async def resize(
        self,
        *,
        restart: bool = True,
        vcpu: int | None = None,
        memory_mib: int | None = None,
        disk_mib: int | None = None,
        idempotency_key: str | None = None,
    ) -> AsyncSandbox:
        """Give it another size: it is stopped, and booted from its disk. Raises Unsupported where that is not kept."""
        size = {"vcpu": vcpu, "memory_mib": memory_mib, "disk_mib": disk_mib}
        return await self._take(operations.resize(self.id, restart, size))

    async def switch_image(
        self, image: str, *, keep: str = "workspace", idempotency_key: str | None = None
    ) -> AsyncSandbox:
        """Boot it from another image with its own /workspace; all else of its disk is that image's."""
        return await self._take(operations.switch_image(self._client, self.id, image, keep))

    def keep_alive(self, every_seconds: float = 60, margin_seconds: int = 600) -> keeping.Stop:
        """Move its time limit, if it has one, so that `margin_seconds` are left, while the event loop runs.

        Returns what ends that, as `stop_keep_alive` does, and as its end does.
        """
        self.stop_keep_alive()
        self._keeping = keeping.in_task(self, every_seconds, margin_seconds)
        return self._keeping

    async def update(self, idempotency_key: str | None = None, **settings: Any) -> AsyncSandbox:
        """Change its settings."""
        return await self._take(operations.update(self.id, settings))

    async def delete(self, idempotency_key: str | None = None) -> Record:
        """Remove it for good, running or not."""
        self.stop_keep_alive()
        self.info = {**self.info, **await arun(self._client, operations.change("delete", self.id))}
        return self.info

    # -- copies ----------------------------------------------------------------------------------------------------

    async def snapshot(
        self,
        *,
        name: str | None = None,
        labels: Mapping[str, str] | None = None,
        retention_days: int | None = None,
        mode: str | None = None,
        idempotency_key: str | None = None,
        timeout_seconds: float | None = None,
    ) -> Info:
        """Save its disk and, unless `mode` is "disk", its memory and processes; it runs on. Returns the record.

        Raises CannotSave when something in it cannot be saved; then it goes on exactly as before.
        """
        fields = {"name": name, "labels": labels, "retention_days": retention_days, "mode": mode}
        return await arun(self._client, operations.snapshot(self.id, fields))

    async def fork(
        self,
        count: int | None = None,
        *,
        name: str | None = None,
        labels: Mapping[str, str] | None = None,
        keep_snapshot: bool | None = None,
        network: Mapping[str, Any] | None = None,
        lease: int | None = None,
        funding: str | None = None,
        secrets: Sequence[str] | None = None,
        idempotency_key: str | None = None,
    ) -> AsyncSandbox | Sandboxes:
        """Make a running copy with all its memory, processes and files; with a `count` that many, as a list.

        `network` are rules for the copy from its first moment on; else it has the source's. With a `lease` it is
        deleted after so many seconds unless `replace_with` kept it.
        """
        fields = {
            "count": count, "name": name, "labels": labels, "keep_snapshot": keep_snapshot, "network": network,
            "lease": lease,
        }  # fmt: skip
        infos = await arun(self._client, operations.fork(self._client, self.id, fields))
        copies = [type(self)(self._client, info, ours=True) for info in infos]
        return copies[0] if count is None else copies

    async def restore(self, snapshot: str | Mapping[str, Any], *, undo: bool = True) -> AsyncSandbox:
        """Put it to a snapshot, in place and with the same id; `info["undoSnapshotId"]` is what it was before.

        One that had ended runs again; what is kept of that are its files, if any (else the id is None). With
        `undo=False` nothing is kept. The replacement runs before the old machine is given up. Raises SnapshotNotFound,
        SnapshotDamaged, SnapshotMismatch, CannotSaveFirst; then it goes on exactly as before.
        """
        named = snapshot if isinstance(snapshot, str) else str(snapshot["id"])
        return await self._take(operations.change("restore", self.id, snapshot=named, undo=undo))

    async def snapshots(self, *, name: str | None = None, labels: Mapping[str, str] | None = None) -> Infos:
        """Return the records of its snapshots, newest first; with `labels` of any sandbox that has them."""
        op = operations.snapshots(None if labels else self.id, name=name, labels=labels)
        return await arun(self._client, op)

    async def delete_snapshot(self, snapshot_id: str) -> Info:
        """Remove a snapshot; what was made of it stays."""
        return await arun(self._client, operations.on_snapshot("snapshot-delete", snapshot_id))

    async def replace_with(self, copy: AsyncSandbox) -> AsyncSandbox:
        """Let a copy take this one's place, with its name, labels, previews and network rules; this one is deleted.

        Returns the copy, which a `with` block of this one deletes too. Raises SandboxStopped when the copy died; then
        nothing has changed.
        """
        return self._succeeded_by(await arun(self._client, undo.replace(self.id, copy.id)))

    def _succeeded_by(self, info: Info) -> AsyncSandbox:
        """Return the copy that has taken this one's place, which a `with` block of this one deletes from now on."""
        heir = self._heir = AsyncSandbox(self._client, info, ours=self._ours, keep=self._keep)
        return heir

    async def diff(self, against: undo.Against = None) -> Info:
        """Return the files added, changed and deleted since it was made, restarted or restored.

        Or since `against`, a sandbox or snapshot as it is now: lists of path, type, size and oldSize (bytes), `totals`,
        and the `bytes` that added and changed files hold. What lies in memory (/tmp, /run, ...) does not count.
        """
        return await arun(self._client, undo.diff({"sandbox": self.id}, against))

    async def cost(self, prices: Mapping[str, int] | Prices | None = None) -> dict[str, Any]:
        """Return what it used and what that costs in micro-dollars by kind, also when it is deleted.

        Prices are those of the settings unless given. Raises UsageError for a price there is not.
        """
        table = prices if isinstance(prices, Prices) else Prices.of(prices) if prices else self._client.prices
        return await arun(self._client, undo.used(self.id, table))

    async def metrics(self, range: str = "1h") -> Record:
        """Return what it uses."""
        return await arun(self._client, operations.change("metrics", self.id, range=range))

    async def _take(self, op: Op[Info]) -> AsyncSandbox:
        self.info = await arun(self._client, op)
        return self


Infos = list[Info]
Sandboxes = list[AsyncSandbox]
