"""`Sandbox`: a machine of one's own, blocking.

Does not cover: the same for asyncio (`aio`), or where the data lies (`takeback.sandboxes` gives the default client).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Unpack

from takeback.errors import FileNotFound, InvalidRequest, NotPaused, StartFailed, TakebackError, TerminalRefused
from takeback.machines.client import commands, keeping, operations, undo
from takeback.machines.client.connect import Client, Way
from takeback.machines.client.drivers import items, run
from takeback.machines.client.faces import BLOCKING, Face
from takeback.machines.client.files import Files
from takeback.machines.client.hosted import HostedParts
from takeback.machines.client.interpreter import Interpreter
from takeback.machines.client.network import Network, PortForward, Previews, forward_port
from takeback.machines.client.operations import CreateFields, Info, Wishes
from takeback.machines.client.processes import Process, Records, Terminal
from takeback.machines.client.results import CommandResult, Event
from takeback.machines.client.steps import Op
from takeback.machines.cost import Prices


class SandboxRecord(HostedParts):
    """What is known of a sandbox; `refresh` asks anew."""

    _face: ClassVar[Face]

    # Set by takeback.sandboxes, the one place that reads settings.
    default_client: ClassVar[Callable[[], Client]]

    def __init__(self, client: Client, info: Info, *, ours: bool = False, keep: bool = False) -> None:
        self._client = client
        self._ours = ours and not info.get("reused", False)
        self._keep = keep
        self._heir: Any = None  # the one that took its place
        self._keeping: keeping.Stop | None = None
        self.info = info

    @classmethod
    def _way(cls, client: Way | None) -> Client:
        """Return the client that is meant: of a Runtime its own, of None this user's."""
        return (client or cls.default_client()).client

    @property
    def id(self) -> str:
        return str(self.info["id"])

    @property
    def state(self) -> str:
        """As of the last answer: starting, running, pausing, paused, resuming, stopping, stopped."""
        return str(self.info["state"])

    @property
    def heir(self) -> Any:
        """The copy that took its place by `replace_with`, if one did."""
        return self._heir

    def stop_keep_alive(self) -> None:
        """End what `keep_alive` began, if it did."""
        if self._keeping is not None:
            self._keeping()
            self._keeping = None

    def __repr__(self) -> str:
        name = f" {self.info['name']!r}" if self.info.get("name") else ""
        return f"<{type(self).__name__} {self.id}{name} {self.state}>"


