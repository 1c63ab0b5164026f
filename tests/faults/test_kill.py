"""kill -9 between any two writes of a restore, an undo, a redo and a checkpoint.

Does not cover: the loss of power, which also loses writes that were made.
"""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.cli import Account, Moment, Project
from tests.support.content import damage, fill_repository, make_dirty, new_home
from tests.support.tree import difference

from .killing import Killer, World, doctor_says, leftovers

_SAMPLE = 3


@dataclass
class Scene:
    """One command to be killed, the state before it and the state it leads to."""

    world: World
    killer: Killer
    command: tuple[str, ...]
    before: Moment
    target: Moment
    kind: str
    way_back: Callable[[Project], None]

    @property
    def project(self) -> Project:
        return self.world.project

    def count(self) -> int:
        self.world.again()
        return self.killer.count(self.project, *self.command)


def _world(tmp_path: Path) -> World:
    top = tmp_path / "world"
    top.mkdir()
    me = Account(os.environ.get("USER", "somebody"), top / "home")
    home = new_home(top / "home", me)
    project = fill_repository(home, top / "project")
    return World(home, project, top, tmp_path / "saved")


def _wreck(project: Project) -> None:
    make_dirty(project)
    damage(project)
    project.write(".env", "TOKEN=2\n")
    os.unlink(project.at("build/out/app.o"))
    project.write("build/out/other.o", "other")
    project.git("branch", "made-by-agent")
    project.git("tag", "-d", "light")
    project.write("README.md/inside", "staged\n")
    project.git("add", "-A", "src")
    project.git("stash", "push", "-q", "--", "src/app.py")
    project.write("src/app.py", "after the stash\n")


def _restore(tmp_path: Path) -> Scene:
    world = _world(tmp_path)
    project = world.project
    id = project.checkpoint()
    target = project.moment()
    _wreck(project)
    before = project.moment()
    world.save()
    return Scene(
        world, Killer(world.home, tmp_path), ("restore", id, "--refs", "--yes"), before, target, "restore",
        lambda project: _ok(project.tb("undo", "--yes")),
    )  # fmt: skip


def _undo(tmp_path: Path) -> Scene:
    scene = _restore(tmp_path)
    project = scene.project
    scene.world.again()
    project.tb("restore", scene.command[1], "--refs", "--yes")
    target = project.moment()
    script = tmp_path / "wreck.sh"
    # The step is this same test's own damage, done by a child of `takeback run`.
    script.write_text(
        f"cd {project.root}; printf changed > README.md; rm -r src/lib/deep; chmod 600 bin/run.sh; "
        "ln -sf other link-to-file; mkdir new; echo new > new/file; echo T=3 > .env; git add -A; "
        "git commit -q -m by-the-agent; git branch other; echo more >> README.md; git add README.md; "
        "echo x >> src/app.py; git stash push -q -- src/app.py\n"
    )
    project.step(f"sh {script}")
    before = project.moment()
    scene.world.save()
    return Scene(
        scene.world, scene.killer, ("undo", "--yes"), before, target, "undo",
        lambda project: _ok(project.tb("redo", "--yes")),
    )  # fmt: skip


def _redo(tmp_path: Path) -> Scene:
    scene = _undo(tmp_path)
    scene.world.again()
    scene.project.tb("undo", "--yes")
    before = scene.project.moment()
    scene.world.save()
    return Scene(
        scene.world, scene.killer, ("redo", "--yes"), before, scene.before, "redo",
        lambda project: _ok(project.tb("undo", "--yes")),
    )  # fmt: skip


def _ok(result: object) -> None:
    assert result is not None


SCENES = {"restore": _restore, "undo": _undo, "redo": _redo}


