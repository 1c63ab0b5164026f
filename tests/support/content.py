"""Makes homes and projects whose content has every type of path a checkpoint must bring back.

Does not cover: odd names and large trees; the tests that need them make them.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from .cli import Account, Home, Project

GITCONFIG = """[user]
\tname = A Developer
\temail = developer@example.invalid
[init]
\tdefaultBranch = main
[advice]
\tdetachedHead = false
[protocol "file"]
\tallow = always
"""

BINARY = bytes(range(256)) * 40


def new_home(path: Path, account: Account) -> Home:
    """Make an empty home with a git identity; owned by `account`."""
    home = Home(path, account)
    for directory in (path, home.temp):
        directory.mkdir(parents=True)
    (path / ".gitconfig").write_text(GITCONFIG, encoding="utf-8")
    if account.uid is not None and account.gid is not None:
        for one in (path, home.temp, path / ".gitconfig"):
            os.chown(one, account.uid, account.gid)
    return home


def fill_plain(home: Home, root: Path) -> Project:
    """Fill a folder with text, binary, executable, private, linked and empty things, all of an old mtime."""
    project = home.project(root)
    project.write("README.md", "# Project\n\nSome words.\n")
    project.write("src/app.py", "".join(f"line_{n} = {n}\n" for n in range(40)))
    project.write("src/lib/util.py", "def one():\n    return 1\n")
    project.write("src/lib/deep/er/leaf.txt", "leaf\n")
    project.write("bin/run.sh", "#!/bin/sh\necho run\n", mode=0o755)
    project.write("data/blob.bin", BINARY)
    project.write("data/windows.txt", b"one\r\ntwo\r\nthree\n")
    project.write("docs/größe.md", "Umlaut\n")
    project.write("keys/id", "secret\n", mode=0o600)
    for directory in ("empty", "very/empty/indeed"):
        os.makedirs(project.at(directory))
    os.chmod(project.at("empty"), 0o700)
    os.symlink("src/app.py", project.at("link-to-file"))
    os.symlink("src", project.at("link-to-directory"))
    os.symlink("not/there", project.at("link-dangling"))
    if home.account.uid is not None:
        home_owns(project)
    project.age()
    return project


def fill_repository(home: Home, root: Path) -> Project:
    """Make a git repository of the same content: three commits, branch `topic`, tags, ignored and untracked files."""
    project = fill_plain(home, root)
    project.write(".gitignore", "*.log\nbuild/\n.env\n/ignored-dir/\n")
    project.git("init", "-q", "-b", "main")
    project.git("add", "README.md", ".gitignore")
    project.git("commit", "-q", "-m", "first")
    project.git("add", "-A")
    project.git("commit", "-q", "-m", "second")
    project.git("tag", "light")
    project.git("tag", "-a", "-m", "an annotated tag", "v1")
    project.git("switch", "-q", "-c", "topic")
    project.write("topic.txt", "only on topic\n")
    project.git("add", "topic.txt")
    project.git("commit", "-q", "-m", "on topic")
    project.git("switch", "-q", "main")
    project.write("CHANGES", "third\n")
    project.git("add", "CHANGES")
    project.git("commit", "-q", "-m", "third")
    project.write("untracked.txt", "not yet added\n")
    project.write("scratch/notes.txt", "notes\n", mode=0o640)
    project.write(".env", "TOKEN=1\n", mode=0o600)
    project.write("build/out/app.o", BINARY)
    project.write("debug.log", "log\n")
    os.makedirs(project.at("ignored-dir/with/empty"))
    if home.account.uid is not None:
        home_owns(project)
    project.age()
    project.git("update-index", "-q", "--refresh")
    return project


def make_dirty(project: Project) -> None:
    """Stage one thing, change another, do both to a third, delete a fourth and stage the delete of a fifth."""
    project.write("src/lib/util.py", "def one():\n    return 11\n")
    project.git("add", "src/lib/util.py")
    lines = project.read("src/app.py").splitlines(keepends=True)
    project.write("src/app.py", b"".join([b"staged = True\n", *lines]))
    project.git("add", "src/app.py")
    project.write("src/app.py", b"".join([b"staged = True\n", *lines, b"unstaged = True\n"]))
    project.write("README.md", "# Project\n\nOther words.\n")
    os.unlink(project.at("docs/größe.md"))
    project.git("rm", "-q", "data/windows.txt")
    project.write("brand-new.txt", "new\n")
    project.git("add", "brand-new.txt")


def home_owns(project: Project) -> None:
    """Give every path of the project to the home's account."""
    account = project.home.account
    assert account.uid is not None and account.gid is not None
    for directory, names, files in os.walk(os.fsencode(project.root)):
        for path in [directory, *(os.path.join(directory, name) for name in [*names, *files])]:
            os.chown(path, account.uid, account.gid, follow_symlinks=False)


def damage(project: Project) -> None:
    """Do every kind of harm to the files both kinds of project have: edit, delete, chmod, retype, add, empty."""
    project.write("src/app.py", "wrecked\n")
    os.unlink(project.at("src/lib/util.py"))
    shutil.rmtree(project.at("src/lib/deep"))
    project.write("src/lib/deep", "a file where a directory was\n")
    os.unlink(project.at("README.md"))
    project.write("README.md/inside", "a directory where a file was\n")
    os.chmod(project.at("keys/id"), 0o644)
    os.chmod(project.at("bin/run.sh"), 0o644)
    os.unlink(project.at("link-to-file"))
    os.symlink("elsewhere", project.at("link-to-file"))
    os.unlink(project.at("link-dangling"))
    shutil.rmtree(project.at("very"))
    os.chmod(project.at("empty"), 0o755)
    project.write("empty/no-more", "full\n")
    project.write("added/by/damage.txt", "new\n")
    project.write("data/windows.txt", "one\ntwo\nthree\n")
    os.utime(project.at("data/blob.bin"))
