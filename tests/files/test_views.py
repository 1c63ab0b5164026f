"""Looking at what is no longer all there."""

from __future__ import annotations

from tests.files.conftest import Open
from tests.support.cli import Project


def test_an_undo_is_shown_after_gc_removed_its_checkpoints(plain: Project, opened: Open) -> None:
    project = opened(plain)
    with project.step("write"):
        plain.write("README.md", "other\n")
    plain.write("more", "more\n")
    undone = project.undo().id
    plain.write("more", "and more\n")
    project.checkpoint()
    project.gc(keep=1)
    event, checkpoint, changes = project.show(undone)
    assert (event.id, checkpoint, changes) == (undone, None, [])
    assert event.data["removed"] in (event.before, event.after)
