"""The snapshots of a data directory: get, list, change, delete, compare, and the tree of what came from what.

Does not cover: taking one (`Sandbox.snapshot`) or starting from one (`Sandbox.create`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from takeback.errors import InvalidRequest
from takeback.machines.client import operations, undo
from takeback.machines.client.connect import Client
from takeback.machines.client.drivers import run
from takeback.machines.client.operations import Info
from takeback.machines.client.sandbox import Sandbox
from takeback.machines.client.tree import Tree, grow

Infos = list[Info]


class Snapshots:
    """Every snapshot there is, whichever sandbox it was taken of."""

    def __init__(self, client: Client | None = None) -> None:
        self._given = client

    @property
    def _client(self) -> Client:
        return self._given or Sandbox.default_client()

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

    def update(self, snapshot_id: str, *, if_labels: Mapping[str, str] | None = None, **fields: Any) -> Info:
        """Change `name` (None clears it), `labels` or `retention_days`.

        With `if_labels` only when its labels are these; else raises InvalidRequest.
        """
        if if_labels is not None and self.get(snapshot_id)["labels"] != dict(if_labels):
            raise InvalidRequest(detail=f"the labels of {snapshot_id} are others", next="look at them and repeat")
        return run(self._client, operations.on_snapshot("snapshot-update", snapshot_id, fields=fields))

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
        client = self._client
        return grow(run(client, operations.listing()), run(client, operations.snapshots()))
