"""The demo through its real script; and that its proof would see what it claims to see."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from tests.support import machines

TOP = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def demo() -> ModuleType:
    spec = importlib.util.spec_from_file_location("takeback_demo", TOP / "scripts" / "demo.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    # dataclasses and typing look modules up by name.
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def world(demo: ModuleType, tmp_path: Path) -> Iterator[object]:
    made = demo.World(tmp_path)
    demo.make_project(made)
    yield made


@pytest.mark.long
@pytest.mark.parametrize("words", [["--sqlite"], []], ids=["sqlite", "whole"])
def test_the_demo_brings_everything_back_and_leaves_nothing_behind(tmp_path: Path, words: list[str]) -> None:
    home, temp = tmp_path / "home", tmp_path / "tmp"
    home.mkdir()
    temp.mkdir()
    done = subprocess.run(
        [TOP / "scripts" / "demo", *words],
        env={"PATH": os.environ["PATH"], "HOME": str(home), "TMPDIR": str(temp)},
        cwd=tmp_path,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "everything came back, to the byte" in done.stdout
    steps = re.findall(r"^s\d+ +\d+ +\d+ ms   (.*)$", done.stdout, re.MULTILINE)
    assert len(steps) >= 20
    verdicts = steps[len(steps) // 2 :]
    assert set(verdicts) == {"exact"}
    assert (os.listdir(home), os.listdir(temp)) == ([], [])
    if machines.why_not():
        assert "the part about machines is left out" in done.stdout
        return
    assert "every proof held" in done.stdout
    assert done.stdout.count("as it must be") == 16
    assert done.stdout.count("tried in a copy and dropped") == 2 * 3  # as it happens, and in the table of times
    assert "3 a worker  <- here" in done.stdout
    assert "deleted not_found 404" in done.stdout


@pytest.mark.parametrize(
    "harm",
    [
        "echo x >> README.md",
        "chmod 644 .env",
        "touch windows.txt",
        "touch empty",
        "ln -sfn elsewhere dangling",
        "rmdir empty",
        "rm var/data.db-wal",
        "git add NOTES",
        "git branch another",
        "git stash drop",
        "git config some.key value",
        "git update-index --assume-unchanged README.md",
        "git -C vendored add lib.c",
        "rm .git/index",
    ],
)
def test_the_proof_of_the_demo_sees(demo: ModuleType, world: object, harm: str) -> None:
    before = demo.fingerprint(world)
    assert demo.differences(before, demo.fingerprint(world)) == []
    world.call("sh", "-c", harm)  # type: ignore[attr-defined]
    assert demo.differences(before, demo.fingerprint(world)) != []
