"""Where the machines' data lies: names of files and folders, nothing else.

Does not cover: what is in them (see the modules that write them).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

FORMAT = 1


@dataclass(frozen=True)
class MachinesDir:
    """`DATA/machines`."""

    root: Path

    @property
    def socket(self) -> Path:
        return self.root / "keeper.sock"

    @property
    def lock(self) -> Path:
        return self.root / "keeper.lock"

    @property
    def log(self) -> Path:
        return self.root / "keeper.log"

    @property
    def keeper(self) -> Path:
        return self.root / "keeper.json"

    @property
    def spaces(self) -> Path:
        return self.root / "namespaces.json"

    @property
    def engine(self) -> Path:
        return self.root / "engine"

    @property
    def engine_state(self) -> Path:
        return self.root / "engine-state"

    @property
    def forks(self) -> Path:
        return self.root / "forks"

    @property
    def pool(self) -> Path:
        return self.root / "pool"

    @property
    def layers(self) -> Path:
        return self.root / "layers"

    @property
    def supervisors(self) -> Path:
        return self.root / "supervisor"

    @property
    def images(self) -> Path:
        return self.root / "images"

    @property
    def tools(self) -> Path:
        return self.root / "tools"

    def sandbox(self, sandbox_id: str) -> Path:
        return self.root / "sandboxes" / sandbox_id

    def snapshot(self, snapshot_id: str) -> Path:
        return self.root / "snapshots" / snapshot_id
