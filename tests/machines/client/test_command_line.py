"""`takeback sandbox ...` on real machines, as a person and as a program use it."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.cli.terminal import on_terminal
from tests.machines.client import leaks
from tests.support.cli import Home, Result, wait_for

Run = Callable[..., Result]


@pytest.fixture
def machines(home: Home, gvisor: tuple[str, Mapping[str, Any]], supervisor: Path) -> Iterator[Home]:
    """A home where runsc is found, and where nothing is left afterwards."""
    home.extra["PATH"] = f"{gvisor[0]}:{os.environ['PATH']}"
    home.extra["ROOTFS"] = gvisor[1]["root"]
    leaks.put_supervisor(supervisor, home.data)
    yield home
    assert leaks.settle(home.data) == ({}, set(), set())


@pytest.fixture
def tb(machines: Home) -> Run:
    def run(*words: str, as_json: bool = True, **more: Any) -> Result:
        return machines.tb(machines.path, "sandbox", *words, as_json=as_json, check=False, **more)

    return run


@pytest.fixture
def db(tb: Run, machines: Home) -> Iterator[str]:
    """A sandbox with the name db; its id."""
    made = tb("create", "--name", "db", "--image", machines.extra["ROOTFS"], "--env", "A=1", "--label", "team=x")
    assert made.code == 0, made.text
    yield made["sandbox"]["id"]
    tb("rm", "--yes", made["sandbox"]["id"])


def test_a_sandbox_is_made_used_and_removed(tb: Run, db: str) -> None:
    assert [one["id"] for one in tb("ls")["sandboxes"]] == [db]
    assert tb("ls", "--label", "team=y")["sandboxes"] == []
    done = tb("exec", "db", "--", "sh", "-c", 'echo $A "$@"; echo err >&2; exit 3', "sh", "-v")
    assert (done.code, done["exitCode"], done["stdout"], done["stderr"]) == (3, 3, "1 -v\n", "err\n")
    assert tb("ps", db[:8])["processes"][0]["exitCode"] == 3
    assert tb("pause", "db")["sandboxes"][0]["state"] == "paused"
    assert tb("wake", "db", db)["sandboxes"][0]["state"] == "running"
    assert tb("rm", "--yes", "db")["removed"] == [db]
    assert tb("ls", "--all")["sandboxes"] == []
    assert (tb("rm", "db").code, tb("rm", "db").error) == (2, "not-found")


def test_exec_passes_everything_through(tb: Run, db: str) -> None:
    plain = tb("exec", "db", r"printf 'a\377b'; printf e >&2; id -un; exit 7", as_json=False)
    assert (plain.code, plain.out, plain.err) == (7, b"a\xffbruntime\n", b"e")
    root = tb("exec", "--user", "root", "--cwd", "/tmp", "--env", "B=2", "db", "id -un; pwd; echo $B", as_json=False)
    assert root.out == b"root\n/tmp\n2\n"
    late = tb("exec", "--timeout", "1s", "db", "sleep 60", as_json=False)
    assert late.code == 124
    assert tb("exec", "db", "ls", "-d", "/tmp", as_json=False).out == b"/tmp\n"


@pytest.mark.long
def test_a_command_nobody_listens_to_any_more_is_ended(tb: Run, machines: Home, db: str) -> None:
    takeback = f"{sys.executable} -m takeback"
    machines.sh(machines.path, f"{takeback} sandbox exec db -- yes | head -1")
    wait_for(lambda: all(one["state"] != "running" for one in tb("ps", "db")["processes"]))
    said = machines.sh(machines.path, f"{takeback} sandbox exec db -- sh -c 'echo hi; exit 3' >&- || echo $?")
    assert said == b"3\n"


def test_files_are_copied_both_ways(tb: Run, db: str, tmp_path: Path) -> None:
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree" / "file").write_text("text")
    assert tb("cp", str(tmp_path / "tree"), "db:/workspace/tree").code == 0
    assert tb("cp", str(tmp_path / "tree" / "file"), "db:/workspace/")["path"] == "/workspace/file"
    assert tb("cp", "db:/workspace/tree", str(tmp_path / "back")).code == 0
    assert (tmp_path / "back" / "file").read_text() == "text"
    assert tb("cp", "db:/workspace/file", str(tmp_path / "one")).code == 0
    assert (tmp_path / "one").read_text() == "text"
    assert tb("cp", str(tmp_path), str(tmp_path / "x")).code == 2
    assert tb("cp", "db:/none", str(tmp_path / "x")).error == "file-not-found"


def test_a_shell_is_a_terminal(machines: Home, db: str) -> None:
    code, shown = on_terminal(
        machines, machines.path, "sandbox", "shell", "db", answer=b"stty size; echo $((40+2)); exit 5\n"
    )
    assert code == 5 and "42" in shown and "runtime@sandbox" in shown


def test_what_cannot_be_meant_is_said(tb: Run, machines: Home, db: str) -> None:
    image = ("--image", machines.extra["ROOTFS"])
    assert tb("create", "--name", "db", *image).error == "name-taken"
    assert tb("create", "--name", "db", "--reuse", *image)["sandbox"]["id"] == db
    assert tb("create", "--vcpu", "99", *image).error == "invalid-request"
    assert tb("create", "--memory", "10", *image).code == 2
    assert tb("create", "--image", "nothing").error == "image-not-found"
    assert tb("create", "--env", "novalue", *image).code == 2
    assert tb("lss").code == 2
    assert tb("exec", "nobody", "true").error == "not-found"


def test_a_table_has_no_head_for_programs(tb: Run, db: str) -> None:
    (line,) = tb("ls", as_json=False).out.decode().splitlines()
    assert line.split("\t")[:3] == [db, "db", "running"]


def test_what_it_may_reach_is_shown_and_changed(tb: Run, machines: Home) -> None:
    made = tb("create", "--name", "dark", "--image", machines.extra["ROOTFS"], "--offline")
    try:
        shown = tb("network", "dark")["network"]
        assert (shown["internet"], shown["version"], shown["sandboxId"]) == (False, 1, made["sandbox"]["id"])
        rules = ("--allow", "*.example.org", "--deny", "a.example.org", "--connect", "b.test:22")
        shown = tb("network", "dark", *rules)["network"]
        assert (shown["internet"], shown["allow"], shown["deny"], shown["connect"]) == (
            True, ["*.example.org"], ["a.example.org"], ["b.test:22"],
        )  # fmt: skip
        tb("exec", "dark", "curl -s http://c.test/")
        (entry,) = tb("network", "dark", "--log")["log"]
        assert (entry["host"], entry["allowed"]) == ("c.test", False) and "curl" in entry["step"]
        assert b"\trefused\tGET\tc.test:80\t" in tb("network", "dark", "--log", as_json=False).out
        assert tb("network", "dark", "--off")["network"]["internet"] is False
        assert tb("network", "dark", "--off", "--allow", "x.test").code == 2
        assert tb("network", "dark", "--allow", "http://x/").error == "bad-rule"
        assert tb("network", "dark", as_json=False).out == b"internet: off\n"
    finally:
        tb("rm", "--yes", "dark")
