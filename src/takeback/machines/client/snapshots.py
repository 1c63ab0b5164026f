"""The snapshots of a data directory: get, list, change, delete, compare, and the tree of what came from what.

Does not cover: taking one (`Sandbox.snapshot`) or starting from one (`Sandbox.create`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from takeback.machines.client import operations, undo
from takeback.machines.client.connect import Client, Way
from takeback.machines.client.drivers import arun, run
from takeback.machines.client.operations import Info
from takeback.machines.client.sandbox import SandboxRecord
from takeback.machines.client.tree import Tree, grow

Infos = list[Info]


class _Base:
    def __init__(self, client: Way | None = None) -> None:
        self._given = client

    @property
    def _client(self) -> Client:
        return (self._given or SandboxRecord.default_client()).client


class Snapshots(_Base):
    """Every snapshot there is, whichever sandbox it was taken of."""

    def create(self, sandbox_id: str, **fields: Any) -> Info:
        """Save a sandbox; the fields are those of `Sandbox.snapshot`."""
        return run(self._client, operations.snapshot(sandbox_id, fields))

    def get(self, snapshot_id: str) -> Info:
        """Return the record of a snapshot, by its id or its name. Raises SnapshotNotFound."""
        return run(self._client, operations.on_snapshot("snapshot-get", snapshot_id))

    def list(
        self,
        *,
        sandbox_id: str | None = None,
        name: str | None = None,
        labels: Mapping[str, str] | None = None,
        state: str | None = None,
        limit: int | None = None,
    ) -> Infos:
        """Return the records that fit, newest first."""
        found = run(self._client, operations.snapshots(sandbox_id, name=name, labels=labels))
        return [one for one in found if state in (None, one["state"])][:limit]

    def update(
        self,
        snapshot_id: str,
        *,
        if_labels: Mapping[str, str] | None = None,
        idempotency_key: str | None = None,
        **fields: Any,
    ) -> Info:
        """Change `name` (None clears it), `labels` or `retention_days`.

        With `if_labels` only when its labels are these; else raises FenceConflict.
        """
        return run(self._client, operations.update_snapshot(snapshot_id, if_labels, fields))

    def extend(self, snapshot_id: str, retention_days: int) -> Info:
        """Keep it for so many days from now."""
        return self.update(snapshot_id, retention_days=retention_days)

    def delete(self, snapshot_id: str) -> Info:
        """Remove it; sandboxes made of it stay. Raises SnapshotNotFound."""
        return run(self._client, operations.on_snapshot("snapshot-delete", snapshot_id))

    def diff(self, snapshot_id: str, against: undo.Against = None) -> Info:
        """Return the files added, changed and deleted from `against` to a snapshot, as `Sandbox.diff` does.

        `against` is another snapshot, a sandbox, or what its sandbox was saved as or put to before.
        """
        return run(self._client, undo.diff({"snapshot": snapshot_id}, against))

    def used(self) -> dict[str, int]:
        """Return the bytes on the disk: `snapshots` (shared layers once), `sandboxes`, and `limit` (0: none)."""
        return run(self._client, undo.stored())

    def tree(self) -> Tree:
        """Return which snapshot or sandbox came from which; printing it draws it."""
        return grow(run(self._client, operations.listing()), run(self._client, operations.snapshots()))


class AsyncSnapshots(_Base):
    """The same in an event loop."""

    async def create(self, sandbox_id: str, **fields: Any) -> Info:
        """Save a sandbox; the fields are those of `AsyncSandbox.snapshot`."""
        return await arun(self._client, operations.snapshot(sandbox_id, fields))

    async def get(self, snapshot_id: str) -> Info:
        """Return the record of a snapshot, by its id or its name."""
        return await arun(self._client, operations.on_snapshot("snapshot-get", snapshot_id))

    async def list(
        self,
        *,
        sandbox_id: str | None = None,
        name: str | None = None,
        labels: Mapping[str, str] | None = None,
        state: str | None = None,
        limit: int | None = None,
    ) -> Infos:
        """Return the records that fit, newest first."""
        found = await arun(self._client, operations.snapshots(sandbox_id, name=name, labels=labels))
        return [one for one in found if state in (None, one["state"])][:limit]

    async def update(
        self,
        snapshot_id: str,
        *,
        if_labels: Mapping[str, str] | None = None,
        idempotency_key: str | None = None,
        **fields: Any,
    ) -> Info:
        """Change `name`, `labels` or `retention_days`."""
        return await arun(self._client, operations.update_snapshot(snapshot_id, if_labels, fields))

    async def extend(self, snapshot_id: str, retention_days: int) -> Info:
        """Keep it for so many days from now."""
        return await self.update(snapshot_id, retention_days=retention_days)

    async def delete(self, snapshot_id: str) -> Info:
        """Remove it; sandboxes made of it stay."""
        return await arun(self._client, operations.on_snapshot("snapshot-delete", snapshot_id))

    async def diff(self, snapshot_id: str, against: undo.Against = None) -> Info:
        """Return the files added, changed and deleted from `against` to a snapshot."""
        return await arun(self._client, undo.diff({"snapshot": snapshot_id}, against))

    async def used(self) -> dict[str, int]:
        """Return the bytes on the disk."""
        return await arun(self._client, undo.stored())

    async def tree(self) -> Tree:
        """Return which snapshot or sandbox came from which."""
        return grow(await arun(self._client, operations.listing()), await arun(self._client, operations.snapshots()))
