"""Stories that once did not equal the model, as short as they still tell it; each is played with git and without."""

from __future__ import annotations

import os
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
}


@pytest.mark.parametrize("with_git", [True, False], ids=["repository", "folder"])
@pytest.mark.parametrize("story", STORIES.values(), ids=STORIES.keys())
def test_a_story_equals_the_model(story: Story, with_git: bool, top: Path) -> None:
    pool = Pool(top, with_git, 1)
    root = pool.take()
    with mock.patch.dict(os.environ, pool.env, clear=True):
        world = World(root, pool.env, pool.blank)
        try:
            for move in story:
                world.play(move)
        finally:
            world.close()
            pool.remove(root)
