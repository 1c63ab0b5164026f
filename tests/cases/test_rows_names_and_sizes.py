"""Rows 8, 9, 13, 16 and 22: odd names, large things, large deletes, ignored trees.

Does not cover: rebuildable trees and their budget (see test_rows_state).
"""

from __future__ import annotations

import ctypes
import os
import struct
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.support import tree
from tests.support.cli import Home, Project

row = pytest.mark.row

NAMES: dict[str, bytes] = {
    "Chinese": "公共函数.cpp".encode(),
    "not UTF-8": b"caf\xe9.txt",
    "every high byte": bytes(range(0x80, 0x100)),
    "newline and quote": b'ne\nw"q.txt',
    "trailing newline": b"end\n",
    "control bytes": b"\x01\x02\x1b[31mred\x7f",
    "tab": b"a\tb",
    "carriage return": b"a\rb",
    "leading dash": b"-rf",
    "two dashes": b"--",
    "option with value": b"--to=x",
    "leading space": b" leading",
    "trailing space": b"trailing ",
    "only a space": b" ",
    "single quote": b"it's",
    "backslash": b"back\\slash",
    "backslash n": b"not\\na\\nnewline",
    "trailing backslash": b"end\\",
    "glob": b"*",
    "question and brackets": b"a?[b]{c,d}",
    "exclamation": b"!negated",
    "hash": b"#comment",
    "dollar": b"$HOME $(id) `id`",
    "semicolon": b"a;rm b&c|d",
    "pathspec magic": b":(top)x",
    "colon": b":x:y",
    "composed": unicodedata.normalize("NFC", "é.txt").encode(),
    "decomposed": unicodedata.normalize("NFD", "é.txt").encode(),
    "emoji": "🙂 ‮rtl".encode(),
    "as long as it gets": b"n" * 255,
    "three dots": b"...",
    "looks like an id": b"c1",
    "looks like a ref": b"HEAD",
    "percent": b"%meta",
    "tilde": b"a~1",
    "upper and lower": b"ReadMe.MD",
    "tail of git": b"x.git",
}


@row(8)
@pytest.mark.parametrize("where", ["tracked", "untracked", "ignored"])
def test_files_of_all_these_names_at_once_come_back_exactly(repo: Project, where: str) -> None:
    folder = {"tracked": b"odd", "untracked": b"loose", "ignored": b"build/odd"}[where]
    for number, name in enumerate(NAMES.values()):
        repo.write(os.path.join(folder, name), b"content of " + name, mode=0o600 + number % 64)
        repo.write(os.path.join(folder, b"below", name, name), b"deep")
    if where == "tracked":
        repo.git("add", "-A", "odd")
        repo.git("commit", "-q", "-m", "odd names")
    kept = repo.checkpoint()
    then = repo.moment()
    repo.sh(b"rm -r ./" + folder)
    for name in list(NAMES.values())[::2]:
        repo.write(os.path.join(folder, name, b"now a directory"), b"")
    done = repo.tb("restore", kept)
    assert then.changes() == []
    assert done.paths("restored") >= {os.path.join(folder, name) for name in NAMES.values()}
    step = repo.step(b"find ./" + folder + b" -type f -exec sh -c 'for f; do echo new >> \"$f\"; done' - {} +")
    repo.tb("undo", step)
    assert then.changes() == []


@row(8)
@pytest.mark.long
@pytest.mark.parametrize("where", ["tracked", "untracked", "ignored"])
@pytest.mark.parametrize("label", NAMES)
def test_a_file_of_any_name_comes_back_exactly(repo: Project, label: str, where: str) -> None:
    name = NAMES[label]
    folder = {"tracked": b"odd", "untracked": b"loose", "ignored": b"build/odd"}[where]
    path = os.path.join(folder, name)
    repo.write(path, b"content of " + name, mode=0o640)
    repo.write(os.path.join(folder, b"d", name, name), b"deep")
    if where == "tracked":
        repo.git("add", "-A", "odd")
        repo.git("commit", "-q", "-m", "odd names")
    repo.age(path)
    kept = repo.checkpoint()
    then = repo.moment()
    repo.sh(b"rm -r ./" + folder)
    repo.write(os.path.join(folder, name, b"now a directory"), b"")
    repo.tb("restore", kept)
    assert then.changes() == []


@row(8)
@pytest.mark.parametrize("label", NAMES)
def test_one_path_of_any_name_can_be_restored_alone(repo: Project, label: str) -> None:
    path = os.path.join(b"odd", NAMES[label])
    repo.write(path, b"old")
    repo.write("odd/neighbour", "old")
    kept = repo.checkpoint()
    before = tree.node(repo.at(path))
    repo.write(path, b"new")
    repo.write("odd/neighbour", "new")
    done = repo.tb("restore", kept, "--", path)
    assert tree.node(repo.at(path)) == before
    assert repo.read("odd/neighbour") == b"new"
    assert done.paths("restored") == {path}


