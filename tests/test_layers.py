"""Imports only point down, and what lies below the faces is silent."""

from __future__ import annotations

import ast
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

TOP = Path(__file__).resolve().parents[1]
PACKAGE = TOP / "src" / "takeback"

# What a module may ask of the world around it. `host` is the door, `app` and `config` wire, faces talk to people.
_LIBRARY = ("errors.py", "model.py", "timeline", "guard", "store", "files", "tasks")
_CLOCK = {"time.time", "time.time_ns", "datetime.now", "datetime.utcnow", "date.today"}
_ENVIRONMENT = {"os.environ", "os.environb", "os.getenv", "os.path.expanduser", "Path.home"}
_TALK = {"print", "input", "sys.stdout", "sys.stderr", "sys.stdin", "sys.exit", "logging.basicConfig"}


def contracts(directory: Path) -> subprocess.CompletedProcess[str]:
    """Check the contracts of pyproject.toml on the package in `directory`/src."""
    source = "import sys; from importlinter.cli import lint_imports; sys.exit(lint_imports(no_cache=True))"
    return subprocess.run(
        [sys.executable, "-c", source],
        cwd=directory,
        env={"PYTHONPATH": str(directory / "src"), "COLUMNS": "120"},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A copy of the package that a test may spoil."""
    shutil.copy(TOP / "pyproject.toml", tmp_path)
    shutil.copytree(PACKAGE, tmp_path / "src" / "takeback", ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path


def test_imports_keep_every_contract() -> None:
    done = contracts(TOP)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("module", "line", "contract"),
    [
        ("model.py", "from takeback import timeline", "Imports only point down"),
        ("host/process.py", "import takeback.files", "Imports only point down"),
        ("files/scan.py", "import takeback.cli.values", "Imports only point down"),
        ("timeline/spoiled.py", "import os", "The timeline knows no files, no processes, no clock"),
        ("files/spoiled.py", "import subprocess", "Only host runs processes"),
        ("files/spoiled.py", "import click", "Heavy packages stay at their edge"),
        ("cli/spoiled.py", "import tomlkit", "Settings are read in one place"),
        ("guard/walk.py", "import os", "The classifier knows the project by its context alone"),
        ("store/spoiled.py", "import socket", "Only the sandboxes' broker speaks to a network"),
    ],
)
def test_an_import_that_breaks_a_contract_is_seen(copy: Path, module: str, line: str, contract: str) -> None:
    with open(copy / "src" / "takeback" / module, "a") as file:
        file.write(f"\n{line}\n")
    done = contracts(copy)
    assert done.returncode == 1, done.stdout + done.stderr
    assert f"{contract} BROKEN" in done.stdout


def test_a_new_top_level_module_must_be_given_its_layer(copy: Path) -> None:
    (copy / "src" / "takeback" / "nowhere.py").write_text("")
    done = contracts(copy)
    assert done.returncode == 1
    assert "nowhere" in done.stdout


def names(source: str) -> Iterator[tuple[int, str]]:
    """Return every dotted name and bare name that `source` uses, with its line."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Name):
            yield node.lineno, node.id
        elif isinstance(node, ast.Attribute):
            yield node.lineno, ast.unparse(node)
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                yield node.lineno, f"{node.module}.{alias.name}"


def library() -> list[Path]:
    found = [
        path for one in _LIBRARY for path in ([PACKAGE / one] if one.endswith(".py") else (PACKAGE / one).rglob("*.py"))
    ]
    assert len(found) > 5
    return found


@pytest.mark.parametrize("forbidden", [_TALK, _ENVIRONMENT, _CLOCK], ids=["talk", "environment", "clock"])
def test_the_library_is_given_what_it_knows_of_the_world(forbidden: set[str]) -> None:
    uses = [
        f"{path.relative_to(PACKAGE)}:{line}: {name}"
        for path in library()
        for line, name in names(path.read_text(encoding="utf-8"))
        if name in forbidden
    ]
    assert uses == []


def test_the_search_for_such_names_finds_them() -> None:
    source = "import os, time\nfrom time import time_ns\nprint(os.environ['X'], time.time())"
    assert {"print", "os.environ", "time.time", "time.time_ns"} <= {name for _, name in names(source)}


def test_the_network_is_reached_from_one_module_only() -> None:
    doors = (PACKAGE / "host" / "unix.py", PACKAGE / "machines" / "network" / "outside.py")
    reached = {"urllib.request", "http.client", "asyncio.open_connection", "socket.socket"}
    uses = [
        (path.name, name)
        for path in PACKAGE.rglob("*.py")
        if path not in doors
        for _, name in names(path.read_text(encoding="utf-8"))
        if any(name == one or name.startswith(one + ".") for one in reached)
    ]
    assert uses == []
