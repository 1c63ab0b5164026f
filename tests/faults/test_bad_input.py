"""Requests that cannot be meant and machines that are not set up: a clear error, the documented exit code, no change.

Does not cover: the options of single commands (`tests/cli`).
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.cli import Home, Project, Result, make_executable
from tests.support.content import fill_plain, fill_repository
from tests.support.tree import fingerprint

from .killing import doctor_says


def _refused(project: Project, result: Result, kind: str, code: int, *said: str) -> None:
    assert (result.error, result.code) == (kind, code), result.text
    for words in said:
        assert words in result.text, result.text
    assert "Traceback" not in result.text


UNKNOWN = [("restore", "c99"), ("show", "c99"), ("diff", "c99"), ("undo", "s99"), ("redo", "s99")]
NO_IDS = ["", " ", "c", "c1 ", "C1", "c-1", "c01", "x1", "refs/heads/main", "HEAD", "../c1", "c1\nc2", "ĉ1", "c" * 5000]


@pytest.mark.parametrize("args", UNKNOWN)
def test_an_unknown_id_is_named_with_the_nearest(repo: Project, args: tuple[str, ...]) -> None:
    repo.step("echo changed > src/app.py")
    before = repo.moment()
    _refused(repo, repo.tb(*args, check=False), "unknown-id", 2, args[1])
    assert before.changes() == []


@pytest.mark.parametrize(
    "id",
    [*(one if at % 3 == 0 else pytest.param(one, marks=pytest.mark.long) for at, one in enumerate(NO_IDS)), "--"],
)
def test_what_is_no_id_is_refused(repo: Project, id: str) -> None:
    repo.checkpoint()
    repo.write("src/app.py", "changed\n")
    before = repo.moment()
    result = repo.tb("restore", "--", id, check=False)
    assert result.code == 2, result.text
    assert "Traceback" not in result.text
    assert before.changes() == []


def test_an_id_of_two_projects_outside_both_is_ambiguous(home: Home, tmp_path: Path) -> None:
    ids = []
    for name in ("one", "two"):
        project = fill_repository(home, tmp_path / name)
        ids.append(project.checkpoint())
        shutil.rmtree(project.root)
    assert ids[0] == ids[1]
    elsewhere = home.project(home.path)
    result = elsewhere.tb("restore", ids[0], "--to", str(tmp_path / "copy"), check=False)
    _refused(elsewhere, result, "ambiguous-id", 2, str(tmp_path / "one"), str(tmp_path / "two"), "--project")
    assert not (tmp_path / "copy").exists()


@pytest.mark.parametrize("path", ["/etc/passwd", "../other", "src/../../other", "/"])
def test_a_path_outside_the_project_is_refused(repo: Project, path: str) -> None:
    id = repo.checkpoint()
    before = repo.moment()
    _refused(repo, repo.tb("restore", id, path, check=False), "outside-project", 2, path)
    _refused(repo, repo.tb("diff", id, id, path, check=False), "outside-project", 2, path)
    assert before.changes() == []


def test_a_path_through_a_link_out_of_the_project_is_refused(repo: Project, tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "file").write_text("theirs\n")
    os.symlink(tmp_path / "outside", repo.at("out"))
    id = repo.checkpoint()
    result = repo.tb("restore", id, "out/file", check=False)
    _refused(repo, result, "outside-project", 2)
    assert (tmp_path / "outside" / "file").read_text() == "theirs\n"


def test_newlines_and_odd_bytes_in_arguments_are_kept_as_they_are(repo: Project) -> None:
    name = b"new\nline \xff\x1b[31m"
    repo.write(name, "odd\n")
    id = repo.checkpoint("-m", "two\nlines\x1b[31m \udcff")
    repo.write(name, "wrecked\n")
    repo.tb("restore", id, name)
    assert repo.read(name) == b"odd\n"
    assert b"\x1b[31m" not in repo.tb("log", as_json=False).out
    repo.tb("run", "--session", "a\nb", "-m", "c\nd", "--", "echo x > " + "src/app.py")
    repo.tb("undo", "--session", "a\nb")
    assert doctor_says(repo) == []


def test_a_nul_from_a_program_that_uses_the_library_is_refused(repo: Project) -> None:
    code = (
        "from takeback import Project\n"
        "with Project.open() as p:\n"
        "    id = p.checkpoint('nul \\0 in text').id\n"
        "    try:\n        p.restore(id, ['a\\0b'])\n    except Exception as e:\n        print(type(e).__name__)\n"
    )
    out = repo.home.call(repo.root, *repo.home.python, "-c", code)
    assert out.strip() == b"UsageError"
    assert doctor_says(repo) == []


def _path_without_git(repo: Project) -> str:
    folder = repo.home.path / "no-git"
    folder.mkdir()
    for name in ("sh", "echo", "cat"):
        os.symlink(shutil.which(name) or "/bin/sh", folder / name)
    return str(folder)


def test_without_git_it_is_said_and_nothing_is_changed(repo: Project) -> None:
    id = repo.checkpoint()
    repo.write("src/app.py", "changed\n")
    before = repo.moment()
    env = {"PATH": _path_without_git(repo)}
    for args in (("checkpoint",), ("undo",), ("restore", id), ("run", "--", "echo x > src/app.py"), ("status",)):
        _refused(repo, repo.tb(*args, env=env, check=False), "git-missing", 1, "install git")
    assert before.changes() == []
    assert repo.home.tb(repo.root, "--version", env=env, as_json=False).code == 0


def test_without_git_doctor_still_says_what_is_missing(repo: Project) -> None:
    repo.checkpoint()
    result = repo.tb("doctor", env={"PATH": _path_without_git(repo)}, check=False)
    assert result.code == 1 and "install git" in result.text, result.text
    assert "Traceback" not in result.text


@pytest.mark.parametrize(("answer", "kind"), [("git version 2.30.2", "git-too-old"), ("nonsense", "git-failed")])
def test_a_git_that_is_too_old_is_said_and_nothing_is_changed(repo: Project, answer: str, kind: str) -> None:
    repo.checkpoint()
    repo.write("src/app.py", "changed\n")
    before = repo.moment()
    folder = repo.home.path / "old-git"
    folder.mkdir()
    real = shutil.which("git")
    text = f'#!/bin/sh\nif [ "$1" = --version ]; then echo "{answer}"; exit 0; fi\nexec {real} "$@"\n'
    make_executable(folder / "git", text)
    env = {"PATH": f"{folder}{os.pathsep}{os.environ['PATH']}"}
    for args in (("checkpoint",), ("undo",), ("run", "--", "echo x > src/app.py")):
        _refused(repo, repo.tb(*args, env=env, check=False), kind, 1)
    assert before.changes() == []


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[checkpoint]\nmax_sise = 5\n", ("line 2", "max_size")),
        ("[checkpoint]\n\nmax_size = 'lots'\n", ("line 3", "max_size")),
        ("[chekpoint]\nmax_size = 5\n", ("line 1", "checkpoint")),
        ("[checkpoint\n", ("line 1",)),
        ("checkpoint = 5\n", ("line 1", "[checkpoint]")),
        ("[checkpoint]\ndelete_share = 7\n", ("line 2", "delete_share")),
        ("\udcff\n", ("UTF-8",)),
    ],
)
@pytest.mark.parametrize("where", [pytest.param("user", marks=pytest.mark.long), "project"])
def test_a_wrong_setting_is_named_by_file_and_line(repo: Project, where: str, text: str, said: tuple[str, ...]) -> None:
    path = repo.home.settings if where == "user" else Path(repo.root) / ".takeback.toml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode("utf-8", "surrogateescape"))
    before = repo.moment()
    for args in (("checkpoint",), ("run", "--", "echo x > src/app.py"), *((("undo",),) if where == "user" else ())):
        _refused(repo, repo.tb(*args, check=False), "bad-setting", 2, str(path), *said)
    assert before.changes() == []


@pytest.mark.parametrize("text", ["[checkpoint\n", pytest.param("[chekpoint]\nmax_size = 5\n", marks=pytest.mark.long)])
def test_a_step_that_broke_the_projects_settings_is_taken_back(repo: Project, text: str) -> None:
    source = f"import os\nopen('.take' 'back.toml', 'w').write({text!r})\nos.remove('src/app.py')\n"
    repo.write("wreck.py", source)
    before = repo.moment()
    repo.step(f"{sys.executable} wreck.py")
    for args in (("status",), ("doctor",)):
        looked = repo.tb(*args, check=False)
        assert ".takeback.toml" in looked.text and not looked.text.startswith("Traceback"), args
    undone = repo.tb("undo")
    assert ".takeback.toml" in undone.text and before.changes() == []


def test_a_data_directory_that_cannot_be_written_is_named(user: Home) -> None:
    project = fill_repository(user, user.path / "project")
    if os.getuid() != 0:
        os.chmod(user.path, 0o555)
    else:
        user.data.mkdir(mode=0o755)
    before = project.moment()
    for args in (("checkpoint",), ("undo",), ("run", "--", "echo x > src/app.py"), ("status",)):
        _refused(project, project.tb(*args, check=False), "cannot-write", 1, str(user.data), "TAKEBACK_HOME")
    assert before.changes() == []
    os.chmod(user.path, 0o755)


def test_private_data_that_became_read_only_is_named_and_nothing_is_changed(user: Home) -> None:
    project = fill_repository(user, user.path / "project")
    id = project.checkpoint()
    project.write("src/app.py", "changed\n")
    before = project.moment()
    paths = list(user.data.rglob("*"))
    modes = {path: path.stat().st_mode & 0o777 for path in paths}
    for path in paths:
        if not path.is_symlink():
            path.chmod(0o555 if path.is_dir() else 0o444)
    for args in (("checkpoint",), ("restore", id, "--yes"), ("run", "--", "echo x > src/app.py")):
        result = project.tb(*args, check=False)
        assert result.code == 1 and result.error in ("cannot-write", "git-failed"), result.text
        assert "Traceback" not in result.text
    assert before.changes() == []
    for path, mode in modes.items():
        if path.exists():
            path.chmod(mode)
    project.tb("restore", id, "--yes")
    assert doctor_says(project) == []


def test_a_data_directory_that_is_a_file_is_named(repo: Project) -> None:
    repo.home.data.write_text("a file\n")
    _refused(repo, repo.tb("checkpoint", check=False), "cannot-write", 1, str(repo.home.data))


def test_in_a_folder_that_was_deleted_the_project_is_found_or_it_is_said(repo: Project) -> None:
    id = repo.checkpoint()
    was = repo.moment()
    python = repo.home.python[0]
    for script, folder in (("rm -r ../deep", "src/lib/deep"), (f"rm -r {repo.root}", "src")):
        done = subprocess.run(
            ["sh", "-c", f"{script}; exec {python} -m takeback restore {id} --yes --json"],
            cwd=repo.at(folder),
            env={**repo.home.env(), "PWD": os.fsdecode(repo.at(folder))},
            capture_output=True,
            timeout=300,
        )
        assert b"Traceback" not in done.stderr, done.stderr
        assert done.returncode == 0, (done.stdout, done.stderr)
        assert was.changes() == []


def test_in_a_deleted_folder_of_no_project_it_is_said(home: Home, tmp_path: Path) -> None:
    folder = tmp_path / "soon-gone"
    folder.mkdir()
    done = subprocess.run(
        ["sh", "-c", f"rmdir {folder}; exec {home.python[0]} -m takeback checkpoint --json"],
        cwd=folder,
        env={**home.env(), "PWD": str(folder)},
        capture_output=True,
        timeout=300,
    )
    assert done.returncode == 2 and b"no-project" in done.stdout, (done.stdout, done.stderr)


def test_without_home_the_data_directory_still_decides(repo: Project) -> None:
    env = {name: value for name, value in repo.home.env().items() if name != "HOME"}
    argv = [*repo.home.python, "-m", "takeback", "checkpoint", "--json"]
    done = subprocess.run(argv, cwd=repo.root, env=env, capture_output=True, timeout=300)
    assert done.returncode == 0, (done.stdout, done.stderr)
    assert (repo.home.data / "projects").is_dir()


@pytest.mark.parametrize("what", ["a folder with files", "a file", "a dangling link"])
def test_restoring_into_what_is_there_is_refused(repo: Project, tmp_path: Path, what: str) -> None:
    id = repo.checkpoint()
    target = tmp_path / "target"
    if what == "a file":
        target.write_text("mine\n")
    elif what == "a dangling link":
        target.symlink_to(tmp_path / "nowhere")
    else:
        target.mkdir()
        (target / "mine").write_text("mine\n")
    before = fingerprint(tmp_path, skip=[b"home"], git=True)
    result = repo.tb("restore", id, "--to", str(target), check=False)
    _refused(repo, result, "path-in-use", 1, str(target))
    assert fingerprint(tmp_path, skip=[b"home"], git=True) == before


def test_a_home_directory_and_the_root_are_refused(home: Home) -> None:
    fill_plain(home, home.path)
    for folder in (str(home.path), "/"):
        result = home.tb(folder, "checkpoint", check=False)
        assert (result.error, result.code) == ("home-directory", 1), result.text