@row(8)
@pytest.mark.parametrize("label", NAMES)
def test_a_step_that_makes_edits_and_deletes_odd_names_is_undone_exactly(repo: Project, label: str) -> None:
    name = NAMES[label]
    for folder in (b"edit", b"gone"):
        repo.write(os.path.join(folder, name), b"old\n")
    then = repo.moment()
    step = repo.step("for f in edit/* edit/.[!.]* edit/...; do [ -f \"$f\" ] && echo new >> \"$f\"; done; "
                     "cp -r gone made; rm -r gone")  # fmt: skip
    done = repo.tb("undo", step)
    assert then.changes() == []
    assert done.paths("restored") >= {os.path.join(b"edit", name), os.path.join(b"gone", name)}


@row(8)
def test_names_that_differ_only_in_case_or_normal_form_stay_apart(repo: Project) -> None:
    names = [b"A", b"a", "é".encode(), unicodedata.normalize("NFD", "é").encode(), b"\xe9"]
    for number, name in enumerate(names):
        repo.write(os.path.join(b"twins", name), str(number))
    kept = repo.checkpoint()
    then = repo.moment()
    for name in names[::2]:
        os.unlink(repo.at(os.path.join(b"twins", name)))
    for name in names[1::2]:
        repo.write(os.path.join(b"twins", name), "all alike")
    repo.tb("restore", kept)
    assert then.changes() == []


# Row 9: a home directory, too much to copy.


def size_of(home: Home) -> int:
    """Bytes on disk below takeback's data directory and the temporary directory."""
    total = 0
    for top in (home.data, home.temp):
        for directory, _, files in os.walk(top):
            total += sum(os.lstat(os.path.join(directory, name)).st_blocks * 512 for name in files)
    return total


@row(9)
@pytest.mark.parametrize("command", ["checkpoint", "run"])
@pytest.mark.parametrize("with_git", [False, True], ids=["plain", "dotfiles repository"])
def test_a_home_directory_is_refused_with_the_reason_and_nothing_is_saved(
    home: Home, command: str, with_git: bool
) -> None:
    (home.path / "photo.raw").write_bytes(os.urandom(1 << 20))
    if with_git:
        home.git(home.path, "init", "-q")
    refused = home.tb(home.path, command, *(["--", "touch ran"] if command == "run" else []), check=False)
    assert refused.code == 1 and refused.error == "home-directory"
    assert str(home.path) in refused.text
    assert size_of(home) < 1 << 20
    assert not (home.path / "ran").exists()


@row(9)
def test_the_root_directory_is_refused(home: Home) -> None:
    refused = home.tb("/", "checkpoint", check=False)
    assert refused.code == 1 and refused.error == "home-directory"


def make_huge(project: Project) -> None:
    """Make 100 GB of sparse files: they occupy nothing, but a copy of them would be seen."""
    for number in range(40):
        project.write(f"huge/{number}.img")
        os.truncate(project.at(f"huge/{number}.img"), 5 << 29)


@row(9)
@pytest.mark.parametrize("kind", ["repo", "plain"])
def test_too_much_is_refused_naming_the_biggest_paths_and_the_setting(
    request: pytest.FixtureRequest, kind: str
) -> None:
    project: Project = request.getfixturevalue(kind)
    make_huge(project)
    files = project.tree(skip={b"huge"})
    refused = project.tb("checkpoint", check=False)
    assert refused.code == 1 and refused.error == "too-big"
    assert "huge" in refused.text and "max_size" in refused.text
    assert size_of(project.home) < 4 << 20
    assert tree.difference(files, project.tree(skip={b"huge"})) == []


@row(9)
def test_a_step_whose_checkpoint_is_refused_does_not_run(repo: Project) -> None:
    make_huge(repo)
    refused = repo.tb("run", "--", "touch ran", check=False)
    assert refused.code != 0 and not repo.exists("ran")


@row(9)
@row(16)
def test_one_enormous_file_is_refused_or_named_and_never_deleted(repo: Project) -> None:
    repo.write("enormous.img")
    os.truncate(repo.at("enormous.img"), 100 << 30)
    made = repo.tb("checkpoint", check=False)
    if made.code != 0:
        assert made.error == "too-big" and "enormous.img" in made.text
        return
    assert b"enormous.img" in made.paths("not_covered")
    repo.write("README.md", "x\n")
    repo.tb("restore", made["id"])
    assert os.lstat(repo.at("enormous.img")).st_size == 100 << 30


@row(9)
def test_the_cap_is_a_setting(repo: Project) -> None:
    repo.write("big.bin", os.urandom(3 << 20))
    repo.home.set('max_size = "1M"')
    refused = repo.tb("checkpoint", check=False)
    assert refused.code == 1 and refused.error == "too-big" and "big.bin" in refused.text
    repo.home.set('max_size = "100M"')
    repo.checkpoint()


