"""Disk layers: the changed files of a machine of the disk kind LAYERS, on the host.

Does not cover: the disk kind MEMORY, which the engine keeps itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path


class Disks:
    """The folder of all layers."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def problem(self) -> str:
        """Return why layers do not work here, or an empty text."""
        return "not yet"

    def place(self, name: str) -> Path:
        """Return the folder of one layer."""
        return self.folder / name

    def missing(self, names: Sequence[str]) -> str:
        """Return which layer is not there in words, or an empty text."""
        return next((f"disk layer {name} is missing" for name in names if not self.place(name).is_dir()), "")

    def new(self) -> str:
        """Make a layer to be written to and return its name."""
        raise NotImplementedError

    def mount(self, base: Path, layers: Sequence[str], upper: str, point: Path) -> Path:
        raise NotImplementedError

    def unmount(self, point: Path) -> None:
        """Take a mount away, if it is there."""

    def used(self, name: str) -> int:
        return 0

    def drop(self, name: str) -> None:
        """Remove a layer."""

    def sweep(self, wanted: set[str]) -> list[str]:
        return []
