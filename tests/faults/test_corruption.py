"""Damage to everything takeback keeps, and to the project's own repository: found, named, and the rest still restored.

Does not cover: a store changed by somebody who wants to deceive; object names are checked, but nothing is signed.
"""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.cli import Project
from tests.support.content import damage
from tests.support.tree import fingerprint

from .killing import doctor_says, leftovers

GARBAGE = b"\x00\xffnot what it was\n" * 300


class Private:
    """Paths of one project's private data."""

    def __init__(self, project: Project) -> None:
        (self.project,) = (project.home.data / "projects").iterdir()
        (self.worktree,) = (self.project / "worktrees").iterdir()
        self.store = self.project / "store.git"

    def git(self, *args: str, feed: bytes | None = None) -> bytes:
        argv = ["git", "-C", str(self.store), *args]
        return subprocess.run(argv, input=feed, capture_output=True, check=True).stdout

    def object_of(self, id: str, path: str) -> Path:
        """Return the loose object of a file in a checkpoint; packs are unpacked for it."""
        self.unpack()
        oid = self.git("rev-parse", f"refs/checkpoints/{id}:files/{path}").decode().strip()
        return self.store / "objects" / oid[:2] / oid[2:]

    def unpack(self) -> None:
        aside = self.project / "aside"
        for keep in (self.store / "objects" / "pack").glob("*.keep"):
            keep.unlink()
        for pack in (self.store / "objects" / "pack").glob("*.pack"):
            aside.mkdir(exist_ok=True)
            for one in pack.parent.glob(pack.stem + ".*"):
                one.rename(aside / one.name)
            self.git("unpack-objects", "-q", feed=(aside / pack.name).read_bytes())
        shutil.rmtree(aside, ignore_errors=True)


