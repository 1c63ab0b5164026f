"""Golden files: a text is compared with the file that holds it, or replaces it with `--update-golden`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest


@dataclass(frozen=True)
class Golden:
    directory: Path
    update: bool

    @classmethod
    def of(cls, config: pytest.Config, directory: Path) -> Golden:
        return cls(directory, bool(config.getoption("--update-golden", default=False)))

    def check(self, name: str, text: str) -> None:
        """Compare `text` with the file `name`."""
        path = self.directory / name
        if self.update:
            path.write_text(text, encoding="utf-8")
        assert path.exists(), f"no {path}; run with --update-golden"
        assert text == path.read_text(encoding="utf-8")
