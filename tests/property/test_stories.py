"""Stories that once did not equal the model, as short as they still tell it; each is played with git and without."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from tests.property.world import Pool, World

Story = list[tuple[Any, ...]]

STORIES: dict[str, Story] = {
    "a folder that ignores all it holds is ignored by a rule above it as well": [
        ("change", ("rules", b"d/.gitignore", b"*\n")),
        ("checkpoint", "A", True),
        ("change", ("rules", b".gitignore", b"d/\n*.log\nbuild/\n.env\n")),
        ("checkpoint", "A", True),
        ("change", ("delete", b"d")),
        ("restore", 1, False, ()),
    ],
    "a checkpoint is told of an ignored file": [
        ("step", "A", True, (), ()),
        ("checkpoint", "A", True, (b"build/o",)),
        ("change", ("write", b"build/o", 0)),
        ("restore", 1, False, ()),
        ("undo", None, None, False, False),
    ],
    "a checkpoint is told of an ignored file that comes later": [
        ("step", "A", True, (), ()),
        ("checkpoint", "A", True, (b"build",)),
        ("checkpoint", "A", True, (b"t.log", b"d/t.log")),
        ("change", ("write", b"t.log", 1)),
        ("change", ("write", b"build/o", 1)),
        ("restore", 2, False, ()),
        ("undo", None, None, False, False),
    ],
    "nothing has changed between checkpoints of other paths": [
        ("checkpoint", "A", True),
        ("checkpoint", "A", True, (b"a.txt",)),
        ("checkpoint", "A", True, (b"d/x",)),
        ("change", ("write", b"d/x", 1)),
        ("restore", 2, False, ()),
        ("checkpoint", "A", False, (b"d/x",)),
        ("checkpoint", "A", False),
    ],
    "an empty folder in an ignored one is ignored": [
        ("change", ("rules", b".gitignore", b"*.log\nbuild/*\n!build/o\n.env\nnew/\n")),
        ("step", "A", False, (), (("mkdir", b"new/one"),)),
        ("undo", "A", None, False, False),
    ],
    "a step without state makes rules that ignore themselves": [
        ("step", "A", False, (), (("rules", b".gitignore", b"*\n"),)),
        ("change", ("edit", b"d/x", 0)),
        ("undo", "A", None, False, False),
        ("redo", "A", None, False, False),
    ],
    "a step without state takes away rules that ignored themselves": [
        ("change", ("rules", b".gitignore", b"*\n")),
        ("step", "A", False, (), (("rules", b".gitignore", b"*.log\n"),)),
        ("undo", "A", None, False, False),
        ("redo", "A", None, False, False),
    ],
    "a checkpoint without state was taken under rules that ignored themselves": [
        ("change", ("rules", b".gitignore", b"*\n")),
        ("checkpoint", "A", False),
        ("change", ("rules", b".gitignore", b"*.log\n")),
        ("restore", 0, False, ()),
    ],
    "a folder's rules ignored themselves": [
        ("checkpoint", "A", True),
        ("change", ("rules", b"d/.gitignore", b"*\n")),
        ("change", ("write", b"d/new", 1)),
        ("checkpoint", "A", False),
        ("change", ("rules", b"d/.gitignore", b"*.log\n")),
        ("restore", 1, False, ()),
    ],
    "excludes outside the tree were others": [
        ("change", ("exclude", b"top\n")),
        ("checkpoint", "A", False),
        ("change", ("exclude", b"")),
        ("restore", 0, False, ()),
    ],
    "a checkpoint told of an ignored folder is one that was there already": [
        ("checkpoint", "A", True, (b"build/o",)),
        ("checkpoint", "A", True, (b"build",)),
    ],
}


@pytest.fixture(scope="module")
def pools() -> Iterator[dict[bool, Pool]]:
    """Projects for all stories, so that they age together."""
    with tempfile.TemporaryDirectory(prefix="tb-property-") as folder:
        top = Path(os.path.realpath(folder))
        yield {with_git: Pool(top / str(with_git), with_git, len(STORIES)) for with_git in (True, False)}


@pytest.mark.parametrize("with_git", [True, False], ids=["repository", "folder"])
@pytest.mark.parametrize("story", STORIES.values(), ids=STORIES.keys())
def test_a_story_equals_the_model(story: Story, with_git: bool, pools: dict[bool, Pool]) -> None:
    pool = pools[with_git]
    root = pool.take()
    with mock.patch.dict(os.environ, pool.env, clear=True):
        world = World(root, pool.env, pool.blank)
        try:
            for move in story:
                world.play(move)
        finally:
            world.close()
            pool.remove(root)
