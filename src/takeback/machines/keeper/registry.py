"""The sandboxes as they are written down: one sandbox.json each, old or new but never half.

Does not cover: what is true of them now (`keeper`, `machine`).
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

from takeback.errors import Damaged
from takeback.host import atomic
from takeback.machines.layout import MachinesDir
from takeback.machines.model import SandboxRecord

_NAME = "sandbox.json"
_LARGEST = 1 << 20


class Registry:
    """`DATA/machines/sandboxes`."""

    def __init__(self, directory: MachinesDir) -> None:
        self._directory = directory
        self._spoiled: dict[str, str] = {}

    def folder(self, sandbox_id: str) -> Path:
        return self._directory.sandbox(sandbox_id)

    def add(self, record: SandboxRecord) -> None:
        """Make the folder of a new sandbox and write its record."""
        self.folder(record.id).mkdir(mode=0o700, parents=True)
        self.save(record)

    def save(self, record: SandboxRecord, *, durable: bool = False) -> None:
        """Replace the record of a sandbox; `durable` when it must be found after a power cut too.

        A record that could not be read is replaced only when its sandbox is deleted; else raises Damaged.
        """
        if record.id in self._spoiled and record.stop_reason != "deleted":
            raise Damaged(
                what=f"the record of sandbox {record.id}",
                detail=self._spoiled[record.id],
                next="mend it and have the keeper started anew, or delete that sandbox",
            )
        text = json.dumps(record.to_json(), indent=1)
        atomic.write_bytes(self.folder(record.id) / _NAME, text.encode(), durable=durable)

    def is_spoiled(self, sandbox_id: str) -> bool:
        """Whether its record could not be read: what is known of it is made up."""
        return sandbox_id in self._spoiled

    def all(self) -> Iterator[SandboxRecord]:
        """Give every record; of one that cannot be read, one that says why and can be deleted."""
        top = self._directory.root / "sandboxes"
        for folder in sorted(top.iterdir()) if top.is_dir() else ():
            if not folder.is_dir():
                continue  # not ours: whatever put it there may have it back
            try:
                yield self._read(folder / _NAME)
            except (OSError, ValueError, Damaged) as error:
                if isinstance(error, FileNotFoundError) and not _has_content(folder):
                    shutil.rmtree(folder, ignore_errors=True)  # killed before the record was written: nothing ran yet
                    continue
                self._spoiled[folder.name] = str(error)
                yield SandboxRecord.spoiled(folder.name, str(error), folder.stat().st_mtime_ns)

    def _read(self, path: Path) -> SandboxRecord:
        if path.stat().st_size > _LARGEST:
            raise ValueError(f"{path} is larger than a record can be")
        document = json.loads(path.read_bytes())
        if not isinstance(document, dict):
            raise ValueError(f"{path} holds no record")
        return SandboxRecord.from_json(document)

    def remove(self, sandbox_id: str) -> None:
        """Remove the folder of a sandbox whose machine is gone; repeatable."""
        folder = self.folder(sandbox_id)
        # The record goes last: a folder with one is looked after by the next keeper.
        for child in folder.iterdir() if folder.is_dir() else ():
            if child.name != _NAME:
                if child.is_dir() and not child.is_symlink():
                    shutil.rmtree(child, ignore_errors=True)
                else:
                    child.unlink(missing_ok=True)
        shutil.rmtree(folder, ignore_errors=True)
        self._spoiled.pop(sandbox_id, None)


def _has_content(folder: Path) -> bool:
    return any(not child.name.startswith(".tmp-") for child in folder.iterdir())
