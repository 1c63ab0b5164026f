"""Rows 26 and 27: modes, links, empty directories, times, special files; bytes that git would convert.

Does not cover: names (see test_rows_names_and_sizes).
"""

from __future__ import annotations

import os
import socket
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support import tree
from tests.support.cli import Home, Project, make_executable
from tests.support.content import BINARY, damage, make_dirty

row = pytest.mark.row
KINDS = pytest.mark.parametrize("kind", ["repo", "plain"])


@pytest.fixture
def project(request: pytest.FixtureRequest, kind: str) -> Project:
    found: Project = request.getfixturevalue(kind)
    return found


# Row 26.


@row(26)
@KINDS
def test_every_type_of_damage_is_put_back_exactly(project: Project) -> None:
    if project.exists(".git"):
        make_dirty(project)
        project.write("docs/größe.md", "again\n")
    kept = project.checkpoint()
    then = project.moment()
    damage(project)
    project.tb("restore", kept)
    assert then.changes() == []


@row(26)
@KINDS
@pytest.mark.parametrize("mode", [0o600, 0o400, 0o000, 0o777, 0o444, 0o755, 0o1644, 0o4711, 0o2750, 0o6755])
def test_all_permission_bits_of_a_file_come_back(project: Project, mode: int) -> None:
    project.write("src/key", "secret\n")
    os.chmod(project.at("src/key"), mode)
    kept = project.checkpoint()
    then = project.moment()
    os.chmod(project.at("src/key"), 0o666)
    project.write("src/key", "overwritten\n")
    project.tb("restore", kept)
    assert then.changes() == []
    os.unlink(project.at("src/key"))
    project.tb("restore", kept)
    assert then.changes() == []


@row(26)
@KINDS
@pytest.mark.parametrize("mode", [0o700, 0o500, 0o555, 0o1777, 0o2775, 0o711])
def test_all_permission_bits_of_a_directory_come_back(project: Project, mode: int) -> None:
    for path in ("d/file", "d/below/file"):
        project.write(path, "x")
    os.makedirs(project.at("d/hollow"))
    for path in ("d/below", "d/hollow", "d"):
        os.chmod(project.at(path), mode)
    kept = project.checkpoint()
    then = project.moment()
    project.sh("chmod -R u+rwx d; rm -r d")
    project.tb("restore", kept)
    assert then.changes() == []
    project.sh("chmod -R u+rwx d; echo y > d/below/file; rm -r d/hollow")
    project.tb("restore", kept)
    assert then.changes() == []


@row(26)
@KINDS
def test_a_private_key_is_never_readable_by_others_while_it_is_restored(project: Project) -> None:
    project.write("src/key", "secret\n", mode=0o600)
    kept = project.checkpoint()
    os.unlink(project.at("src/key"))
    project.tb("restore", kept)
    assert stat.S_IMODE(os.stat(project.at("src/key")).st_mode) == 0o600
    for directory, names, files in os.walk(project.home.data):
        for name in [*names, *files]:
            found = os.lstat(os.path.join(directory, name))
            top = os.lstat(project.home.data)
            assert stat.S_IMODE(top.st_mode) == 0o700 or not found.st_mode & 0o077, (directory, name)


@row(26)
@KINDS
@pytest.mark.parametrize(
    "stamp", [0, 1, 86_400_000_000_000, 1_000_000_000_999_999_999, 2**31 * 10**9 + 5, 4_102_444_800_000_000_001]
)
def test_mtimes_come_back_to_the_nanosecond(project: Project, stamp: int) -> None:
    for path in ("src/app.py", "link-dangling", "empty", "src/lib"):
        os.utime(project.at(path), ns=(stamp, stamp), follow_symlinks=False)
    kept = project.checkpoint()
    then = project.moment()
    project.write("src/app.py", "x")
    project.sh("rm link-dangling; rmdir empty; rm -r src/lib")
    project.tb("restore", kept)
    assert then.changes() == []