def _break(path: Path, how: str) -> None:
    os.chmod(path, 0o644) if path.exists() else None
    if how == "deleted":
        path.unlink()
    elif how == "truncated":
        data = path.read_bytes()
        path.write_bytes(data[: len(data) // 2])
    elif how == "emptied":
        path.write_bytes(b"")
    elif how == "zeroed":
        path.write_bytes(b"\0" * path.stat().st_size)
    else:
        assert how == "garbage"
        path.write_bytes(GARBAGE)


def _saves_and_restores(project: Project) -> None:
    """A new checkpoint holds all of the tree and can be restored, and nothing is left that is not well."""
    id = project.checkpoint("-m", "after the damage")
    was = project.moment()
    damage(project)
    project.write(".env", "wrong\n")
    project.tb("restore", id, "--yes")
    assert was.changes() == []
    project.tb("undo", "--yes")
    project.tb("redo", "--yes")
    assert was.changes() == []


# -- objects -------------------------------------------------------------------------------------------------------


ANY_HARM = pytest.mark.parametrize(
    "how",
    ["truncated", *(pytest.param(one, marks=pytest.mark.long) for one in ("deleted", "garbage", "emptied", "zeroed"))],
)


@ANY_HARM
def test_a_damaged_object_is_named_never_restored_and_saved_again(repo: Project, how: str) -> None:
    first = repo.checkpoint()
    old = repo.read("src/app.py")
    private = Private(repo)
    broken = private.object_of(first, "src/app.py")
    repo.write("src/app.py", "another content\n")
    second = repo.checkpoint()
    _break(broken, how)
    found = doctor_says(repo)
    assert any(one.startswith("checkpoints") and f"{first}:" in one for one in found), found
    assert not any(f"{second}:" in one for one in found), found
    before = repo.moment()
    result = repo.tb("restore", first, "--yes", check=False)
    assert result.error == "damaged", result.text
    assert before.changes() == []
    assert leftovers(repo) == []
    # What is whole can still be had.
    repo.write("src/lib/util.py", "wrecked\n")
    repo.tb("restore", first, "src/lib/util.py")
    assert repo.read("src/lib/util.py") == b"def one():\n    return 1\n"
    repo.tb("restore", second, "--yes")
    # The same content, met again, is written again: it mends the old checkpoint too.
    repo.write("src/app.py", old)
    third = repo.checkpoint()
    repo.write("src/app.py", "wrecked\n")
    repo.tb("restore", third, "--yes")
    assert repo.read("src/app.py") == old
    repo.tb("restore", first, "--yes")
    assert repo.read("src/app.py") == old
    assert doctor_says(repo) == []


@pytest.mark.parametrize("how", ["deleted", "truncated", "zeroed"])
def test_a_damaged_object_of_an_unchanged_file_is_saved_again_after_doctor_fix(repo: Project, how: str) -> None:
    first = repo.checkpoint()
    _break(Private(repo).object_of(first, "src/app.py"), how)
    assert doctor_says(repo) != []
    repo.tb("doctor", "--fix", check=False)
    repo.write("src/lib/util.py", "new\n")
    second = repo.checkpoint()
    was = repo.moment()
    damage(repo)
    repo.tb("restore", second, "--yes")
    assert was.changes() == []
    assert doctor_says(repo) == []


def test_a_damaged_object_of_other_valid_content_is_not_restored(repo: Project) -> None:
    first = repo.checkpoint()
    private = Private(repo)
    broken = private.object_of(first, "src/app.py")
    other = private.object_of(first, "src/lib/util.py")
    repo.write("src/app.py", "another content\n")
    os.chmod(broken, 0o644)
    shutil.copyfile(other, broken)
    before = repo.moment()
    result = repo.tb("restore", first, "--yes", check=False)
    assert result.error == "damaged", result.text
    assert before.changes() == []
    assert any(f"{first}:" in one for one in doctor_says(repo))


def test_a_damaged_tree_does_not_hide_the_other_checkpoints(repo: Project) -> None:
    first = repo.checkpoint()
    private = Private(repo)
    broken = private.object_of(first, "src")
    was = repo.moment()
    repo.write("src/app.py", "another content\n")
    repo.write("src/new.py", "new\n")
    second = repo.checkpoint()
    now = repo.moment()
    _break(broken, "zeroed")
    assert any(f"{first}:" in one for one in doctor_says(repo))
    assert repo.tb("restore", first, "--yes", check=False).error == "damaged"
    assert now.changes() == []
    damage(repo)
    repo.tb("restore", second, "--yes")
    assert now.changes() == []
    assert was.changes() != []
    _saves_and_restores(repo)


def test_a_truncated_pack_loses_no_file_that_is_still_there(repo: Project) -> None:
    for number in range(400):
        repo.write(f"many/{number}", f"content {number}\n")
    repo.git("add", "many")
    repo.git("commit", "-q", "-m", "many")
    repo.checkpoint()
    packs = list((Private(repo).store / "objects" / "pack").glob("*.pack"))
    assert packs
    for pack in packs:
        data = pack.read_bytes()
        pack.unlink()  # it is the project's own too, by a hard link
        pack.write_bytes(data[: len(data) // 2])
    assert doctor_says(repo) != []
    repo.tb("doctor", "--fix", check=False)
    _saves_and_restores(repo)


# -- files beside the store ----------------------------------------------------------------------------------------


@ANY_HARM
@pytest.mark.parametrize("name", ["timeline.sqlite", "project.json"])
def test_a_damaged_file_of_the_project_is_made_again_from_the_store(repo: Project, name: str, how: str) -> None:
    first = repo.checkpoint()
    was = repo.moment()
    step = repo.step("echo wrecked > src/app.py")
    events = [(one["id"], one["kind"]) for one in repo.tb("log")["events"]]
    path = Private(repo).project / name
    for end in ("-wal", "-shm"):
        Path(f"{path}{end}").unlink(missing_ok=True)
    _break(path, how)
    assert [(one["id"], one["kind"]) for one in repo.tb("log")["events"]] == events
    repo.tb("undo", step)
    assert was.changes() == []
    damage(repo)
    repo.tb("restore", first, "--yes")
    assert was.changes() == []
    _saves_and_restores(repo)
    assert doctor_says(repo) == []


@ANY_HARM
@pytest.mark.parametrize("name", ["cursor.json", "files.index", "state.sqlite"])
def test_a_damaged_cache_is_made_again(repo: Project, name: str, how: str) -> None:
    first = repo.checkpoint()
    was = repo.moment()
    repo.write("src/app.py", "changed\n")
    repo.write(".env", "changed\n")
    path = Private(repo).worktree / name
    assert path.exists()
    _break(path, how)
    now = repo.moment()
    second = repo.checkpoint()
    repo.tb("restore", first, "--yes")
    assert was.changes() == []
    repo.tb("restore", second, "--yes")
    assert now.changes() == []
    _saves_and_restores(repo)
    assert doctor_says(repo) == []


@pytest.mark.parametrize("text", ["[]", "{}", '{"format": 1}', '{"format": 99}', "null", '{"format":1,"tree":5}'])
def test_a_cursor_of_another_shape_is_made_again(repo: Project, text: str) -> None:
    repo.checkpoint()
    (Private(repo).worktree / "cursor.json").write_text(text)
    repo.write("src/app.py", "changed\n")
    _saves_and_restores(repo)


def test_pages_in_the_middle_of_the_state_cache_may_be_damaged(repo: Project) -> None:
    for number in range(3000):
        repo.write(f"build/{number % 50}/{number}", f"{number}\n")
    repo.checkpoint()
    path = Private(repo).worktree / "state.sqlite"
    data = bytearray(path.read_bytes())
    assert len(data) > 40_000
    data[8192 : len(data) - 4096] = b"\xa5" * (len(data) - 12288)
    path.write_bytes(data)
    repo.write("build/7/7", "changed\n")
    _saves_and_restores(repo)


def test_a_lock_that_a_killed_git_left_on_the_private_index_is_no_obstacle(repo: Project) -> None:
    repo.checkpoint()
    lock = Private(repo).worktree / "files.index.lock"
    lock.touch()
    # New rules make the index change.
    repo.write(".gitignore", "*.log\nbuild/\n.env\n/ignored-dir/\nscratch/\n")
    _saves_and_restores(repo)
    assert not lock.exists()


@pytest.mark.parametrize("text", [GARBAGE.decode("latin-1"), "[]", "{}", "", '{"git": []}', '{"git": {"refs": []}}'])
def test_a_garbage_journal_is_named_and_set_aside_by_doctor(repo: Project, text: str) -> None:
    first = repo.checkpoint()
    was = repo.moment()
    journal = Private(repo).worktree / "journal.json"
    journal.write_text(text, encoding="latin-1")
    result = repo.tb("checkpoint", check=False)
    assert result.error == "damaged", result.text
    assert "doctor --fix" in result.text
    assert doctor_says(repo) != []
    repo.tb("doctor", "--fix", check=False)
    assert not journal.exists()
    damage(repo)
    repo.tb("restore", first, "--yes")
    assert was.changes() == []
    assert doctor_says(repo) == []


# -- refs of the store ---------------------------------------------------------------------------------------------


def test_a_deleted_checkpoint_ref_is_named_and_the_rest_works(repo: Project) -> None:
    first = repo.checkpoint()
    was = repo.moment()
    repo.write("src/app.py", "second\n")
    second = repo.checkpoint()
    Private(repo).git("update-ref", "-d", f"refs/checkpoints/{second}")
    found = doctor_says(repo)
    assert any(second in one for one in found), found
    damage(repo)
    repo.tb("restore", first, "--yes")
    assert was.changes() == []
    _saves_and_restores(repo)


@pytest.mark.long
def test_after_every_checkpoint_ref_is_deleted_new_checkpoints_work_and_ids_are_new(repo: Project) -> None:
    old = {repo.checkpoint()}
    repo.write("src/app.py", "second\n")
    old.add(repo.checkpoint())
    private = Private(repo)
    for ref in private.git("for-each-ref", "--format=%(refname)").decode().split():
        private.git("update-ref", "-d", ref)
    assert doctor_says(repo) != []
    private.git("gc", "-q", "--prune=now")
    repo.tb("doctor", "--fix", check=False)
    repo.write("src/app.py", "third\n")
    assert repo.checkpoint() not in old
    _saves_and_restores(repo)


def test_a_deleted_timeline_ref_loses_no_event(repo: Project) -> None:
    repo.checkpoint()
    was = repo.moment()
    repo.step("echo wrecked > src/app.py")
    events = [(one["id"], one["kind"]) for one in repo.tb("log")["events"]]
    Private(repo).git("update-ref", "-d", "refs/checkpoints/timeline")
    found = doctor_says(repo)
    assert any(one.startswith("timeline") for one in found), found
    assert [(one["id"], one["kind"]) for one in repo.tb("log")["events"]] == events
    repo.tb("undo")
    assert was.changes() == []
    more = [(one["id"], one["kind"]) for one in repo.tb("log")["events"]]
    assert more[-len(events) :] == events and len(more) > len(events)
    # And the store alone is enough again.
    repo.tb("doctor", "--rebuild")
    assert [(one["id"], one["kind"]) for one in repo.tb("log")["events"]] == more
    assert doctor_says(repo) == []


def test_a_timeline_ref_of_nonsense_is_named(repo: Project) -> None:
    first = repo.checkpoint()
    was = repo.moment()
    (Private(repo).store / "refs/checkpoints/timeline").write_text("0123456789" * 4 + "\n")
    assert any(one.startswith("timeline") for one in doctor_says(repo))
    damage(repo)
    repo.tb("doctor", "--fix", check=False)
    repo.tb("restore", first, "--yes")
    assert was.changes() == []


# -- the project's own repository ----------------------------------------------------------------------------------


CLEANINGS: dict[str, str] = {
    "gc --prune=now": "git reflog expire --expire=now --all && git gc -q --prune=now",
    "repack -ad": "git repack -adq",
    "prune": "git prune --expire=now",
    "no objects": "rm -r .git/objects",
    "no repository": "rm -r .git",
}


@pytest.mark.parametrize("cleaning", sorted(CLEANINGS))
def test_what_happens_to_the_projects_objects_harms_no_checkpoint(repo: Project, cleaning: str) -> None:
    repo.write("staged.txt", "only in the index\n")
    repo.git("add", "staged.txt")
    repo.write("src/app.py", "stashed\n")
    repo.git("stash", "push", "-q")
    repo.git("switch", "-q", "-c", "gone-soon")
    repo.git("commit", "-q", "--allow-empty", "-m", "on a branch that goes")
    repo.git("switch", "-q", "main")
    id = repo.checkpoint()
    was = repo.moment()
    damage(repo)
    repo.git("stash", "drop", "-q")
    repo.git("branch", "-q", "-D", "gone-soon")
    repo.git("rm", "-q", "--cached", "staged.txt", check=False)
    repo.sh(CLEANINGS[cleaning])
    if cleaning == "no objects":
        os.makedirs(repo.at(".git/objects"))
    repo.tb("restore", id, "--refs", "--yes")
    assert was.changes() == []
    assert repo.git("fsck", "--connectivity-only") is not None
    _saves_and_restores(repo)
    assert doctor_says(repo) == []


def test_a_project_whose_objects_are_gone_is_still_saved_and_restored(repo: Project, tmp_path: Path) -> None:
    repo.checkpoint()
    shutil.rmtree(repo.at(".git/objects"))
    os.makedirs(repo.at(".git/objects"))
    repo.write("src/app.py", "changed\n")
    files = repo.tree()
    id = repo.checkpoint()
    damage(repo)
    repo.tb("restore", id, "--yes")
    assert repo.tree() == files


# -- a store from the future ---------------------------------------------------------------------------------------


def _from_the_future(repo: Project) -> None:
    path = Private(repo).project / "project.json"
    data = json.loads(path.read_text())
    path.write_text(json.dumps({**data, "format": 99}))


def test_a_store_of_a_newer_version_is_read_and_never_written(repo: Project, tmp_path: Path) -> None:
    repo.step("echo wrecked > src/app.py")
    id = repo.checkpoint()
    was = repo.moment()
    _from_the_future(repo)
    damage(repo)
    damaged = repo.moment()
    data = fingerprint(repo.home.data)
    for args in (("checkpoint",), ("undo",), ("redo",), ("restore", id, "--yes"), ("gc",), ("run", "--", "true")):
        result = repo.tb(*args, check=False)
        assert result.error == "store-too-new", (args, result.text)
        assert "99" in result.text and "update takeback" in result.text
    assert damaged.changes() == []
    repo.tb("log")
    repo.tb("show", id)
    repo.tb("status")
    repo.tb("du")
    repo.tb("restore", id, "--to", str(tmp_path / "copy"))
    copy = repo.home.project(tmp_path / "copy").moment()
    assert {path: one.content for path, one in copy.files.items()} == {
        path: one.content for path, one in was.files.items()
    }
    changed = {path for path, one in fingerprint(repo.home.data).items() if data.get(path) != one and one.content}
    assert {path for path in changed if not path.endswith((b"-shm", b"-wal", b"/lock"))} == set()


def _tamper(path: Path, change: Callable[[sqlite3.Connection], None]) -> None:
    db = sqlite3.connect(path)
    change(db)
    db.commit()
    db.close()


def test_a_timeline_with_a_changed_byte_is_named_by_doctor_and_made_again(repo: Project) -> None:
    repo.checkpoint()
    was = repo.moment()
    repo.step("echo wrecked > src/app.py")
    _tamper(
        Private(repo).project / "timeline.sqlite",
        lambda db: db.execute("UPDATE events SET body = CAST('x' || body AS BLOB)") and None,
    )
    assert any(one.startswith("timeline") for one in doctor_says(repo))
    repo.tb("doctor", "--rebuild")
    repo.tb("undo")
    assert was.changes() == []
    assert doctor_says(repo) == []
