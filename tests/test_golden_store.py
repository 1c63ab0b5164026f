"""A store written by format version 1 is opened, restored and gone on with for ever."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import pytest

from tests.golden.make_store import describe, describe_git

ARCHIVE = Path(__file__).parent / "golden" / "store-v1.tar.gz"


@pytest.fixture
def old(tmp_path: Path) -> Path:
    with tarfile.open(ARCHIVE) as archive:
        # Python 3.11.2 of Debian 12 has no filters yet, and no need of one: the archive is ours.
        known = {"filter": "fully_trusted"} if hasattr(tarfile, "fully_trusted_filter") else {}
        archive.extractall(tmp_path, **known)
    return tmp_path


def tb(old: Path, *args: str) -> dict[str, Any]:
    env = {"PATH": os.environ["PATH"], "HOME": os.fspath(old), "TAKEBACK_HOME": os.fspath(old / "data")}
    head, *rest = args
    done = subprocess.run(
        [sys.executable, "-m", "takeback", head, "--json", *rest], cwd=old, env=env, capture_output=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return dict(json.loads(done.stdout))


def test_every_checkpoint_of_a_version_1_store_is_restored_exactly(old: Path) -> None:
    expected = json.loads((old / "expected.json").read_text())
    assert len(expected) == 2
    for id, wanted in expected.items():
        target = old / f"restored-{id}"
        tb(old, "restore", id, "--to", os.fspath(target))
        assert describe(os.fsencode(target)) == wanted["tree"]
        assert describe_git(target) == wanted["git"]


def test_the_timeline_of_a_version_1_store_is_read_and_made_again_from_the_store_alone(old: Path) -> None:
    project = json.loads(next((old / "data" / "projects").glob("*/project.json")).read_text())["roots"][0]
    os.makedirs(old / "elsewhere")
    # The project itself is long gone: its folder is named as it was.
    kinds = [event["kind"] for event in tb(old, "log", "--project", project)["events"]]
    assert {"checkpoint", "step", "undo"} <= set(kinds)
    for database in (old / "data").glob("projects/*/timeline.sqlite*"):
        database.unlink()
    assert [event["kind"] for event in tb(old, "log", "--project", project)["events"]] == kinds