@row(26)
@KINDS
def test_a_file_that_was_only_touched_gets_its_mtime_back(project: Project) -> None:
    kept = project.checkpoint()
    then = project.moment()
    project.sh("touch src/app.py README.md keys; touch -h link-dangling")
    project.tb("restore", kept)
    assert then.changes() == []


@row(26)
@KINDS
@pytest.mark.parametrize(
    "target", [b"nowhere", b"..", b".", b"/", b"src/app.py", b"loop", b"a\nb", b"\xff\xfe", b"x" * 4000, b"../" * 30]
)
def test_symlinks_come_back_and_are_never_followed(project: Project, target: bytes) -> None:
    os.symlink(target, project.at("src/loop"))
    kept = project.checkpoint()
    then = project.moment()
    os.unlink(project.at("src/loop"))
    project.write("src/loop", "a file now")
    project.tb("restore", kept)
    assert then.changes() == []
    os.unlink(project.at("src/loop"))
    os.makedirs(project.at("src/loop/directory"))
    project.tb("restore", kept)
    assert then.changes() == []


@row(26)
@KINDS
@pytest.mark.parametrize("verb", ["restore", "undo"])
def test_a_directory_that_became_a_link_out_of_the_tree_is_not_written_through(
    project: Project, tmp_path: Path, verb: str
) -> None:
    outside = tmp_path / "outside"
    (outside / "lib").mkdir(parents=True)
    (outside / "app.py").write_text("not yours\n")
    outside_then = tree.fingerprint(outside)
    kept = project.checkpoint()
    then = project.moment()
    if verb == "restore":
        project.sh(f"rm -r src; ln -s '{outside}' src")
        project.tb("restore", kept)
    else:
        project.step(f"rm -r src; ln -s '{outside}' src")
        project.tb("undo")
    assert then.changes() == []
    assert tree.difference(outside_then, tree.fingerprint(outside)) == []


@row(26)
@KINDS
def test_a_file_that_became_a_hard_link_to_one_outside_is_not_written_through(project: Project, tmp_path: Path) -> None:
    outside = tmp_path / "outside.txt"
    outside.write_text("not yours\n")
    kept = project.checkpoint()
    then = project.moment()
    os.unlink(project.at("README.md"))
    os.link(outside, project.at("README.md"))
    project.tb("restore", kept)
    assert then.changes() == []
    assert outside.read_text() == "not yours\n"


@row(26)
@KINDS
def test_empty_directories_come_back(project: Project) -> None:
    os.makedirs(project.at("src/a/b/c"), mode=0o750)
    os.chmod(project.at("src/a"), 0o711)
    kept = project.checkpoint()
    then = project.moment()
    project.sh("rmdir src/a/b/c src/a/b src/a; rmdir empty; mkdir another; rm -r very; echo > very")
    project.tb("restore", kept)
    assert then.changes() == []


@row(26)
@KINDS
@pytest.mark.parametrize("verb", ["restore", "undo"])
def test_a_file_that_became_a_directory_and_back_is_put_back(project: Project, verb: str) -> None:
    then = project.moment()
    kept = project.checkpoint()
    script = (
        "rm README.md; mkdir README.md; echo i > README.md/in; rm -r src/lib; echo f > src/lib;"
        "rm -r docs; ln -s src docs"
    )
    if verb == "restore":
        project.sh(script)
        later = project.checkpoint()
        later_then = project.moment()
        project.tb("restore", kept)
        assert then.changes() == []
        project.tb("restore", later)
        assert later_then.changes() == []
    project.step(script) if verb == "undo" else None
    project.tb("undo") if verb == "undo" else project.tb("restore", kept)
    assert then.changes() == []


def make_fifo(project: Project, path: str) -> None:
    os.mkfifo(project.at(path), 0o620)


def make_socket(project: Project, path: str) -> None:
    here = os.getcwd()
    os.chdir(os.path.dirname(project.at(path)))  # a socket's path may not be long
    try:
        with socket.socket(socket.AF_UNIX) as one:
            one.bind(os.path.basename(path))
    finally:
        os.chdir(here)


