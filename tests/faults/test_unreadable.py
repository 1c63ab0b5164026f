"""What an ordinary user may not read or write, and a project that changes while it is read.

Does not cover: access control lists.
"""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.cli import Home, Project, wait_for
from tests.support.content import fill_repository
from tests.support.tree import difference

from .killing import doctor_says, leftovers


def _project(user: Home) -> Project:
    top = user.path.parent / "work"
    top.mkdir()
    if user.account.uid is not None and user.account.gid is not None:
        os.chown(top, user.account.uid, user.account.gid)
    return fill_repository(user, top / "project")


def _closed(project: Project) -> list[str]:
    result: list[str] = []
    for path in ("keys/id", ".env"):
        os.chmod(project.at(path), 0)
        result.append(path)
    for path in ("src/lib", "ignored-dir"):
        os.chmod(project.at(path), 0)
        result.append(path)
    return result


def test_what_cannot_be_read_is_named_and_never_deleted(user: Home) -> None:
    project = _project(user)
    closed = _closed(project)
    result = project.tb("checkpoint")
    named = result.paths("not_covered")
    for path in closed:
        assert any(one == path.encode() or one.startswith(path.encode() + b"/") for one in named), (path, named)
    for path in closed:
        os.chmod(project.at(path), 0o755)
    kept = {path: project.read(path) for path in ("keys/id", ".env", "src/lib/util.py")}
    for path in closed:
        os.chmod(project.at(path), 0)
    project.write("src/app.py", "wrecked\n")
    project.tb("restore", result["id"], "--yes", check=False)
    assert project.read("src/app.py") != b"wrecked\n"
    for path in closed:
        assert stat.S_IMODE(os.lstat(project.at(path)).st_mode) == 0
        os.chmod(project.at(path), 0o755)
    assert {path: project.read(path) for path in kept} == kept


def test_a_file_that_becomes_unreadable_is_put_back_by_undo(user: Home) -> None:
    project = _project(user)
    project.checkpoint()
    was = project.moment()
    project.step("chmod 000 keys/id src/app.py .env; chmod 500 src/lib; chmod 000 data")
    project.tb("undo")
    assert was.changes() == []


def test_a_read_only_folder_is_written_in_and_stays_read_only(user: Home) -> None:
    project = _project(user)
    os.chmod(project.at("src/lib"), 0o555)
    id = project.checkpoint()
    was = project.moment()
    os.chmod(project.at("src/lib"), 0o755)
    project.write("src/lib/util.py", "wrecked\n")
    os.unlink(project.at("src/lib/deep/er/leaf.txt"))
    os.chmod(project.at("src/lib"), 0o555)
    project.tb("restore", id, "--yes")
    assert was.changes() == []
    project.tb("undo")
    project.tb("redo")
    assert was.changes() == []


def test_a_read_only_project_is_saved_and_a_restore_is_refused_before_the_first_write(user: Home) -> None:
    project = _project(user)
    first = project.checkpoint()
    was = project.moment()
    project.write("src/app.py", "changed\n")
    project.write("README.md", "changed\n")
    os.chown(project.root, 0, 0) if os.getuid() == 0 else os.chmod(project.root, 0o555)
    changed = project.moment()
    second = project.checkpoint()
    result = project.tb("restore", first, "--yes", check=False)
    if os.getuid() == 0:
        assert result.error == "cannot-write", result.text
        assert "README.md" in result.text or project.root in result.text
        assert changed.changes() == []
        os.chown(project.root, *_owner(user))
    os.chmod(project.root, 0o755)
    assert leftovers(project) == []
    project.tb("restore", first, "--yes")
    assert difference(was.files, project.tree()) == []
    project.tb("restore", second, "--yes")
    assert project.read("README.md") == b"changed\n"


def _owner(user: Home) -> tuple[int, int]:
    assert user.account.uid is not None and user.account.gid is not None
    return user.account.uid, user.account.gid


