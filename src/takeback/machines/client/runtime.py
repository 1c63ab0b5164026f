"""`Runtime` and `AsyncRuntime`: the way in that programs of the hosted client have, to one's own sandboxes.

Does not cover: what a sandbox can do (`sandbox`), accounts and their products (`hosted`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Unpack

from takeback.machines.client import operations
from takeback.machines.client.aio import AsyncSandbox
from takeback.machines.client.connect import Client, Way
from takeback.machines.client.drivers import arun, run
from takeback.machines.client.hosted import HostedAccount
from takeback.machines.client.operations import CreateFields, Info, Wishes
from takeback.machines.client.pages import AsyncPage, Page, oldest_first
from takeback.machines.client.sandbox import Sandbox, SandboxRecord
from takeback.machines.client.snapshots import AsyncSnapshots, Snapshots


class Sandboxes:
    """`runtime.sandboxes`: make, find, and end sandboxes."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def create(self, **fields: Unpack[CreateFields]) -> Sandbox:
        """Make a sandbox and start it, as `Sandbox.create`."""
        return Sandbox.create(client=self._client, **fields)

    def get_or_create(self, name: str, **fields: Unpack[Wishes]) -> Sandbox:
        """Return the living sandbox of that name, or make it."""
        return Sandbox.get_or_create(name, client=self._client, **fields)

    def get(self, sandbox_id: str) -> Sandbox:
        """Return a sandbox by its id. Raises SandboxNotFound."""
        return Sandbox.connect(sandbox_id, client=self._client)

    def delete(self, sandbox_id: str, idempotency_key: str | None = None) -> Info:
        """Remove a sandbox for good."""
        return run(self._client, operations.change("delete", sandbox_id))

    def list(
        self,
        *,
        state: str | Sequence[str] | None = None,
        include_stopped: bool = False,
        labels: Mapping[str, str] | None = None,
        name: str | None = None,
        limit: int | None = None,
    ) -> Page[Sandbox]:
        """Return those that fit, oldest first, in pages of `limit`."""
        op = operations.listing(state=state, include_stopped=include_stopped, labels=labels, name=name)
        infos = oldest_first(run(self._client, op))
        return Page((Sandbox(self._client, info) for info in infos), limit)

    def stop_all(self, *, labels: Mapping[str, str]) -> dict[str, Any]:
        """Stop all that have these labels: {"stopped": [ids], "failed": [{"id", "error"}]}. Raises InvalidRequest."""
        stopped, failed = run(self._client, operations.each_labelled("stop", labels))
        return {"stopped": stopped, "failed": failed}

    def delete_all(self, *, labels: Mapping[str, str]) -> dict[str, Any]:
        """Delete all that have these labels: {"deleted": [ids], "failed": [{"id", "error"}]}. Raises InvalidRequest."""
        deleted, failed = run(self._client, operations.each_labelled("delete", labels))
        return {"deleted": deleted, "failed": failed}


class AsyncSandboxes:
    """`runtime.sandboxes` of an AsyncRuntime."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def create(self, **fields: Unpack[CreateFields]) -> AsyncSandbox:
        """Make a sandbox and start it, as `AsyncSandbox.create`."""
        return await AsyncSandbox.create(client=self._client, **fields)

    async def get_or_create(self, name: str, **fields: Unpack[Wishes]) -> AsyncSandbox:
        """Return the living sandbox of that name, or make it."""
        return await AsyncSandbox.get_or_create(name, client=self._client, **fields)

    async def get(self, sandbox_id: str) -> AsyncSandbox:
        """Return a sandbox by its id. Raises SandboxNotFound."""
        return await AsyncSandbox.connect(sandbox_id, client=self._client)

    async def delete(self, sandbox_id: str, idempotency_key: str | None = None) -> Info:
        """Remove a sandbox for good."""
        return await arun(self._client, operations.change("delete", sandbox_id))

    async def list(
        self,
        *,
        state: str | Sequence[str] | None = None,
        include_stopped: bool = False,
        labels: Mapping[str, str] | None = None,
        name: str | None = None,
        limit: int | None = None,
    ) -> AsyncPage[AsyncSandbox]:
        """Return those that fit, oldest first, in pages of `limit`."""
        op = operations.listing(state=state, include_stopped=include_stopped, labels=labels, name=name)
        infos = oldest_first(await arun(self._client, op))
        return AsyncPage((AsyncSandbox(self._client, info) for info in infos), limit)

    async def stop_all(self, *, labels: Mapping[str, str]) -> dict[str, Any]:
        """Stop all that have these labels."""
        stopped, failed = await arun(self._client, operations.each_labelled("stop", labels))
        return {"stopped": stopped, "failed": failed}

    async def delete_all(self, *, labels: Mapping[str, str]) -> dict[str, Any]:
        """Delete all that have these labels."""
        deleted, failed = await arun(self._client, operations.each_labelled("delete", labels))
        return {"deleted": deleted, "failed": failed}


class _PagedSnapshots(Snapshots):
    def list(
        self,
        *,
        sandbox_id: str | None = None,
        name: str | None = None,
        labels: Mapping[str, str] | None = None,
        state: str | None = None,
        limit: int | None = None,
    ) -> Page[Info]:
        return Page(super().list(sandbox_id=sandbox_id, name=name, labels=labels, state=state), limit)


class _AsyncPagedSnapshots(AsyncSnapshots):
    async def list(
        self,
        *,
        sandbox_id: str | None = None,
        name: str | None = None,
        labels: Mapping[str, str] | None = None,
        state: str | None = None,
        limit: int | None = None,
    ) -> AsyncPage[Info]:
        found = await super().list(sandbox_id=sandbox_id, name=name, labels=labels, state=state)
        return AsyncPage(found, limit)


class _Base(HostedAccount):
    def __init__(
        self,
        api_key: str | None = None,
        base_url: str | None = None,
        *,
        timeout: float = 300,
        max_retries: int = 4,
        max_connections: int = 48,
        wait_for_capacity: float | bool = 120,
        on_queued: Any = None,
        client: Way | None = None,
    ) -> None:
        """Only `client` has a meaning here: whose sandboxes, else this user's."""
        self._client = SandboxRecord._way(client)

    @property
    def client(self) -> Client:
        """The way to the sandboxes."""
        return self._client


class Runtime(_Base):
    """This user's sandboxes and snapshots, as programs of the hosted client reach them: no key, no server."""

    @property
    def sandboxes(self) -> Sandboxes:
        """Make, find, and end sandboxes."""
        return Sandboxes(self._client)

    @property
    def snapshots(self) -> Snapshots:
        """Look at, change and delete snapshots."""
        return _PagedSnapshots(self._client)

    def close(self) -> None:
        """Do nothing: no connection stays open."""

    def __enter__(self) -> Runtime:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class AsyncRuntime(_Base):
    """The same in an event loop."""

    @property
    def sandboxes(self) -> AsyncSandboxes:
        """Make, find, and end sandboxes."""
        return AsyncSandboxes(self._client)

    @property
    def snapshots(self) -> AsyncSnapshots:
        """Look at, change and delete snapshots."""
        return _AsyncPagedSnapshots(self._client)

    async def close(self) -> None:
        """Do nothing: no connection stays open."""

    async def __aenter__(self) -> AsyncRuntime:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()