@row(26)
@KINDS
@pytest.mark.parametrize("make", [make_fifo, make_socket])
@pytest.mark.parametrize("path", ["src/pipe", "alone/pipe"])
def test_a_fifo_or_socket_is_named_not_read_and_stays(
    project: Project, make: Callable[[Project, str], None], path: str
) -> None:
    project.write("alone/x")
    os.unlink(project.at("alone/x"))
    make(project, path)
    made = project.tb("checkpoint")
    assert path.encode() in made.paths("not_covered")
    then = project.moment()
    damage(project)
    project.tb("restore", made["id"])
    assert then.changes() == []


@row(26)
@KINDS
def test_a_fifo_made_after_the_checkpoint_neither_hangs_nor_is_lost(project: Project) -> None:
    kept = project.checkpoint()
    make_fifo(project, "src/pipe")
    there = tree.node(project.at("src/pipe"))
    project.write("README.md", "x")
    done = project.tb("restore", kept)
    assert project.exists("src/pipe") and tree.node(project.at("src/pipe")) == there
    assert b"src/pipe" in done.paths("not_covered") or "src/pipe" in done.text


@row(26)
def test_an_ordinary_user_gets_modes_and_read_only_directories_back(user: Home, tmp_path: Path) -> None:
    from tests.support.content import fill_repository

    project = fill_repository(user, user.path.parent / "project")
    project.write("locked/file", "x\n")
    os.chmod(project.at("locked/file"), 0o400)
    os.chmod(project.at("locked"), 0o500)
    kept = project.checkpoint()
    then = project.moment()
    project.sh("chmod 700 locked; rm -rf locked keys; echo x > src/app.py; chmod 777 bin/run.sh")
    project.tb("restore", kept)
    assert then.changes() == []


@row(26)
def test_a_file_the_user_may_not_read_is_named_and_neither_lost_nor_changed(user: Home) -> None:
    from tests.support.content import fill_repository

    project = fill_repository(user, user.path.parent / "project")
    project.write("sealed.txt", "nobody reads this\n", mode=0o000)
    made = project.tb("checkpoint", check=False)
    if made.code != 0:
        assert "sealed.txt" in made.text and made.error == "cannot-read"
        return
    assert b"sealed.txt" in made.paths("not_covered")
    then = project.moment()
    project.write("README.md", "x\n")
    project.tb("restore", made["id"])
    assert then.changes() == []


# Row 27: bytes that git would convert.

MARK = "filter-ran"


def text_auto(project: Project) -> None:
    project.write(".gitattributes", "* text=auto\n")


def eol_crlf(project: Project) -> None:
    project.write(".gitattributes", "*.txt text eol=crlf\n*.md text eol=lf\n")


def autocrlf(project: Project) -> None:
    project.git("config", "core.autocrlf", "true")
    project.git("config", "core.safecrlf", "true")


def ident(project: Project) -> None:
    project.write(".gitattributes", "*.py ident\n*.txt ident\n")


def encoding(project: Project) -> None:
    project.write(".gitattributes", "*.u16 text working-tree-encoding=UTF-16\n")


def shell_filter(project: Project) -> None:
    script = project.home.path / "filter.sh"
    make_executable(script, f"#!/bin/sh\ntouch '{project.home.path}/{MARK}'\ntr a-zA-Z b-zaB-ZA\n")
    project.git("config", "filter.caesar.clean", str(script))
    project.git("config", "filter.caesar.smudge", "tr b-zaB-ZA a-zA-Z")
    project.write(".gitattributes", "*.txt filter=caesar\n")


def lossy_filter(project: Project) -> None:
    project.git("config", "filter.strip.clean", f"touch '{project.home.path}/{MARK}'; sed /secret/d")
    project.git("config", "filter.strip.smudge", "cat")
    project.write(".gitattributes", "* filter=strip\n")


