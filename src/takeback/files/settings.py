"""What can be set about checkpoints of a project, with the defaults.

Does not cover: where the values come from (`takeback.config`).
"""

from __future__ import annotations

from dataclasses import dataclass

MIB = 1024 * 1024
GIB = 1024 * MIB


@dataclass(frozen=True)
class FilesSettings:
    """Sizes in bytes, times in seconds, shares from 0 to 1."""

    max_size: int = 20 * GIB  # new bytes one checkpoint may copy
    max_file: int = 4 * GIB  # a bigger file is named as not covered
    tree_files: int = 60_000  # files, bytes and time one rebuildable tree (node_modules...) may cost
    tree_bytes: int = 512 * MIB
    tree_seconds: float = 20.0
    delete_share: float = 0.3  # a restore that deletes more of the project's files wants --yes
    delete_floor: int = 20  # ... unless it is only this few
    store: str = "private"  # or "repository": also anchor refs/checkpoints/ in the project's own repository
    lock_wait: float = 30.0
    keep: int = 1000  # checkpoints gc keeps by default
    output_tail: int = 16 * 1024