class Sandbox(SandboxRecord):
    """A sandbox: `with Sandbox.create() as sbx: sbx.exec("make test")` makes one and deletes it at the end."""

    _face = BLOCKING

    # -- finding ---------------------------------------------------------------------------------------------------

    @classmethod
    def create(cls, *, client: Way | None = None, **fields: Unpack[CreateFields]) -> Sandbox:
        """Make a sandbox and start it. What is missing on this machine is set up first.

        Raises NameTaken, UnknownImage, InvalidRequest, StartFailed, KeeperFailed.
        """
        way = cls._way(client)
        info = run(way, operations.create(way, fields))
        return cls(way, info, ours=True, keep=bool(fields.get("keep")))

    @classmethod
    def get_or_create(cls, name: str, *, client: Way | None = None, **fields: Unpack[Wishes]) -> Sandbox:
        """Return the living sandbox of that name, woken when it was paused, or make it."""
        wanted: CreateFields = {**fields, "name": name, "get_or_create": True}
        return cls.create(client=client, **wanted)

    @classmethod
    def connect(cls, sandbox_id: str, *, client: Way | None = None) -> Sandbox:
        """Return a sandbox by its id. Raises SandboxNotFound."""
        way = cls._way(client)
        return cls(way, run(way, operations.get(sandbox_id)))

    @classmethod
    def list(
        cls,
        *,
        client: Way | None = None,
        state: str | Sequence[str] | None = None,
        include_stopped: bool = False,
        labels: Mapping[str, str] | None = None,
        name: str | None = None,
        limit: int | None = None,
    ) -> Sandboxes:
        """Return the sandboxes that fit, newest first; stopped ones whose disk is gone only with `include_stopped`."""
        way = cls._way(client)
        op = operations.listing(state=state, include_stopped=include_stopped, labels=labels, name=name, limit=limit)
        return [cls(way, info) for info in run(way, op)]

    def __enter__(self) -> Sandbox:
        return self

    def __exit__(self, *_: object) -> None:
        """Delete what this program made, or what took its place; stop what it found."""
        if self._heir is not None:
            self._heir.__exit__()
            return
        try:
            if self._ours and not self._keep:
                self.delete()
            else:
                self.stop(wait=False)
        except TakebackError:
            pass  # what the block raised is what matters

    # -- commands --------------------------------------------------------------------------------------------------

    def exec(
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
        """Run a command to its end: a text in `bash -c`, or a list of words without a shell.

        `timeout_ms` is a minute unless given (a day with callbacks). What the command leaves behind in its session ends
        with it; use `spawn` for servers. Raises CommandError with `check`, SandboxPaused, SandboxStopped.
        """
        op = commands.execute(
            self.id, command, cwd=cwd, user=user, env=env, stdin=stdin, timeout_ms=timeout_ms, on_stdout=on_stdout,
            on_stderr=on_stderr, check=check, idempotency_key=idempotency_key, trace_files=trace_files,
        )  # fmt: skip
        return run(self._client, op)

    def exec_stream(
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
    ) -> Iterator[Event]:
        """Run a command and give its events as they come: start, stdout, stderr, truncated, exit."""
        op = commands.stream(
            self.id, command, cwd=cwd, user=user, env=env, stdin=stdin, timeout_ms=timeout_ms,
            idempotency_key=idempotency_key, trace_files=trace_files,
        )  # fmt: skip
        yield from items(self._client, op)

    def spawn(
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
    ) -> Process:
        """Start a process that lives on its own; stdin stays open for `write` unless `stdin` gives it or is False."""
        op = commands.spawn(
            self.id, command, cwd=cwd, user=user, env=env, stdin=stdin, pty=pty, timeout_ms=timeout_ms,
            output_encoding=output_encoding,
        )  # fmt: skip
        return Process(self._client, self.id, run(self._client, op))

    def processes(self) -> Records:
        """Return the records of the running processes and of the last 16 that ended."""
        return run(self._client, operations.processes(self.id))

    def process(self, process_id: str) -> Process:
        """Return a process by its id. Raises ProcessNotFound."""
        record = run(self._client, commands.control("process", self.id, process_id))
        return Process(self._client, self.id, record)

    def terminal(
        self,
        *,
        cols: int = 80,
        rows: int = 24,
        command: commands.Command | None = None,
        cwd: str | None = None,
        user: str | None = None,
        process_id: str | None = None,
    ) -> Terminal:
        """Open a terminal with `bash -l` or another command, or attach to a process that has one."""
        if process_id is not None:
            return Terminal(self.process(process_id))
        try:
            size = {"cols": cols, "rows": rows}
            process = self.spawn(command or commands.LOGIN, cwd=cwd, user=user, pty=size, output_encoding="base64")
        except (FileNotFound, InvalidRequest, StartFailed) as error:
            raise TerminalRefused(why=str(error)) from error
        return Terminal(process)

    @property
    def files(self) -> Files:
        """Read, write and move files in it."""
        return Files(self._client, self.id)

    @property
    def interpreter(self) -> Interpreter:
        """Run cells of Python in it, whose variables stay."""
        return Interpreter(self._client, self.id)

    @property
    def network(self) -> Network:
        """See and change what it may reach."""
        return Network(self._client, self.id)

    @property
    def previews(self) -> Previews:
        """Give servers in it an address here that stays."""
        return Previews(self._client, self.id)

    def forward_port(self, port: int, *, local_port: int | None = None, host: str = "127.0.0.1") -> PortForward:
        """Let connections to a port here reach a server inside, until it is closed or this program ends.

        Raises PortInUse.
        """
        return forward_port(self._client, self.id, port, local_port, host)

    # -- its life --------------------------------------------------------------------------------------------------

    def refresh(self) -> Sandbox:
        """Ask for its record."""
        return self._take(operations.get(self.id))

    def wait_for(self, state: str, timeout_seconds: float = 60) -> Sandbox:
        """Wait until it is `running`, `paused` or `stopped`, can no longer be, or the time is over."""
        return self._take(operations.wait_for(self.id, state, timeout_seconds))

    def pause(self, wait: bool = True, idempotency_key: str | None = None) -> Sandbox:
        """Stop its processors; memory, processes and connections inside stay."""
        return self._take(operations.change("pause", self.id))

    def wake(
        self,
        wait: bool = True,
        timeout_seconds: int | None = None,
        idempotency_key: str | None = None,
        *,
        wait_for_capacity: float | bool | None = None,
        on_capacity_wait: Any = None,
    ) -> Sandbox:
        """Let it go on; one that is awake is left as it is. `timeout_seconds` gives it a new time limit."""
        try:
            return self._take(operations.change("wake", self.id, timeout_seconds=timeout_seconds))
        except NotPaused:
            self.refresh()
            if timeout_seconds is not None or self.state not in ("running", "starting"):
                raise
            return self

    def stop(self, wait: bool = True, idempotency_key: str | None = None) -> Sandbox:
        """Shut it down; its disk is kept and `restart` boots from it, its memory is gone."""
        return self._take(operations.change("stop", self.id))

    def restart(
        self,
        wait: bool = True,
        idempotency_key: str | None = None,
        *,
        wait_for_capacity: float | bool | None = None,
        on_capacity_wait: Any = None,
    ) -> Sandbox:
        """Boot a stopped sandbox from the disk that was kept."""
        return self._take(operations.change("restart", self.id))

    def extend(self, seconds: int, idempotency_key: str | None = None) -> Sandbox:
        """Move the end of its time limit; without one nothing changes."""
        return self._take(operations.change("extend", self.id, seconds=seconds))

    def set_retention(self, days: int | None, idempotency_key: str | None = None) -> Sandbox:
        """Delete it when it has been paused for so many days (1 to 365), None for never."""
        return self._take(operations.change("retention", self.id, days=days))

    def resize(
        self,
        *,
        restart: bool = True,
        vcpu: int | None = None,
        memory_mib: int | None = None,
        disk_mib: int | None = None,
        idempotency_key: str | None = None,
    ) -> Sandbox:
        """Give it another size: it is stopped, and booted from its disk. Raises Unsupported where that is not kept."""
        size = {"vcpu": vcpu, "memory_mib": memory_mib, "disk_mib": disk_mib}
        return self._take(operations.resize(self.id, restart, size))

    def switch_image(self, image: str, *, keep: str = "workspace", idempotency_key: str | None = None) -> Sandbox:
        """Boot it from another image with its own /workspace; all else of its disk is that image's."""
        return self._take(operations.switch_image(self._client, self.id, image, keep))

    def keep_alive(self, every_seconds: float = 60, margin_seconds: int = 600) -> keeping.Stop:
        """Move its time limit, if it has one, so that `margin_seconds` are left, while this program lives.

        Returns what ends that, as `stop_keep_alive` does, and as its end does.
        """
        self.stop_keep_alive()
        self._keeping = keeping.in_thread(self, every_seconds, margin_seconds)
        return self._keeping

    def update(self, idempotency_key: str | None = None, **settings: Any) -> Sandbox:
        """Change name, labels, env, auto_wake, user, idle_pause_seconds, persistent, timeout_seconds or on_timeout."""
        return self._take(operations.update(self.id, settings))

    def delete(self, idempotency_key: str | None = None) -> dict[str, Any]:
        """Remove it for good, running or not. Deleting it again gives the same answer."""
        self.stop_keep_alive()
        self.info = {**self.info, **run(self._client, operations.change("delete", self.id))}
        return self.info

    # -- copies ----------------------------------------------------------------------------------------------------

    def snapshot(
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
        return run(self._client, operations.snapshot(self.id, fields))

    def fork(
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
    ) -> Sandbox | Sandboxes:
        """Make a running copy with all its memory, processes and files; with a `count` that many, as a list.

        `network` are rules for the copy from its first moment on; else it has the source's. With a `lease` it is
        deleted after so many seconds unless `replace_with` kept it.
        """
        fields = {
            "count": count, "name": name, "labels": labels, "keep_snapshot": keep_snapshot, "network": network,
            "lease": lease,
        }  # fmt: skip
        infos = run(self._client, operations.fork(self._client, self.id, fields))
        copies = [type(self)(self._client, info, ours=True) for info in infos]
        return copies[0] if count is None else copies

    def restore(self, snapshot: str | Mapping[str, Any], *, undo: bool = True) -> Sandbox:
        """Put it to a snapshot, in place and with the same id; `info["undoSnapshotId"]` is what it was before.

        One that had ended runs again; what is kept of that are its files, if any (else the id is None). With
        `undo=False` nothing is kept. The replacement runs before the old machine is given up. Raises SnapshotNotFound,
        SnapshotDamaged, SnapshotMismatch, CannotSaveFirst; then it goes on exactly as before.
        """
        named = snapshot if isinstance(snapshot, str) else str(snapshot["id"])
        return self._take(operations.change("restore", self.id, snapshot=named, undo=undo))

    def snapshots(self, *, name: str | None = None, labels: Mapping[str, str] | None = None) -> Infos:
        """Return the records of its snapshots, newest first; with `labels` of any sandbox that has them."""
        op = operations.snapshots(None if labels else self.id, name=name, labels=labels)
        return run(self._client, op)

    def delete_snapshot(self, snapshot_id: str) -> Info:
        """Remove a snapshot; what was made of it stays."""
        return run(self._client, operations.on_snapshot("snapshot-delete", snapshot_id))

    def replace_with(self, copy: Sandbox) -> Sandbox:
        """Let a copy take this one's place, with its name, labels, previews and network rules; this one is deleted.

        Returns the copy, which a `with` block of this one deletes too. Raises SandboxStopped when the copy died; then
        nothing has changed.
        """
        return self._succeeded_by(run(self._client, undo.replace(self.id, copy.id)))

    def _succeeded_by(self, info: Info) -> Sandbox:
        """Return the copy that has taken this one's place, which a `with` block of this one deletes from now on."""
        heir = self._heir = Sandbox(self._client, info, ours=self._ours, keep=self._keep)
        return heir

    def diff(self, against: undo.Against = None) -> Info:
        """Return the files added, changed and deleted since it was made, restarted or restored.

        Or since `against`, a sandbox or snapshot as it is now: lists of path, type, size and oldSize (bytes), `totals`,
        and the `bytes` that added and changed files hold. What lies in memory (/tmp, /run, ...) does not count.
        """
        return run(self._client, undo.diff({"sandbox": self.id}, against))

    def cost(self, prices: Mapping[str, int] | Prices | None = None) -> dict[str, Any]:
        """Return what it used and what that costs in micro-dollars by kind, also when it is deleted.

        Prices are those of the settings unless given. Raises UsageError for a price there is not.
        """
        table = prices if isinstance(prices, Prices) else Prices.of(prices) if prices else self._client.prices
        return run(self._client, undo.used(self.id, table))

    def metrics(self, range: str = "1h") -> dict[str, Any]:
        """Return what it uses: `latest` (null when it does not run) and `points`, CPU in percent, memory in bytes."""
        return run(self._client, operations.change("metrics", self.id, range=range))

    def _take(self, op: Op[Info]) -> Sandbox:
        self.info = run(self._client, op)
        return self


Infos = list[Info]
Sandboxes = list[Sandbox]