def broken_filter(project: Project) -> None:
    project.git("config", "filter.broken.clean", f"touch '{project.home.path}/{MARK}'; false")
    project.git("config", "filter.broken.smudge", "false")
    project.git("config", "filter.broken.required", "true")
    project.write(".gitattributes", "*.txt filter=broken\n")


def process_filter(project: Project) -> None:
    project.git("config", "filter.lfs.process", f"touch '{project.home.path}/{MARK}'; exit 1")
    project.git("config", "filter.lfs.required", "true")
    project.write(".gitattributes", "*.bin filter=lfs diff=lfs merge=lfs -text\n*.txt filter=lfs\n")


def user_wide_attributes(project: Project) -> None:
    attributes = project.home.path / "attributes"
    attributes.write_text("* text=auto eol=crlf\n")
    project.git("config", "core.attributesFile", str(attributes))


def info_attributes(project: Project) -> None:
    project.write(".git/info/attributes", "* text eol=lf ident\n")


CONVERSIONS: list[Callable[[Project], None]] = [
    text_auto,
    eol_crlf,
    autocrlf,
    ident,
    encoding,
    shell_filter,
    lossy_filter,
    broken_filter,
    process_filter,
    user_wide_attributes,
    info_attributes,
]

CONTENT = {
    "crlf.txt": b"one\r\ntwo\r\n",
    "mixed.txt": b"one\r\ntwo\nthree\r",
    "lf.txt": b"one\ntwo\n",
    "no-end.txt": b"one\r\ntwo",
    "ident.py": b"# $Id$\n# $Id: 0123456789 expanded by hand $\n",
    "secret.txt": b"open\nsecret\nopen\n",
    "text.u16": "Größe\r\n".encode("utf-16"),
    "not.u16": b"\xff\xfe odd length",
    "blob.bin": BINARY,
    "pointer.bin": b"version https://git-lfs.example/spec/v1\noid sha256:0\nsize 1\n",
    "nul.txt": b"a\0b\r\n",
}


@row(27)
@pytest.mark.parametrize("where", ["tracked", "untracked"])
@pytest.mark.parametrize("conversion", CONVERSIONS)
def test_bytes_come_back_exactly_whatever_git_would_convert(
    repo: Project, conversion: Callable[[Project], None], where: str
) -> None:
    folder = "conv" if where == "tracked" else "scratch"
    for name, content in CONTENT.items():
        repo.write(f"{folder}/{name}", content)
    if where == "tracked":
        repo.git("add", "-A")
        repo.git("commit", "-q", "-m", "before the conversion was set up")
    conversion(repo)
    repo.age(*(f"{folder}/{name}" for name in CONTENT))
    mark = repo.home.path / MARK
    kept = repo.checkpoint()
    assert not mark.exists(), "a checkpoint ran the user's filter"
    files = repo.tree()
    repo.sh(f"rm -r {folder}; mkdir {folder}; echo x > {folder}/crlf.txt; echo y > README.md")
    repo.tb("restore", kept)
    assert not mark.exists(), "a restore ran the user's filter"
    assert tree.difference(files, repo.tree()) == []
    step = repo.step(f"for f in {folder}/*; do printf more >> $f; done; rm {folder}/text.u16")
    repo.tb("undo", step)
    assert not mark.exists(), "an undo ran the user's filter"
    assert tree.difference(files, repo.tree()) == []


@row(27)
def test_an_undo_that_merges_keeps_each_lines_ending(repo: Project) -> None:
    lines = [f"line {number}\r\n".encode() for number in range(30)]
    repo.write("README.md", b"".join(lines))
    repo.git("config", "core.autocrlf", "true")
    step = repo.step("sed -i '2s/.*/by step\\r/' README.md")
    repo.write("README.md", repo.read("README.md") + b"by hand\n")
    repo.tb("undo", step)
    assert repo.read("README.md") == b"".join(lines) + b"by hand\n"
