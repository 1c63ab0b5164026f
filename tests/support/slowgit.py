"""A `git` first on PATH that can be held, made to fail, and asked what happened to it.

Does not cover: what the real git does; every call ends in it unless it was told to fail.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from .cli import Home, make_executable

_SCRIPT = """#!/bin/sh
here='{here}'
echo "start $$ $*" >> "$here/log"
for word in "$@"; do
  if [ -e "$here/fail.$word" ]; then echo 'fatal: told to fail' >&2; exit 128; fi
  if [ -e "$here/hold.$word" ]; then
    trap 'echo "term $$" >> "$here/log"; exit 143' TERM
    echo "held $$ $word" >> "$here/log"
    while [ -e "$here/hold.$word" ]; do sleep 0.02; done
    trap - TERM
  fi
done
exec '{git}' "$@"
"""


class SlowGit:
    """The wrapper's folder; `path` is the PATH that finds it first."""

    def __init__(self, home: Home) -> None:
        self.folder = home.path / "slow-git"
        self.folder.mkdir()
        real = shutil.which("git")
        assert real is not None
        make_executable(self.folder / "git", _SCRIPT.format(here=self.folder, git=real))
        self.path = f"{self.folder}{os.pathsep}{os.environ['PATH']}"

    @property
    def env(self) -> dict[str, str]:
        return {"PATH": self.path}

    def hold(self, *words: str) -> None:
        """Make every call that has one of these words as an argument wait."""
        for word in words:
            (self.folder / f"hold.{word}").touch()

    def fail(self, *words: str) -> None:
        """Make every call that has one of these words as an argument fail."""
        for word in words:
            (self.folder / f"fail.{word}").touch()

    def free(self) -> None:
        """Let all calls go on as real git."""
        for name in [*self.folder.glob("hold.*"), *self.folder.glob("fail.*")]:
            name.unlink()

    def log(self, what: str) -> list[list[str]]:
        """Return the words of each log line of one kind: start, held or term."""
        path: Path = self.folder / "log"
        lines = path.read_text(errors="replace").splitlines() if path.exists() else []
        return [line.split()[1:] for line in lines if line.startswith(what + " ")]


# What a checkpoint runs under its lock, of which it always runs at least one.
SCANNING = ("diff-files", "ls-files", "update-index", "write-tree")
