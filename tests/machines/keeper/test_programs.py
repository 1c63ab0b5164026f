"""What a request means inside: user, environment, shell, signal; and what is said of what never ran."""

from __future__ import annotations

import errno
from typing import Any

import pytest

from takeback.errors import FileNotFound, InvalidRequest, NotStarted, PermissionDenied, ProcessLimit
from takeback.machines.channel.messages import Ended
from takeback.machines.keeper import programs
from tests.machines.keeper.samples import record


def not_started(number: int, stage: str, path: str = "/x") -> NotStarted:
    return NotStarted(program="prog", why="why", errno=number, stage=stage, path=path, next="")


def test_a_text_goes_to_the_shell_and_a_list_does_not() -> None:
    assert programs.command_of(record(), {"command": "ls"}, session=True).argv == ["bash", "-c", "ls"]
    listed = programs.command_of(record(), {"argv": ["ls", "-l"]}, session=False)
    assert listed.argv == ["ls", "-l"] and not listed.session and programs.other_shell(listed) is None
    other = programs.other_shell(programs.command_of(record(), {"command": "ls"}, session=True))
    assert other is not None and other.argv == ["sh", "-c", "ls"]


def test_the_environment_is_the_images_then_the_users_then_the_sandboxs_then_the_calls() -> None:
    command = programs.command_of(record(), {"command": "x", "env": {"MINE": "2"}}, session=True)
    assert command.env["LANG"] == "de" and command.env["MINE"] == "2" and command.env["HOME"] == "/workspace"
    assert command.env["PATH"].startswith("/workspace/.local/bin:") and "TERM" not in command.env
    assert programs.command_of(record(), {"command": "x", "pty": {"cols": 1, "rows": 2}}, session=True).pty == (1, 2)


@pytest.mark.parametrize(("user", "uid"), [(None, 1000), ("sandbox", 1000), ("runtime", 1000), ("root", 0)])
def test_users_are_the_images_or_root(user: str | None, uid: int) -> None:
    assert programs.account_of(record(), user).uid == uid
    assert programs.account_of(record(user="root"), None).uid == 0
    with pytest.raises(InvalidRequest):
        programs.account_of(record(), "www-data")


@pytest.mark.parametrize(
    "wrong", [{"timeout_ms": True}, {"timeout_ms": -1}, {"timeout_ms": 1.5}, {"env": {"": "x"}}, {"argv": ["a\0b"]}]
)
def test_what_cannot_be_meant_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequest):
        programs.command_of(record(), {"argv": ["x"], **wrong}, session=True)


@pytest.mark.parametrize("asked", [15, "15", "TERM", "SIGTERM", "sigterm"])
def test_a_signal_has_many_spellings(asked: object) -> None:
    assert programs.signal_number(asked) == 15


@pytest.mark.parametrize("asked", ["", "SIGNO", -1, 0, 900, None])
def test_no_signal_is_refused(asked: object) -> None:
    with pytest.raises(InvalidRequest):
        programs.signal_number(asked)


def test_what_never_ran_ends_as_in_a_shell() -> None:
    assert programs.code_of(not_started(errno.ENOENT, "cwd")) == 1
    assert programs.code_of(not_started(errno.ENOENT, "exec")) == 127
    assert programs.code_of(not_started(errno.EACCES, "exec")) == 126
    assert programs.line_of(not_started(errno.ENOENT, "cwd", "/a")) == b"takeback: cd: /a: No such file or directory\n"
    assert isinstance(programs.error_of(not_started(errno.ENOENT, "cwd"), "s"), FileNotFound)
    assert isinstance(programs.error_of(not_started(errno.EACCES, "exec"), "s"), PermissionDenied)
    assert isinstance(programs.error_of(not_started(errno.EAGAIN, "fork"), "s"), ProcessLimit)


def test_ends_have_the_codes_of_the_contract() -> None:
    assert programs.end_of("p1", Ended(3, None, False, 5, 7))["exitCode"] == 3
    killed = programs.end_of("p1", Ended(None, 9, False, 5, 7))
    assert (killed["exitCode"], killed["state"]) == (137, "killed")
    late = programs.end_of("p1", Ended(None, 9, True, 5, 7))
    assert (late["exitCode"], late["state"], late["timedOut"]) == (None, "timed_out", True)


def test_ids_of_processes_are_read_only_as_they_are_written() -> None:
    assert programs.number_of(programs.name_of(7)) == 7
    assert [programs.number_of(text) for text in ("", "7", "p7", "p0000000g", "p000000007", "x00000007")] == [None] * 6
