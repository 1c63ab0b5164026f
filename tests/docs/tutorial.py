"""Reads a page of `$ command` blocks and runs it, each command on a terminal of its own.

Does not cover: what the page should say.
"""

from __future__ import annotations

import os
import pty
import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.cli.terminal import read_all
from tests.support.cli import PATIENCE, Home

# What differs from run to run; spaces collapse because tables are as wide as their ages.
_VOLATILE = [
    (re.compile(r"\b(just now|\d+(\.\d+)? (s|min|h) ago)"), "AGE"),
    (re.compile(r"\b\d+(\.\d+)? (s|min)\b"), "TIME"),
    (re.compile(r"\b\d+(\.\d+)? ([KMG]i)?B\b"), "SIZE"),
    (re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d \+\d{4}"), "DATE"),
    (re.compile(r"[ \t]+"), " "),
]
_PROGRESS = re.compile(r"(saving|reading) .*\d+/\d+ ")


def commands(page: str) -> Iterator[tuple[str, list[str]]]:
    """Yield each command of the page's console blocks with the lines shown below it."""
    for block in re.findall(r"^```console\n(.*?)^```", page, re.MULTILINE | re.DOTALL):
        shown: list[str] = []
        command = ""
        for line in block.splitlines():
            if line.startswith("$ "):
                if command:
                    yield command, shown
                command, shown = line[2:], []
            else:
                shown.append(line)
        yield command, shown


def with_output(page: str, run: Callable[[str], list[str]]) -> str:
    """Return the page with what each command says now; lists longer than they deserve have to be cut by hand."""

    def fill(found: re.Match[str]) -> str:
        lines: list[str] = []
        for line in found[1].splitlines():
            if line.startswith("$ "):
                lines += [line, *run(line[2:])]
        return "```console\n" + "\n".join(lines) + "\n```"

    return re.sub(r"^```console\n(.*?)^```", fill, page, flags=re.MULTILINE | re.DOTALL)


class Shell:
    """Runs commands one after the other where the one before left off."""

    def __init__(self, home: Home, cwd: Path, programs: Path) -> None:
        self._cwd = str(cwd)
        self._place = home.temp / "place"
        programs.mkdir()
        name = programs / "takeback"
        name.write_text(f'#!/bin/sh\nexec {home.python[0]} -m takeback "$@"\n', encoding="utf-8")
        name.chmod(0o755)
        env = home.env()
        self._env = {
            **env,
            "PATH": f"{programs}{os.pathsep}{env['PATH']}",
            "TERM": "xterm",
            "NO_COLOR": "1",
            "COLUMNS": "100",
            "GIT_PAGER": "cat",
        }

    def run(self, command: str) -> list[str]:
        """Run one line of shell and return the lines that a person would see."""
        master, slave = pty.openpty()
        script = f"{command}\ncode=$?; pwd >{self._place}; exit $code"
        streams = {"stdin": slave, "stdout": slave, "stderr": slave}
        process = subprocess.Popen(["bash", "-c", script], cwd=self._cwd, env=self._env, **streams)
        os.close(slave)
        seen = read_all(master).decode().replace("\r\n", "\n")
        os.close(master)
        process.wait(PATIENCE)
        self._cwd = self._place.read_text(encoding="utf-8").rstrip("\n")
        lines = [re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", line).rstrip() for line in seen.splitlines()]
        # On a busy machine a checkpoint takes long enough to show its progress, and clears it away again.
        busy = any(_PROGRESS.match(line) for line in lines)
        return [line for line in lines if not (_PROGRESS.match(line) or (busy and not line))]


def same(line: str) -> str:
    """Return a line without what may differ."""
    for pattern, word in _VOLATILE:
        line = pattern.sub(word, line)
    return line.strip()


def matches(shown: list[str], said: list[str]) -> bool:
    """Whether the page shows what was said; a line `...` stands for any lines, and at a line's end for its rest."""
    parts = []
    for line in shown:
        if line.strip() == "...":
            parts.append(r"(.*\n)*?")
        elif line.endswith("..."):
            parts.append(re.escape(same(line[:-3])) + r".*\n")
        else:
            parts.append(re.escape(same(line)) + r"\n")
    return re.fullmatch("".join(parts), "".join(same(line) + "\n" for line in said)) is not None
