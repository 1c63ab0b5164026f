"""Fixtures of all tests: a private home, a repository with mixed content, a plain folder, an ordinary user."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.support.cli import Account, Home, Project
from tests.support.content import fill_plain, fill_repository, new_home

SOURCE = Path(__file__).resolve().parents[1] / "src"


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "row(number): the row of the table of reported faults that the test holds")


@pytest.fixture
def home(tmp_path: Path) -> Home:
    """A private home of whoever runs the tests."""
    me = pwd.getpwuid(os.getuid())
    return new_home(tmp_path / "home", Account(me.pw_name, tmp_path / "home"))


@pytest.fixture
def repo(home: Home, tmp_path: Path) -> Project:
    """A git repository with commits, branches, a tag, ignored and untracked files of every type; nothing staged."""
    return fill_repository(home, tmp_path / "project")


@pytest.fixture
def plain(home: Home, tmp_path: Path) -> Project:
    """A folder with the same kinds of files and no git."""
    return fill_plain(home, tmp_path / "folder")


@pytest.fixture
def user() -> Iterator[Home]:
    """The home of an ordinary user, made for this test when root runs it."""
    if os.getuid() != 0:
        top = Path(tempfile.mkdtemp(prefix="tb-user-"))
        yield new_home(top / "home", Account(pwd.getpwuid(os.getuid()).pw_name, top / "home"))
        shutil.rmtree(top)
        return
    name = f"tb{os.getpid()}"
    # Not below tmp_path: pytest makes that 0700 for root, where another account cannot go.
    top = Path(tempfile.mkdtemp(prefix="tb-user-"))
    os.chmod(top, 0o755)
    subprocess.run(["useradd", "-M", "-d", str(top / "home"), name], check=True, capture_output=True)
    try:
        found = pwd.getpwnam(name)
        account = Account(name, top / "home", found.pw_uid, found.pw_gid)
        made = new_home(top / "home", account)
        _give_python(made, account)
        yield made
    finally:
        _end_all_of(name)
        subprocess.run(["userdel", name], check=False, capture_output=True)
        shutil.rmtree(top)


def _end_all_of(name: str) -> None:
    """End what a failed test has left of a user, who could not be removed with it."""
    uid = pwd.getpwnam(name).pw_uid
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if entry.stat().st_uid == uid:
                os.kill(int(entry.name), signal.SIGKILL)


def _give_python(home: Home, account: Account) -> None:
    """Find an interpreter this account may run: root's own may lie below /root."""
    libraries = [str(SOURCE), *(one for one in sys.path if one.endswith("site-packages"))]
    home.extra["PYTHONPATH"] = os.pathsep.join(libraries)
    home.extra["PYTHONDONTWRITEBYTECODE"] = "1"
    for python in (sys.executable, "/usr/bin/python3"):
        try:
            tried = subprocess.run(
                [python, "-c", "import sys, takeback; assert sys.version_info >= (3, 11)"],
                cwd="/",
                env=home.env(),
                capture_output=True,
                **account.process(),
            )
        except OSError:
            continue
        if tried.returncode == 0:
            home.python = (python,)
            return
    pytest.skip("no python >= 3.11 that an ordinary user may run")