def test_a_folder_of_somebody_else_is_named_before_the_first_write(user: Home) -> None:
    project = _project(user)
    id = project.checkpoint()
    project.write("data/windows.txt", "changed\n")
    project.write("src/app.py", "changed\n")
    if os.getuid() != 0:
        return
    os.chown(project.at("data"), 0, 0)
    os.chmod(project.at("data"), 0o755)
    changed = project.moment()
    result = project.tb("restore", id, "--yes", check=False)
    assert result.error == "cannot-write", result.text
    assert "data" in result.text
    assert changed.changes() == []
    assert leftovers(project) == []
    os.chown(project.at("data"), *_owner(user))
    project.tb("restore", id, "--yes")
    assert project.read("src/app.py") != b"changed\n"


_WRITER = """
import os, random, shutil, sys
root, stop, log = sys.argv[1:]
choose = random.Random(1)
os.chdir(root)
number = 0
open(stop + ".ready", "w").close()
while not os.path.exists(stop):
    number += 1
    name = f"race/{choose.randint(0, 9)}"
    text = (f"{number} " * choose.choice((1, 50, 4000)) + "end\\n").encode()
    kind = choose.randint(0, 5)
    try:
        if os.path.isdir(name) and not os.path.islink(name):
            shutil.rmtree(name)
        if kind == 0:
            if os.path.lexists(name):
                os.unlink(name)
            os.symlink(f"target {number}", name)
        elif kind == 1:
            if os.path.lexists(name):
                os.unlink(name)
            os.mkdir(name)
            with open(name + "/inner.tmp", "wb") as file:
                file.write(text)
            os.rename(name + "/inner.tmp", name + "/inner")
        elif kind == 2:
            os.rename(name, f"race/{choose.randint(0, 9)}")
        elif kind == 3 and os.path.lexists(name):
            os.unlink(name)
        else:
            with open("race/new.tmp", "wb") as file:
                file.write(text)
            os.rename("race/new.tmp", name)
    except OSError:
        pass
"""


@pytest.mark.long
def test_checkpoints_of_a_project_that_changes_all_the_time_hold_only_whole_versions(repo: Project) -> None:
    os.makedirs(repo.at("race"))
    repo.checkpoint()
    stop = repo.home.path / "stop"
    argv = [sys.executable, "-c", _WRITER, repo.root, str(stop), ""]
    writer = subprocess.Popen(argv, env=repo.home.env())
    ids = []
    try:
        wait_for(Path(f"{stop}.ready").exists)
        for number in range(8):
            repo.write("src/app.py", f"{number}\n")
            ids.append((repo.checkpoint(), number))
    finally:
        stop.touch()
        writer.wait(timeout=60)
    for id, number in ids:
        repo.tb("restore", id, "--yes")
        assert repo.read("src/app.py") == f"{number}\n".encode()
        for folder, _, files in os.walk(repo.at("race")):
            for name in files:
                path = os.path.join(folder, name)
                if os.path.islink(path) or name.endswith(b".tmp"):
                    continue
                words = Path(os.fsdecode(path)).read_bytes().split()
                assert words[-1] == b"end" and len(set(words[:-1])) == 1, path
    assert doctor_says(repo) == []


def test_a_file_written_in_place_all_the_time_is_right_once_it_rests(repo: Project) -> None:
    stop = repo.home.path / "stop"
    code = (
        "import os, sys\nn = 0\nfd = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)\nopen(sys.argv[2] + '.ready', 'w')\n"
        "while not os.path.exists(sys.argv[2]):\n    n += 1\n    os.pwrite(fd, b'%09d' % n * 500, 0)\n"
    )
    argv = [sys.executable, "-c", code, os.fsdecode(repo.at("hot.bin")), str(stop)]
    writer = subprocess.Popen(argv, env=repo.home.env())
    try:
        wait_for(Path(f"{stop}.ready").exists)
        for _ in range(4):
            repo.checkpoint()
    finally:
        stop.touch()
        writer.wait(timeout=60)
    rest = repo.moment()
    id = repo.checkpoint()
    repo.write("hot.bin", "wrecked\n")
    repo.tb("restore", id, "--yes")
    assert rest.changes() == []