@row(9)
def test_disk_use_is_visible_and_no_temporary_pack_is_left(repo: Project) -> None:
    repo.write("big.bin", os.urandom(3 << 20))
    repo.checkpoint()
    used = repo.tb("du")
    assert any(isinstance(value, int) and value >= 3 << 20 for value in _numbers(used.json))
    leftovers = [
        name
        for top in (repo.home.data, repo.home.temp)
        for _, _, files in os.walk(top)
        for name in files
        if name.startswith("tmp_") or name.endswith(".lock")
    ]
    assert leftovers == []


def _numbers(value: object) -> Iterator[object]:
    if isinstance(value, dict):
        for item in value.values():
            yield from _numbers(item)
    elif isinstance(value, list):
        for item in value:
            yield from _numbers(item)
    else:
        yield value


# Row 13: a restore that would delete most of the project.


@row(13)
@pytest.mark.parametrize("kind", ["repo", "plain"])
def test_a_restore_that_would_delete_most_of_the_project_needs_a_yes(request: pytest.FixtureRequest, kind: str) -> None:
    project: Project = request.getfixturevalue(kind)
    kept = project.checkpoint()
    for number in range(200):
        project.write(f"work/{number % 7}/{number}.txt", str(number))
    then = project.moment()
    refused = project.tb("restore", kept, check=False)
    assert refused.code == 1 and refused.error == "too-many-deletes"
    assert "200" in refused.text and "--yes" in refused.text
    assert then.changes() == []
    shown = project.tb("restore", kept, "--dry-run")
    assert len([path for path in shown.paths("deleted") if path.endswith(b".txt")]) == 200
    assert then.changes() == []
    done = project.tb("restore", kept, "--yes")
    assert not project.exists("work")
    project.take_back(done)
    assert then.changes() == []


@row(13)
def test_an_undo_that_would_delete_most_of_the_project_needs_a_yes(repo: Project) -> None:
    then = repo.moment()
    step = repo.step("mkdir work; for n in $(seq 200); do echo $n > work/$n; done")
    after = repo.moment()
    refused = repo.tb("undo", step, check=False)
    assert refused.code == 1 and refused.error == "too-many-deletes"
    assert after.changes() == []
    repo.tb("undo", step, "--yes")
    assert then.changes() == []


# Row 16: no silent skipping by size.


@row(16)
@pytest.mark.parametrize("kind", [(), ("--no-state",)], ids=["state", "files"])
def test_large_files_are_saved_like_any_other(repo: Project, kind: tuple[str, ...]) -> None:
    repo.write("tracked.bin", os.urandom(5 << 20))
    repo.git("add", "tracked.bin")
    repo.git("commit", "-q", "-m", "5 MB")
    repo.write("tracked.bin", os.urandom(5 << 20))
    repo.write("untracked.bin", os.urandom(30 << 20))
    made = repo.tb("checkpoint", *kind)
    assert not {b"tracked.bin", b"untracked.bin"} & made.paths("not_covered")
    then = repo.moment()
    repo.write("tracked.bin", "short")
    os.unlink(repo.at("untracked.bin"))
    repo.tb("restore", made["id"])
    assert then.changes() == []


# Row 22: ignored trees.

IN_ACCESS, IN_OPEN = 0x1, 0x20


@contextmanager
def opens_seen(directories: list[bytes]) -> Iterator[list[bytes]]:
    """Collect, by inotify, which of these directories anybody opens to list them."""
    libc = ctypes.CDLL(None, use_errno=True)
    fd = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
    watched = {libc.inotify_add_watch(fd, path, IN_OPEN | IN_ACCESS): path for path in directories}
    seen: list[bytes] = []
    try:
        yield seen
        try:
            data = os.read(fd, 1 << 20)
        except BlockingIOError:
            data = b""
        while data:
            watch, _, _, length = struct.unpack_from("iIII", data)
            seen.append(watched.get(watch, b"?"))
            data = data[16 + length :]
    finally:
        os.close(fd)


@row(22)
@pytest.mark.parametrize("ignored", ["node_modules", "packages/web/node_modules", "target/debug/deps"])
def test_a_files_checkpoint_never_lists_an_ignored_tree(repo: Project, ignored: str) -> None:
    repo.write(".gitignore", "node_modules/\ntarget\n")
    repo.write("packages/web/index.js", "1\n")
    for number in range(300):
        repo.write(f"{ignored}/pkg{number % 20}/{number}.js", "x")
    inside = [repo.at(f"{ignored}/pkg{number}") for number in range(20)]
    repo.checkpoint("--no-state")
    repo.write("src/app.py", "changed\n")
    with opens_seen([*inside, repo.at(ignored)]) as seen:
        repo.checkpoint("--no-state")
    assert seen == []
    with opens_seen([repo.at("src")]) as seen:
        os.listdir(repo.at("src"))
    assert seen != []