def _points(total: int, seed: str) -> list[int]:
    """One write in each of some equal parts of a command."""
    choose = random.Random(seed)
    return [choose.randint(1 + total * part // _SAMPLE, total * (part + 1) // _SAMPLE) for part in range(_SAMPLE)]


def _kill_and_look(scene: Scene, at: int) -> None:
    scene.world.again()
    project = scene.project
    where = scene.killer.kill(project, at, *scene.command)
    assert where, f"{scene.kind} makes fewer than {at} writes"
    project.tb("checkpoint")
    behind, ahead = scene.before.changes(), scene.target.changes()
    assert not behind or not ahead, f"killed at {where}: neither as before {behind} nor as wanted {ahead}"
    assert leftovers(project) == [], where
    assert doctor_says(project) == [], where
    done = [event for event in project.tb("log")["events"] if event["kind"] == scene.kind]
    if not ahead:
        assert done, f"killed at {where}: it is done but not in the timeline"
        scene.way_back(project)
        assert scene.before.changes() == [], where
    else:
        assert not done, f"killed at {where}: it is in the timeline but not done"
        project.tb(*scene.command)
        assert scene.target.changes() == [], where


@pytest.fixture
def scene(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Scene]:
    yield SCENES[request.param](tmp_path)


@pytest.mark.parametrize("scene", sorted(SCENES), indirect=True)
def test_a_command_killed_at_some_writes_is_finished_or_never_happened(scene: Scene) -> None:
    for at in _points(scene.count(), scene.kind):
        _kill_and_look(scene, at)


@pytest.mark.long
@pytest.mark.parametrize("scene", sorted(SCENES), indirect=True)
def test_a_command_killed_at_any_write_is_finished_or_never_happened(scene: Scene) -> None:
    wrong = []
    scene.count()
    for at in scene.killer.different():
        try:
            _kill_and_look(scene, at)
        except AssertionError as error:
            wrong.append(f"{at}: {error}")
    assert wrong == []


def _first(tmp_path: Path) -> tuple[World, Killer]:
    world = _world(tmp_path)
    world.save()
    return world, Killer(world.home, tmp_path)


def _later(tmp_path: Path) -> tuple[World, Killer]:
    """Enough changes for the private index to be written again, and a change in each part of a checkpoint."""
    world = _world(tmp_path)
    project = world.project
    for number in range(12):
        project.write(f"folder{number}/file", f"{number}\n")
    project.checkpoint()
    for number in range(12):
        project.write(f"folder{number}/file", f"changed {number}\n")
        project.write(f"more{number}/file", f"new {number}\n")
    _wreck(project)
    project.age("src/app.py", ".env", "more3/file", "folder3/file", days=1)
    world.save()
    return world, Killer(world.home, tmp_path)


CHECKPOINTS = {"first": _first, "later": _later}


def _kill_checkpoint_and_look(world: World, killer: Killer, at: int, copy: Path) -> None:
    world.again()
    project = world.project
    was = project.moment()
    where = killer.kill(project, at, "checkpoint")
    assert where, f"a checkpoint makes fewer than {at} writes"
    assert was.changes() == [], where
    assert list(Path(project.root).glob(".git/*.lock")) == [], where
    id = project.checkpoint()
    assert was.changes() == [], where
    assert leftovers(project) == [], where
    assert doctor_says(project) == [], where
    project.tb("restore", id, "--to", str(copy))
    try:
        again = world.home.project(copy).moment()
        assert difference(was.files, again.files) == [], where
    finally:
        shutil.rmtree(copy)
    # The caches of the scan, which the killed command may have moved, must show the next change too.
    project.write("src/app.py", "changed again\n")
    project.write(".env", "changed again\n")
    now = project.moment()
    project.tb("restore", id, "--refs", "--yes")
    assert was.changes() == [], where
    project.tb("undo", "--yes")
    assert now.changes() == [], where


@pytest.mark.parametrize("which", sorted(CHECKPOINTS))
def test_a_checkpoint_killed_at_some_writes_costs_nothing(which: str, tmp_path: Path) -> None:
    world, killer = CHECKPOINTS[which](tmp_path)
    world.again()  # a copy's files are all new to the cursor, as they are at each kill
    total = killer.count(world.project, "checkpoint")
    for at in _points(total, which):
        _kill_checkpoint_and_look(world, killer, at, tmp_path / "copy")


@pytest.mark.long
@pytest.mark.parametrize("which", sorted(CHECKPOINTS))
def test_a_checkpoint_killed_at_any_write_costs_nothing(which: str, tmp_path: Path) -> None:
    world, killer = CHECKPOINTS[which](tmp_path)
    world.again()
    killer.count(world.project, "checkpoint")
    wrong = []
    for at in killer.different():
        try:
            _kill_checkpoint_and_look(world, killer, at, tmp_path / "copy")
        except AssertionError as error:
            wrong.append(f"{at}: {error}")
    assert wrong == []


def test_a_killed_restore_is_not_taken_for_an_earlier_one_that_changed_nothing(tmp_path: Path) -> None:
    world = _world(tmp_path)
    project = world.project
    first = project.checkpoint()
    target = project.moment()
    _wreck(project)
    second = project.checkpoint()
    project.tb("restore", second, "--refs", "--yes")
    killer = Killer(world.home, tmp_path)
    world.save()
    world.again()
    killer.count(project, "restore", first, "--refs", "--yes")
    # In the middle of the visible changes, with the same own checkpoint as the restore that changed nothing.
    renames = [number for number, one in enumerate(killer.writes(), 1) if "/project/.takeback-stage" in one]
    world.again()
    assert killer.kill(project, renames[-3], "restore", first, "--refs", "--yes")
    project.tb("checkpoint")
    assert target.changes() == []
    assert doctor_says(project) == []


def test_work_done_in_a_half_restored_tree_is_in_a_checkpoint(tmp_path: Path) -> None:
    world = _world(tmp_path)
    project = world.project
    first = project.checkpoint()
    target = project.moment()
    _wreck(project)
    world.save()
    killer = Killer(world.home, tmp_path)
    world.again()
    killer.count(project, "restore", first, "--refs", "--yes")
    renames = [number for number, one in enumerate(killer.writes(), 1) if "/project/.takeback-stage" in one]
    world.again()
    killer.kill(project, renames[-3], "restore", first, "--refs", "--yes")
    project.write("src/lib/util.py", "an hour of work\n")
    project.tb("checkpoint")
    assert target.changes() == []
    (found,) = [event["id"] for event in project.tb("log")["events"] if event["text"].startswith("half of")]
    project.tb("restore", found, "src/lib/util.py")
    assert project.read("src/lib/util.py") == b"an hour of work\n"
